"""Where the simulator is wrong, in pictures: a map of all rows, and the visits that open rows still need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.evidence.row_rule import Separation
from safe2real.model.constraint_text import roughly
from safe2real.model.names import Legend
from safe2real.model.validation import Floats
from safe2real.plots.style import BLUE, explain, panel, shortened

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FuncFormatter

_MOST_CELLS = 20_000  # of a map; larger ones are drawn in groups
_MOST_ACTIONS = 60
_MAP_WIDTH, _MAP_HEIGHT = 7.5, 12.0  # inches: small print stays readable in a column of a page
_BETWEEN_BANDS = 0.42
_LARGEST_CELL, _SMALLEST_DETAILED_CELL = 0.42, 0.12
_RARE = 0.06  # of the cells of a band
_BARS = 20
_MOST_NAMED = 240  # states whose names are written
_NAMES_APART = 0.12  # inches from one upright name to the next
_LONGEST_NAME = 20  # characters of a name beside a map
_GAP_NAME = 0.28  # inches, the height of the name of a gap beside the scale
_CHARACTER = 0.066  # inches, of the small print on axes

_MARKS: dict[Verdict, tuple[str, str, str]] = {  # marker, colour, meaning
    Verdict.OPEN: ("o", "#374151", "open: right or wrong, not known yet"),
    Verdict.WRONG: ("X", "black", "wrong: the simulator is off here"),
    Verdict.CLEARED: (".", "#15803d", "cleared: as the simulator says"),
    Verdict.KNOWN: ("s", "#1d4ed8", "declared known"),
    Verdict.CONTRADICTED: ("*", "#c026d3", "contradicted: an assumption is refuted"),
}
# When several rows share a cell it shows the one that matters most.
_WEIGHT = {Verdict.KNOWN: 0, Verdict.CLEARED: 1, Verdict.OPEN: 2, Verdict.WRONG: 3, Verdict.CONTRADICTED: 4}


def draw_mismatch(found: MismatchMap, separation: Separation | None, *, above: float = 0.0) -> Figure:
    """Draw the mismatch map: states from left to right, actions from top to bottom, a mark for every verdict.

    Many states are drawn in bands. For dynamics that change with the step, and for systems too large to be drawn row by row,
    a cell shows the largest estimate and the gravest verdict of its rows. Names of the legend are written where there are
    few.

    Args:
        found: the map.
        separation: the gaps that are marked on the scale; None where the simulator is not reused.
        above: inches to leave free above it, for other pictures.

    Returns:
        A figure; save it with `savefig`.
    """
    distance, verdict = found.distance, found.verdict
    if distance.ndim == 3:
        distance, verdict = _largest(distance), _gravest(verdict)
    num_states, num_actions = distance.shape
    by_actions = math.ceil(num_actions / _MOST_ACTIONS)
    by_states = math.ceil(num_states * math.ceil(num_actions / by_actions) / _MOST_CELLS)
    distance, verdict = _grouped(distance, verdict, by_states, by_actions)
    columns, rows = distance.shape
    names = _names(found.legend, num_states, by_states, by_actions)
    below_band = _CHARACTER * max(map(len, names.states), default=0)
    in_band, cell = _bands(columns, rows, _BETWEEN_BANDS + below_band)
    bands = math.ceil(columns / in_band)
    detailed = cell >= _SMALLEST_DETAILED_CELL

    width = in_band * cell
    legend = _legend_of(found, bool(np.isnan(distance).any()), detailed)
    beside = 3 if width > 8.0 else 2
    left, right, top = 0.75 + _CHARACTER * max(map(len, names.actions), default=0), 1.8, 0.75 + above
    bottom = 0.62 + 0.22 * math.ceil(len(legend) / beside) + below_band
    between = _BETWEEN_BANDS + below_band
    height = bands * rows * cell + (bands - 1) * between
    figure = Figure(figsize=(max(left + width + right, 8.2), top + height + bottom))
    total_width, total_height = figure.get_size_inches()
    scale = ScalarMappable(Normalize(0.0, 1.0), cmap="YlOrRd")
    for band in range(bands):
        first, last = band * in_band, min(columns, (band + 1) * in_band)
        below = total_height - (top + band * (rows * cell + between)) - rows * cell
        axes = panel(figure, left, below, (last - first) * cell, rows * cell)
        _draw_band(axes, distance[first:last], verdict[first:last], scale, cell)
        _label_band(axes, first, last, rows, cell, by_states, by_actions, names)
        if band == bands - 1:
            axes.set_xlabel(_axis_name("state", by_states))
    figure.text(
        0.22 / total_width, 1.0 - (top + height / 2) / total_height, _axis_name("action", by_actions),
        rotation="vertical", ha="center", va="center", fontsize=10,
    )  # fmt: skip
    tall = min(height, 3.0)
    bar = panel(figure, left + width + 0.8, total_height - top - tall, 0.16, tall)
    figure.colorbar(scale, cax=bar)
    bar.set_title("estimated\nTV distance", fontsize=9, loc="left")
    if separation is not None:
        low, high = separation.calibrated_gap, separation.mismatch_gap
        apart = 0.5 * max(0.0, _GAP_NAME / tall - (high - low))
        for gap, at, word in ((low, low - apart, "calibrated\ngap"), (high, high + apart, "mismatch\ngap")):
            bar.axhline(gap, color="black", linewidth=1.5)
            bar.text(-0.25, at, word, ha="right", va="center", fontsize=7, transform=bar.get_yaxis_transform())
    per_step = ", the largest over the steps" if found.visits.ndim == 3 else ""
    words = "" if found.certified else " (heuristic radius)"
    title = f"Distance of the real rows to the simulator's{per_step}{words}"
    figure.text(left / total_width, 1.0 - (above + 0.3) / total_height, title, fontsize=11)
    explain(figure, legend, beside, left)
    return figure


def _draw_band(axes: Axes, distance: Floats, verdict: NDArray[np.uint8], scale: ScalarMappable, cell: float) -> None:
    colours = scale.to_rgba(np.nan_to_num(distance.T))
    unseen = np.isnan(distance.T)
    colours[unseen] = (0.9, 0.91, 0.92, 1.0)
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    if cell >= _SMALLEST_DETAILED_CELL:
        squares = [Rectangle((x - 0.5, y - 0.5), 1.0, 1.0) for y, x in np.argwhere(unseen)]
        axes.add_collection(PatchCollection(squares, facecolor="none", edgecolor="0.72", hatch="////", linewidth=0.0))
        for draw, lines in ((axes.axvline, distance.shape[0] + 1), (axes.axhline, distance.shape[1] + 1)):
            for line in range(lines):
                draw(line - 0.5, color="white", linewidth=0.8)
    for kind in _MARKS:
        if kind is Verdict.OPEN and cell < _SMALLEST_DETAILED_CELL:
            continue  # thousands of rings would hide the colours
        rare = float((verdict == kind).mean()) < _RARE
        for dark in (False, True):  # a ring is white where the colour below it is dark
            x, y = np.nonzero((verdict == kind) & ((distance > 0.6) == dark))
            style = _mark(kind, cell * 72.0, rare=rare) | ({"color": "white"} if dark and kind is Verdict.OPEN else {})
            axes.plot(x, y, **style)  # type: ignore[arg-type]


def _mark(kind: Verdict, cell: float, *, rare: bool = False) -> dict[str, object]:
    """Return the style of a verdict in a cell of `cell` points; a rare one may be larger than its cell."""
    marker, colour, _ = _MARKS[kind]
    shares = {Verdict.OPEN: 0.3, Verdict.CLEARED: 0.5, Verdict.KNOWN: 0.36, Verdict.WRONG: 0.5, Verdict.CONTRADICTED: 0.7}
    size = shares[kind] * cell
    if rare and kind in (Verdict.WRONG, Verdict.CONTRADICTED):
        size = max(size, 6.0 if kind is Verdict.WRONG else 9.0)  # to be found in a large map too
    style: dict[str, object] = {"marker": marker, "linestyle": "none", "color": colour, "markersize": size}
    style["markeredgewidth"] = min(1.0, 0.1 * size)
    if kind in (Verdict.OPEN, Verdict.KNOWN):
        style["markerfacecolor"] = "none"
    elif kind is not Verdict.CLEARED:
        style["markeredgecolor"] = "white"
    return style


def _label_band(
    axes: Axes, first: int, last: int, rows: int, cell: float, by_states: int, by_actions: int, names: Legend
) -> None:
    every = max(1, math.ceil(0.3 / cell))
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step >= every)
    columns = [column for column in range(first, last) if column % every == 0]
    if names.states:
        places = range(0, last - first, max(1, math.ceil(_NAMES_APART / cell)))
        words = [names.states[first + place] for place in places]
        axes.set_xticks(list(places), words, fontsize=7, rotation=90, parse_math=False)
    else:
        axes.set_xticks([column - first for column in columns], [f"{column * by_states}" for column in columns], fontsize=8)
    every = max(1, math.ceil(0.16 / cell))
    lines = range(0, rows, every)
    words = [names.actions[line] if names.actions else f"{line * by_actions}" for line in lines]
    axes.set_yticks(list(lines), words, fontsize=8, parse_math=False)
    axes.tick_params(length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _names(legend: Legend, num_states: int, by_states: int, by_actions: int) -> Legend:
    """Return the names beside the map: of ungrouped states and actions, and of states only if they are few."""
    states = legend.states if by_states == 1 and num_states <= _MOST_NAMED else ()
    actions = legend.actions if by_actions == 1 else ()
    short = [tuple(shortened(name, _LONGEST_NAME) for name in names) for names in (states, actions)]
    return Legend(short[0], short[1])


def _axis_name(name: str, group: int) -> str:
    return name if group == 1 else f"{name} (first of each group of {group})"


def _legend_of(found: MismatchMap, unseen: bool, detailed: bool) -> list[Artist]:
    handles: list[Artist] = []
    if unseen:
        handles.append(Patch(facecolor="#e5e7eb", hatch="////" if detailed else "", edgecolor="0.72", label="not visited"))
    for kind, (_, _, meaning) in _MARKS.items():
        if count := found.count(kind):
            hidden = kind is Verdict.OPEN and not detailed
            style = _mark(kind, 14.0) | ({"marker": "none"} if hidden else {})
            words = f"{meaning} ({count:,} row{'' if count == 1 else 's'}{', no mark' if hidden else ''})"
            handles.append(Line2D([], [], label=words, **style))  # type: ignore[arg-type]
    return handles


def _bands(columns: int, rows: int, between: float) -> tuple[int, float]:
    """Return (cells in a band, edge of a cell in inches) for the largest cells that fit."""
    best = (columns, min(_LARGEST_CELL, _MAP_WIDTH / columns, _MAP_HEIGHT / rows))
    for bands in range(2, columns + 1):
        in_band = math.ceil(columns / bands)
        cell = min(_LARGEST_CELL, _MAP_WIDTH / in_band)
        if bands * (rows * cell + between) > _MAP_HEIGHT or best[1] >= 0.25:
            break
        best = (in_band, cell)
    return best


def _largest(distance: Floats) -> Floats:
    """Over the first axis; nan only where all are."""
    largest = np.max(np.nan_to_num(distance, nan=-1.0), axis=0)
    return np.where(largest < 0.0, np.nan, largest)


def _gravest(verdict: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Over the first axis."""
    weights = np.array([_WEIGHT[Verdict(kind)] for kind in range(len(_WEIGHT))])
    kinds = np.array(sorted(_WEIGHT, key=lambda kind: _WEIGHT[kind]), dtype=np.uint8)
    return np.asarray(kinds[weights[verdict].max(axis=0)])


