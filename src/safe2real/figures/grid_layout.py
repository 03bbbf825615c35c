"""States where they lie: cells of a map, with what every picture of one shows of them: start, costs, ends, names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.figures.style import GREEN, INK, RED
from safe2real.model.cmdp import CMDP
from safe2real.model.validation import Floats

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

_LARGEST_CELL, _WIDEST, _TALLEST = 0.95, 10.0, 8.5  # inches
_SAME = 9  # digits to which positions are compared
_NOTHING = 1e-9
_NAMED_CELL = 0.45  # inches from which on a cell has room for a name


@dataclass(frozen=True, eq=False, slots=True)
class Places:
    """P places where states lie; several states may share one, and some lie nowhere."""

    centres: Floats  # [P, 2] column and row, which goes down
    of_state: NDArray[np.int64]  # [S] its place, -1 for nowhere
    width: float  # of a cell
    height: float
    inches: float  # edge of a cell on paper

    def total(self, per_state: Floats) -> Floats:
        """[P, ...] the sum of [S, ...] over the states of each place."""
        lies = self.of_state >= 0
        result = np.zeros((len(self.centres), *per_state.shape[1:]))
        np.add.at(result, self.of_state[lies], per_state[lies])
        return result

    def most(self, per_state: Floats) -> Floats:
        """[P] the largest of [S] over the states of each place, at least 0."""
        lies, result = self.of_state >= 0, np.zeros(len(self.centres))
        np.maximum.at(result, self.of_state[lies], per_state[lies])
        return result


def places_of(positions: Floats) -> Places | None:
    """The places of positions [S, 2]; None where no state lies anywhere."""
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
    """From one column or row to the next; of points that lie in no grid, what gives each about the same room."""
    levels = np.unique(values)
    if len(levels) == 1:
        return 1.0
    scattered = len(levels) ** 2 > 4 * count and len(levels) > count // 2 and count > 3
    return float(np.ptp(levels) / np.sqrt(count)) if scattered else float(np.diff(levels).min())


def map_figure(places: Places, *, below: float, least: float = 7.0) -> tuple[Figure, Axes]:
    """A figure with axes for the cells, and so many inches `below` for what explains them."""
    across, down = (np.ptp(places.centres, axis=0) / (places.width, places.height) + 1.0).tolist()
    wide, tall = across * places.inches, down * places.inches
    figure = Figure(figsize=(max(wide + 0.4, least), tall + 0.7 + below))
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0.2 / width, below / height, wide / width, tall / height))
    (left, top), (right, bottom) = places.centres.min(axis=0), places.centres.max(axis=0)
    axes.set_xlim(left - 0.5 * places.width, right + 0.5 * places.width)
    axes.set_ylim(bottom + 0.5 * places.height, top - 0.5 * places.height)
    axes.set_axis_off()
    return figure, axes


def draw_cells(axes: Axes, places: Places, colours: NDArray[np.float64]) -> None:
    """A square in its colour [P, 4] for each place."""
    corners = places.centres - 0.5 * np.array([places.width, places.height])
    squares = [Rectangle((x, y), places.width, places.height) for x, y in corners]
    line = 0.8 if places.inches > 0.15 else 0.2
    axes.add_collection(PatchCollection(squares, facecolors=list(colours), edgecolors="0.75", linewidths=line))


def mark_cells(axes: Axes, places: Places, model: CMDP) -> list[Artist]:
    """Start, costs and ends on top of the cells; returns what the legend has to say about them."""
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
    """The names of states in the upper left of their cells, where there is room; of several the first."""
    names = model.legend.states
    if not names or places.inches < _NAMED_CELL:
        return
    room = int(places.inches / 0.062)  # characters
    first = [names[int(np.flatnonzero(places.of_state == place)[0])] for place in range(len(places.centres))]
    if np.median([len(name) for name in first]) > room:
        return  # cut off they would all look alike
    behind = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.4}
    for name, (x, y) in zip(first, places.centres, strict=True):
        text = name if len(name) <= room else f"{name[: room - 1]}…"
        corner = (x - 0.46 * places.width, y - 0.46 * places.height)
        axes.text(*corner, text, fontsize=6.5, color=INK, ha="left", va="top", parse_math=False, bbox=behind)


def losses(model: CMDP) -> Floats:
    """[S] the most that an action in a state takes from a constraint in one step, as a share of what any step takes."""
    worst = np.zeros(model.num_states)
    for utility in model.utilities:
        lost = (utility.max() - utility).max(axis=(0, 2))
        if lost.max() > 0.0:
            worst = np.maximum(worst, lost / lost.max())
    return worst


def ends(model: CMDP) -> NDArray[np.bool_]:
    """[S] where nothing happens any more: states that no action leaves, or leaves only for such a one that lies nowhere."""
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
