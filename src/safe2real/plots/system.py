"""A system: where its states lie, with start, costs and ends; or, without positions, which state leads to which.

`Places` and the functions around it put states on a map; pictures of policies are drawn on the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count
from safe2real.model.validation import Floats
from safe2real.plots.style import GREEN, INK, RED, explain, panel, shortened, write_title

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

_LARGEST_CELL, _WIDEST, _TALLEST = 0.95, 10.0, 8.5  # inches
_SAME = 9  # digits to which positions are compared
_NOTHING = 1e-9
_NAMED_CELL = 0.45  # inches from which on a cell has room for a name
_MOST_NAMED = 50  # states whose names are written
_MOST_CELLS = 500  # on a side; larger systems are drawn in groups
_SIDE = 7.0  # inches
_LONGEST = 20  # characters of a name
_STRIP = 0.16  # inches, of a column of marks


def draw_system(model: CMDP, *, title: str = "") -> Figure:
    """Draw a map where states have positions, else the matrix of transitions, the mean over actions and steps.

    Args:
        model: any system.
        title: in one line; by default its sizes and constraints.

    Returns:
        A figure; save it with `savefig`.
    """
    positions = model.legend.positions
    places = None if positions is None else places_of(positions)
    said = title or _title(model)
    return _draw_matrix(model, said) if places is None else _draw_map(model, places, said)


def _title(model: CMDP) -> str:
    asked = [one.requirement(float(at)) for one, at in zip(model.wordings, model.thresholds, strict=True)]
    sizes = f"{model.num_states:,} states, {model.num_actions} actions, {model.steps} steps"
    return "; ".join([sizes, *asked])[:140]


def _draw_map(model: CMDP, places: Places, title: str) -> Figure:
    figure, axes = map_figure(places, below=0.4)
    draw_cells(axes, places, np.tile(np.array([0.97, 0.98, 0.99, 1.0]), (len(places.centres), 1)))
    handles = mark_cells(axes, places, model)
    name_cells(axes, places, model)
    nowhere = int((places.of_state < 0).sum())
    words = f"\n{count(nowhere, 'state')} more, without a place" if nowhere else ""
    explain(figure, handles, len(handles))
    write_title(figure, 0.2, 0.3, title + words, 9)
    return figure


def _draw_matrix(model: CMDP, title: str) -> Figure:
    """Draw the transitions from states (down) to states (across), with marks for start, costs and ends."""
    states, group = model.num_states, -(-model.num_states // _MOST_CELLS)
    matrix = _mean_transitions(model, group)
    named = states <= _MOST_NAMED
    names = [model.legend.states[s] if model.legend.states else f"{s}" for s in range(states)] if named else []
    names = [shortened(name, _LONGEST) for name in names]
    margin = 0.15 + 0.065 * max(map(len, names), default=5)
    side = min(_SIDE, max(2.5, 0.26 * len(matrix)))
    handles = _kinds(model)
    left, below = 0.2 + margin + _STRIP * len(handles), 0.85 + margin
    figure = Figure(figsize=(max(left + side + 1.5, 7.0), 0.6 + side + below))
    axes = panel(figure, left, below, side, side)
    scale = ScalarMappable(Normalize(0.0, 1.0), cmap="Blues")
    axes.imshow(np.sqrt(matrix), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    ticks = range(states) if named else [tick for tick in axes.get_xticks() if 0 <= tick < len(matrix)]
    words = names if named else [f"{int(tick) * group:,}" for tick in ticks]
    axes.set_xticks(ticks, words, fontsize=7.5, rotation=90 if named else 0, parse_math=False)
    axes.set_yticks(ticks, words, fontsize=7.5, parse_math=False)
    axes.tick_params(length=2)
    axes.set_xlabel("from a state (down) to a state (across)" + ("" if group == 1 else f", the first of each {group}"))
    _draw_strips(axes, model, group, side, margin)
    bar = panel(figure, left + side + 0.2, below, 0.15, min(side, 2.5))
    figure.colorbar(scale, cax=bar).set_ticks([0.0, 0.1, 0.1**0.5, 0.3**0.5, 1.0], labels=["0", "0.01", "0.1", "0.3", "1"])
    bar.set_title("probability,\nmean over actions", fontsize=8, loc="left")
    explain(figure, [handle for handle, _ in handles], len(handles))
    write_title(figure, 0.2, 0.28, title, 9)
    return figure


def _mean_transitions(model: CMDP, group: int) -> Floats:
    """Return [n, n] transitions between groups of states, the mean over actions, steps and a group's states."""
    rows, after, probability = model.kernel.transitions()
    size = -(-model.num_states // group)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (rows // model.num_actions % model.num_states // group, after // group), probability)
    return np.asarray(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12))


