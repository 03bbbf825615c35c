"""The pictures of a campaign: its certificate over time, the safety of each deployment, and where the simulator is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from safe2real.evidence.hybrid import Separation
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.model.checks import Floats

_BLUE, _ORANGE, _GREEN, _GREY, _RED = "#2563a8", "#d9730d", "#2e8b57", "#6b7280", "#b91c1c"
_FEW = 60  # deployments that are drawn as dots
_POINTS = 1_000  # columns of a curve; a picture has not many more
_MOST_PANELS = 6
_MOST_CELLS = 20_000  # of a map; larger ones are drawn in groups
_MOST_ACTIONS = 60
_MAP_WIDTH, _MAP_HEIGHT = 11.0, 12.0  # inches
_BETWEEN_BANDS = 0.42
_LARGEST_CELL, _SMALLEST_DETAILED_CELL = 0.42, 0.12
_RARE = 0.06  # of the cells of a band
_BARS = 20
ROUNDING = 1e-9  # as in `Certificate.holds`


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """What was handed out, deployment after deployment [n], and what was known at some moments [m]."""

    numbers: NDArray[np.int64]  # [n]
    baseline: NDArray[np.bool_]  # [n] Line 5: the baseline alone
    uncertainty: Floats  # [n] Delta; nan where it is unbounded
    exploration_weight: Floats  # [n] alpha
    margins: Floats  # [n, K] lower bound minus threshold
    looked_at: NDArray[np.int64]  # [m] deployments handed out then
    suspects: NDArray[np.int64]  # [m]
    stop: tuple[int, float] | None  # (deployments, Delta) when it stopped


def draw_certificate(course: Course, tolerance: float, horizon: int) -> Figure:
    """Delta on its way to the tolerance; below it alpha and the suspects."""
    figure = Figure(figsize=(10.5, 5.8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, 1.0))
    planned = np.flatnonzero(~np.isnan(course.uncertainty))
    kept = planned[thinned(course.uncertainty[planned])]
    dots = "." if len(course.numbers) <= _FEW else ""  # one point alone is no line
    upper.plot(
        course.numbers[kept], course.uncertainty[kept], color=_BLUE, linewidth=1.2, marker=dots,
        label="certificate $\\Delta$",
    )  # fmt: skip
    upper.axhline(tolerance, color="black", linestyle="--", linewidth=1.0, label=f"tolerance $\\tau$ = {tolerance:.4g}")
    if course.baseline.any():
        alone = course.numbers[course.baseline]
        width = max(1, math.ceil(course.numbers[-1] / _POINTS))
        ticks = np.unique(alone // width) * width
        rounds = f"baseline alone (Line 5): {len(alone):,} of {len(course.numbers):,} rounds"
        upper.plot(
            ticks, np.full(len(ticks), 0.97), "|", color=_ORANGE, markersize=9, label=rounds,
            transform=upper.get_xaxis_transform(),
        )  # fmt: skip
    if course.stop is not None:
        at, delta = course.stop
        upper.plot(
            [at], [delta], "*", color=_GREEN, markersize=15, markeredgecolor="white", zorder=4, clip_on=False,
            label=f"stopped after {at:,} rounds, $\\Delta$ = {delta:.4g}",
        )  # fmt: skip
    values = np.append(course.uncertainty[planned], [tolerance, tolerance if len(planned) else float(horizon)])
    upper.set_yscale("log")
    upper.set_ylim(0.75 * values.min(), 2.0 * values.max())
    upper.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    upper.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    upper.yaxis.set_minor_formatter(NullFormatter())
    upper.set_ylabel("largest uncertainty of a value\n(sum over an episode, log scale)")
    figure.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    upper.grid(axis="y", color="0.92")

    kept = thinned(course.exploration_weight)
    lower.plot(course.numbers[kept], course.exploration_weight[kept], color=_ORANGE, linewidth=0.7, marker=dots)
    lower.set_ylim(-0.03, 1.03)
    lower.set_ylabel("exploration weight $\\alpha$", color=_ORANGE)
    lower.tick_params(axis="y", colors=_ORANGE)
    right = lower.twinx()
    right.step(course.looked_at, course.suspects, where="post", color=_GREEN, linewidth=1.4)
    right.set_ylim(0, max(1.0, 1.06 * course.suspects.max(initial=1)))
    right.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    right.set_ylabel("suspect rows", color=_GREEN)
    right.tick_params(axis="y", colors=_GREEN)
    _deployments_below(lower, course)
    return figure


def draw_safety(course: Course, names: Sequence[str], thresholds: Floats) -> Figure:
    """For every constraint by how much the certified lower bound of each deployment exceeds the threshold."""
    worst_first = np.argsort(course.margins.min(axis=0), kind="stable")
    shown = sorted(worst_first[:_MOST_PANELS].tolist())
    figure = Figure(figsize=(10.5, 1.1 + 2.4 * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, k in zip(panels, shown, strict=True):
        margins = course.margins[:, k]
        for mask, colour, marker in ((course.baseline, _ORANGE, "s"), (~course.baseline, _BLUE, "o")):
            chosen = np.flatnonzero(mask)
            chosen = chosen[thinned(margins[chosen])]
            axes.plot(course.numbers[chosen], margins[chosen], marker, color=colour, markersize=3.5, markeredgewidth=0.0)
        broken = np.flatnonzero(margins < -ROUNDING)
        axes.plot(course.numbers[broken], margins[broken], "x", color=_RED, markersize=8, markeredgewidth=2.0)
        axes.axhline(0.0, color="black", linestyle="--", linewidth=1.0, zorder=4)
        low, high = min(0.0, margins.min()), max(0.0, margins.max())
        room = 0.12 * (high - low) if high - low > 1e-6 else 0.5
        axes.set_ylim(low - room, high + room)
        axes.set_title(f"{names[k][:80]} (threshold {thresholds[k]:.6g})", fontsize=10, parse_math=False)
        axes.set_ylabel("lower bound on $V_c$\nminus threshold")
        axes.grid(axis="y", color="0.92")
    handles: list[Artist] = [
        Line2D([], [], marker="s", linestyle="none", color=_ORANGE, label="baseline alone (Line 5)"),
        Line2D([], [], marker="o", linestyle="none", color=_BLUE, label="candidate mixed with the baseline (Line 13)"),
        Line2D([], [], linestyle="--", color="black", label="threshold"),
    ]
    if (course.margins < -ROUNDING).any():
        cross = {"marker": "x", "linestyle": "none", "color": _RED, "markeredgewidth": 2.0}
        handles.append(Line2D([], [], label="below the threshold", **cross))  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=9, frameon=False)
    _deployments_below(panels[-1], course)
    return figure


def thinned(values: Floats) -> NDArray[np.int64]:
    """Which points of a long curve to draw: the lowest and the highest of each column, and every one below 0."""
    if len(values) <= 2 * _POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), _POINTS + 1).astype(np.int64)
    lowest = [first + int(np.argmin(values[first:last])) for first, last in pairwise(edges)]
    highest = [first + int(np.argmax(values[first:last])) for first, last in pairwise(edges)]
    return np.unique(np.concatenate([lowest, highest, np.flatnonzero(values < -ROUNDING), [0, len(values) - 1]]))


def _deployments_below(axes: Axes, course: Course) -> None:
    last = int(course.numbers[-1])
    room = max(0.5, 0.01 * last)
    axes.set_xlim(1 - room, last + room)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("deployment")


# The map

_MARKS: dict[Verdict, tuple[str, str, str]] = {  # marker, colour, what it means
    Verdict.OPEN: ("o", "#374151", "open: right or wrong, not known yet"),
    Verdict.WRONG: ("X", "black", "wrong: the simulator is off here"),
    Verdict.CLEARED: (".", "#15803d", "cleared: as the simulator says"),
    Verdict.KNOWN: ("s", "#1d4ed8", "declared known"),
    Verdict.CONTRADICTED: ("*", "#c026d3", "contradicted: an assumption is refuted"),
}
# When several rows share a cell it shows the one that matters most.
_WEIGHT = {Verdict.KNOWN: 0, Verdict.CLEARED: 1, Verdict.OPEN: 2, Verdict.WRONG: 3, Verdict.CONTRADICTED: 4}


def draw_mismatch(found: MismatchMap, separation: Separation | None) -> Figure:
    """States from left to right, in bands when there are many; actions from top to bottom; a mark for every verdict.

    For dynamics that change with the step, and for systems too large to be drawn row by row, a cell shows the largest
    estimate and the gravest verdict of its rows.
    """
    distance, verdict = found.distance, found.verdict
    if distance.ndim == 3:
        distance, verdict = _largest(distance), _gravest(verdict)
    num_states, num_actions = distance.shape
    by_actions = math.ceil(num_actions / _MOST_ACTIONS)
    by_states = math.ceil(num_states * math.ceil(num_actions / by_actions) / _MOST_CELLS)
    distance, verdict = _grouped(distance, verdict, by_states, by_actions)
    columns, rows = distance.shape
    in_band, cell = _bands(columns, rows)
    bands = math.ceil(columns / in_band)
    detailed = cell >= _SMALLEST_DETAILED_CELL

    width = in_band * cell
    legend = _legend_of(found, bool(np.isnan(distance).any()), detailed)
    beside = 3 if width > 8.0 else 2
    left, right, top, bottom = 0.75, 1.4, 0.75, 0.62 + 0.22 * math.ceil(len(legend) / beside)
    height = bands * rows * cell + (bands - 1) * _BETWEEN_BANDS
    figure = Figure(figsize=(max(left + width + right, 8.2), top + height + bottom))
    total_width, total_height = figure.get_size_inches()
    scale = ScalarMappable(Normalize(0.0, 1.0), cmap="YlOrRd")
    for band in range(bands):
        first, last = band * in_band, min(columns, (band + 1) * in_band)
        above = top + band * (rows * cell + _BETWEEN_BANDS)
        place = (left, total_height - above - rows * cell, (last - first) * cell, rows * cell)
        axes = figure.add_axes(
            (place[0] / total_width, place[1] / total_height, place[2] / total_width, place[3] / total_height)
        )
        _draw_band(axes, distance[first:last], verdict[first:last], scale, cell)
        _label_band(axes, first, last, rows, cell, by_states, by_actions)
        if band == bands - 1:
            axes.set_xlabel(_axis_name("state", by_states))
    figure.text(
        0.22 / total_width, 1.0 - (top + height / 2) / total_height, _axis_name("action", by_actions),
        rotation="vertical", ha="center", va="center", fontsize=10,
    )  # fmt: skip
    tall = min(height, 3.0)
    bar = figure.add_axes(
        (
            (left + width + 0.4) / total_width,
            (total_height - top - tall) / total_height,
            0.16 / total_width,
            tall / total_height,
        )
    )
    figure.colorbar(scale, cax=bar)
    bar.set_title("estimated\nTV distance", fontsize=9, loc="left")
    if separation is not None:
        for gap, word in ((separation.calibrated_gap, "$\\varepsilon_s$"), (separation.mismatch_gap, "$\\sigma_s$")):
            bar.axhline(gap, color="black", linewidth=1.5)
            bar.text(-0.25, gap, word, ha="right", va="center", fontsize=8, transform=bar.get_yaxis_transform())
    per_step = ", the largest over the steps" if found.visits.ndim == 3 else ""
    words = "" if found.certified else " (heuristic radius)"
    title = f"Distance of the real rows to the simulator's{per_step}{words}"
    figure.text(left / total_width, 1.0 - 0.3 / total_height, title, fontsize=11)
    figure.legend(
        handles=legend, loc="lower left", bbox_to_anchor=(left / total_width, 0.08 / total_height), ncols=beside,
        fontsize=8.5, frameon=False, borderaxespad=0.0, borderpad=0.0,
    )  # fmt: skip
    return figure


def _draw_band(axes: Axes, distance: Floats, verdict: NDArray[np.uint8], scale: ScalarMappable, cell: float) -> None:
    colours = scale.to_rgba(np.nan_to_num(distance.T))
    unseen = np.isnan(distance.T)
    colours[unseen] = (0.9, 0.91, 0.92, 1.0)
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    if cell >= _SMALLEST_DETAILED_CELL:
        squares = [Rectangle((x - 0.5, y - 0.5), 1.0, 1.0) for y, x in np.argwhere(unseen)]
        axes.add_collection(PatchCollection(squares, facecolor="none", edgecolor="0.72", hatch="////", linewidth=0.0))
        for line in range(distance.shape[0] + 1):
            axes.axvline(line - 0.5, color="white", linewidth=0.8)
        for line in range(distance.shape[1] + 1):
            axes.axhline(line - 0.5, color="white", linewidth=0.8)
    for kind in _MARKS:
        if kind is Verdict.OPEN and cell < _SMALLEST_DETAILED_CELL:
            continue  # thousands of rings would hide the colours
        rare = float((verdict == kind).mean()) < _RARE
        for dark in (False, True):  # a ring is white where the colour below it is dark
            x, y = np.nonzero((verdict == kind) & ((distance > 0.6) == dark))
            style = _mark(kind, cell * 72.0, rare=rare) | ({"color": "white"} if dark and kind is Verdict.OPEN else {})
            axes.plot(x, y, **style)  # type: ignore[arg-type]


def _mark(kind: Verdict, cell: float, *, rare: bool = False) -> dict[str, object]:
    """How to draw a verdict in a cell of that many points; a rare one may be larger than its cell."""
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


def _label_band(axes: Axes, first: int, last: int, rows: int, cell: float, by_states: int, by_actions: int) -> None:
    every = max(1, math.ceil(0.3 / cell))
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step >= every)
    columns = [column for column in range(first, last) if column % every == 0]
    axes.set_xticks([column - first for column in columns], [f"{column * by_states}" for column in columns], fontsize=8)
    every = max(1, math.ceil(0.16 / cell))
    lines = range(0, rows, every)
    axes.set_yticks(list(lines), [f"{line * by_actions}" for line in lines], fontsize=8)
    axes.tick_params(length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


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


def _bands(columns: int, rows: int) -> tuple[int, float]:
    """(cells in a band, edge of a cell in inches): the largest cells that fit."""
    best = (columns, min(_LARGEST_CELL, _MAP_WIDTH / columns, _MAP_HEIGHT / rows))
    for bands in range(2, columns + 1):
        in_band = math.ceil(columns / bands)
        cell = min(_LARGEST_CELL, _MAP_WIDTH / in_band)
        if bands * (rows * cell + _BETWEEN_BANDS) > _MAP_HEIGHT or best[1] >= 0.25:
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
    states = np.arange(math.ceil(distance.shape[0] / by_states) * by_states).clip(max=distance.shape[0] - 1)
    actions = np.arange(math.ceil(distance.shape[1] / by_actions) * by_actions).clip(max=distance.shape[1] - 1)
    shape = (len(states) // by_states, by_states, len(actions) // by_actions, by_actions)
    members = (1, 3, 0, 2)
    flat = (by_states * by_actions, shape[0], shape[2])
    cells = distance[np.ix_(states, actions)].reshape(shape).transpose(members).reshape(flat)
    kinds = verdict[np.ix_(states, actions)].reshape(shape).transpose(members).reshape(flat)
    return _largest(cells), _gravest(kinds)


def draw_visits_needed(found: MismatchMap) -> Figure | None:
    """The open rows that are farthest from being cleared; None when no number of visits is known to help any."""
    waiting = (found.verdict == Verdict.OPEN) & np.isfinite(found.visits_needed)
    rows = np.argwhere(waiting)
    if len(rows) == 0:
        return None
    needed, visits = found.visits_needed[waiting], found.visits[waiting]
    order = np.argsort(-needed, kind="stable")[:_BARS]
    places = np.arange(len(order))
    figure = Figure(figsize=(10.5, 1.1 + 0.24 * len(order)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(places, needed[order], color=_BLUE)
    for place, index in zip(places, order, strict=True):
        axes.annotate(
            f"{needed[index]:,.0f} ({visits[index]:,} so far)", (needed[index], place), (4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    axes.set_yticks(places, [row_name(rows[index].tolist()) for index in order], fontsize=8)
    axes.invert_yaxis()
    longest = float(needed[order].max())
    if longest > 20.0 * float(np.median(needed[order])):  # a few would hide the others
        axes.set_xscale("log")
        axes.set_xlim(0.5 * float(needed[order].min()), 4.0 * longest)
    else:
        axes.set_xlim(0.0, 1.2 * longest)
    axes.margins(y=0.02)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("visits needed until the row is cleared, if its estimate stays")
    which = f"all {len(rows)}" if len(order) == len(rows) else f"the {len(order)} that need most, of {len(rows):,}"
    axes.set_title(f"Visits that open rows still need: {which}", fontsize=11, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def row_name(index: Sequence[int]) -> str:
    """A row of a map in words."""
    words = ("step", "state", "action") if len(index) == 3 else ("state", "action")
    return ", ".join(f"{word} {value}" for word, value in zip(words, index, strict=True))