def _grouped(
    distance: Floats, verdict: NDArray[np.uint8], by_states: int, by_actions: int
) -> tuple[Floats, NDArray[np.uint8]]:
    """One cell for `by_states` x `by_actions` rows; the last groups are filled up with copies of the last row."""
    if by_states == by_actions == 1:
        return distance, verdict
    fill = [(0, -size % group) for size, group in zip(distance.shape, (by_states, by_actions), strict=True)]

    def members(array: NDArray[Any]) -> NDArray[Any]:
        filled = np.pad(array, fill, mode="edge")
        shape = (filled.shape[0] // by_states, by_states, filled.shape[1] // by_actions, by_actions)
        return filled.reshape(shape).transpose(1, 3, 0, 2).reshape(by_states * by_actions, shape[0], shape[2])

    return _largest(members(distance)), _gravest(members(verdict))


def draw_visits_needed(found: MismatchMap) -> Figure | None:
    """Draw the open rows that need the most visits; None if no number of visits would clear a row."""
    waiting = (found.verdict == Verdict.OPEN) & np.isfinite(found.visits_needed)
    rows = np.argwhere(waiting)
    if len(rows) == 0:
        return None
    needed, visits = found.visits_needed[waiting], found.visits[waiting]
    order = np.argsort(-needed, kind="stable")[:_BARS]
    places = np.arange(len(order))
    figure = Figure(figsize=(10.5, 1.1 + 0.24 * len(order)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(places, needed[order], color=BLUE)
    for place, index in zip(places, order, strict=True):
        said = f"{roughly(needed[index])} more ({visits[index]:,} so far)"
        axes.annotate(said, (needed[index], place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(places, [found.row_name(rows[index].tolist()) for index in order], fontsize=8, parse_math=False)
    axes.invert_yaxis()
    longest = float(needed[order].max())
    if longest > 20.0 * float(np.median(needed[order])):  # a few would hide the others
        axes.set_xscale("log")
        axes.set_xlim(0.5 * float(needed[order].min()), 4.0 * longest)
    else:
        axes.set_xlim(0.0, 1.2 * longest)
    axes.margins(y=0.02)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("further visits until the row is cleared, if it stays as estimated")
    which = f"all {len(rows)}" if len(order) == len(rows) else f"the {len(order)} that need most, of {len(rows):,}"
    axes.set_title(f"Visits that open rows still need: {which}", fontsize=11, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