def _kinds(model: CMDP) -> list[tuple[Line2D, Floats]]:
    """Return (legend handle, [S] weight of each state) for start, costs and ends, as far as there are some."""
    constraints = ", ".join(one.label[:30] for one in model.wordings)
    kinds = ((GREEN, "start", model.start), (RED, f"counts against {constraints}", losses(model)),
             (INK, "end", ends(model).astype(np.float64)))  # fmt: skip
    dot: dict[str, Any] = {"linestyle": "none", "marker": "s", "markersize": 6}
    return [(Line2D([], [], color=colour, label=words, **dot), values) for colour, words, values in kinds if values.any()]


def _draw_strips(axes: Axes, model: CMDP, group: int, side: float, margin: float) -> None:
    """Draw a column of marks for each kind, left of the names."""
    for number, (handle, values) in enumerate(_kinds(model)):
        here = np.unique(np.flatnonzero(values > 0.0) // group)
        across = -(margin + (number + 0.5) * _STRIP) / side
        size = max(3.0, min(6.0, 72.0 * side / (-(-model.num_states // group)) * 0.7))
        axes.plot(np.full(len(here), across), here, marker="s", markersize=size, linestyle="none", color=handle.get_color(),
                  transform=axes.get_yaxis_transform(), clip_on=False)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Places:
    """P places of states on a map; several states may share one, and some have none."""

    centres: Floats  # [P, 2] column and row, which goes down
    of_state: NDArray[np.int64]  # [S] its place, -1 for nowhere
    width: float  # of a cell
    height: float
    inches: float  # edge of a cell on paper

    def total(self, per_state: Floats) -> Floats:
        """Return [P, ...] the sum of [S, ...] over the states of each place."""
        lies = self.of_state >= 0
        result = np.zeros((len(self.centres), *per_state.shape[1:]))
        np.add.at(result, self.of_state[lies], per_state[lies])
        return result

    def most(self, per_state: Floats) -> Floats:
        """Return [P] the largest of [S] over the states of each place, at least 0."""
        lies, result = self.of_state >= 0, np.zeros(len(self.centres))
        np.maximum.at(result, self.of_state[lies], per_state[lies])
        return result


def places_of(positions: Floats) -> Places | None:
    """Return the places of positions [S, 2]; None if no state has a position."""
    lies = np.isfinite(positions).all(axis=1)
    if not lies.any():
        return None
    centres, index = np.unique(positions[lies].round(_SAME), axis=0, return_inverse=True)
    of_state = np.full(len(positions), -1)
    of_state[lies] = index.reshape(-1)
    width, height = (_spacing(centres[:, axis], len(centres)) for axis in (0, 1))
    across, down = (np.ptp(centres, axis=0) / (width, height) + 1.0).tolist()
    return Places(centres, of_state, width, height, min(_LARGEST_CELL, _WIDEST / across, _TALLEST / down))


def _spacing(values: Floats, count: int) -> float:
    """Return the distance of columns or rows; for points off a grid, one that gives each about the same room."""
    levels = np.unique(values)
    if len(levels) == 1:
        return 1.0
    scattered = len(levels) ** 2 > 4 * count and len(levels) > count // 2 and count > 3
    return float(np.ptp(levels) / np.sqrt(count)) if scattered else float(np.diff(levels).min())


def map_figure(places: Places, *, below: float) -> tuple[Figure, Axes]:
    """Make a figure with axes for the cells, and `below` inches for their legend."""
    across, down = (np.ptp(places.centres, axis=0) / (places.width, places.height) + 1.0).tolist()
    wide, tall = across * places.inches, down * places.inches
    figure = Figure(figsize=(max(wide + 0.4, 7.0), tall + 0.7 + below))
    axes = panel(figure, 0.2, below, wide, tall)
    (left, top), (right, bottom) = places.centres.min(axis=0), places.centres.max(axis=0)
    axes.set_xlim(left - 0.5 * places.width, right + 0.5 * places.width)
    axes.set_ylim(bottom + 0.5 * places.height, top - 0.5 * places.height)
    axes.set_axis_off()
    return figure, axes


def draw_cells(axes: Axes, places: Places, colours: NDArray[np.float64]) -> None:
    """Draw a square in its colour [P, 4] for each place."""
    corners = places.centres - 0.5 * np.array([places.width, places.height])
    squares = [Rectangle((x, y), places.width, places.height) for x, y in corners]
    line = 0.8 if places.inches > 0.15 else 0.2
    axes.add_collection(PatchCollection(squares, facecolors=list(colours), edgecolors="0.75", linewidths=line))


def mark_cells(axes: Axes, places: Places, model: CMDP) -> list[Artist]:
    """Mark start, costs and ends on the cells; return their legend handles."""
    handles: list[Artist] = []
    lost = places.most(losses(model))
    corners = places.centres - 0.5 * np.array([places.width, places.height])
    costly = [Rectangle((x, y), places.width, places.height) for x, y in corners[lost > _NOTHING]]
    if costly:
        style: dict[str, Any] = {"edgecolor": RED, "hatch": "///", "linewidth": 1.4 if places.inches > 0.15 else 0.5}
        axes.add_collection(PatchCollection(costly, facecolors="none", **style))
        words = ", ".join(f"{one.label[:30]}" for one in model.wordings)
        handles.append(Patch(facecolor="none", label=f"counts against {words}", **style))
    size = 72.0 * places.inches
    for states, marker, colour, words in ((ends(model), "s", INK, "end"), (model.start > 0.0, "o", GREEN, "start")):
        here = places.most(states.astype(np.float64)) > 0.0
        if here.any():
            drawn: dict[str, Any] = {"marker": marker, "linestyle": "none", "color": colour, "markerfacecolor": "none"}
            axes.plot(*places.centres[here].T, markersize=0.7 * size, markeredgewidth=min(2.0, 0.05 * size), **drawn)
            handles.append(Line2D([], [], markersize=9, markeredgewidth=1.6, label=words, **drawn))
    return handles


def name_cells(axes: Axes, places: Places, model: CMDP) -> None:
    """Write the names of states in the upper left of their cells, if there is room; of several the first."""
    names = model.legend.states
    if not names or places.inches < _NAMED_CELL:
        return
    room = int(places.inches / 0.062)  # characters
    first = [names[int(np.flatnonzero(places.of_state == place)[0])] for place in range(len(places.centres))]
    if np.median([len(name) for name in first]) > room:
        return  # cut off they would all look alike
    behind = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.4}
    for name, (x, y) in zip(first, places.centres, strict=True):
        corner = (x - 0.46 * places.width, y - 0.46 * places.height)
        axes.text(
            *corner, shortened(name, room), fontsize=6.5, color=INK, ha="left", va="top", parse_math=False, bbox=behind
        )


def losses(model: CMDP) -> Floats:
    """Return [S] the largest loss of a constraint's utility by an action in each state, relative to the largest of all."""
    worst = np.zeros(model.num_states)
    for utility in model.utilities:
        lost = (utility.max() - utility).max(axis=(0, 2))
        if lost.max() > 0.0:
            worst = np.maximum(worst, lost / lost.max())
    return worst


def ends(model: CMDP) -> NDArray[np.bool_]:
    """Return [S] the ends: states that no action leaves, or leaves only for such a state without a place."""
    kernel = model.kernel
    stays = np.ones(model.num_states, dtype=np.bool_)
    rows, after, _ = kernel.transitions()
    state = rows // model.num_actions % model.num_states
    stays[state[state != after]] = False
    positions = model.legend.positions
    if positions is None:
        return stays
    over = stays & np.isnan(positions).any(axis=1)
    leads = np.ones(model.num_states, dtype=np.bool_)
    leads[state[~over[after]]] = False
    return stays | leads
