"""A system: where its states lie, with start, costs and ends; or, without positions, which state leads to which."""

from __future__ import annotations

from typing import Any

import numpy as np

from safe2real.errors import needed_for
from safe2real.figures.grid_layout import Places, draw_cells, ends, losses, map_figure, mark_cells, name_cells, places_of
from safe2real.figures.style import GREEN, INK, RED
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count
from safe2real.model.validation import Floats

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_MOST_NAMED = 50  # states whose names are written
_MOST_CELLS = 500  # on a side; larger systems are drawn in groups
_SIDE = 7.0  # inches
_LONGEST = 20  # characters of a name
_STRIP = 0.16  # inches, of a column of marks


def draw_system(model: CMDP, *, title: str = "") -> Figure:
    """A map where states have positions, else the matrix of transitions, the mean over actions and steps.

    Args:
        model: any system.
        title: in one line; by default its sizes and constraints.
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
    _explain(figure, handles, title + words, above=0.3)
    return figure


def _explain(figure: Figure, handles: list[Artist], title: str, *, above: float) -> None:
    width, height = figure.get_size_inches()
    if handles:
        figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.15 / width, 0.06 / height), ncols=len(handles),
                      fontsize=8.5, frameon=False, borderaxespad=0.0)  # fmt: skip
    figure.text(0.2 / width, 1.0 - above / height, title, fontsize=9, va="center", parse_math=False)


def _draw_matrix(model: CMDP, title: str) -> Figure:
    """From states down to states across; beside it what is special about a state."""
    states, group = model.num_states, -(-model.num_states // _MOST_CELLS)
    matrix = _mean_transitions(model, group)
    named = states <= _MOST_NAMED
    names = [model.legend.states[s] if model.legend.states else f"{s}" for s in range(states)] if named else []
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in names]
    margin = 0.15 + 0.065 * max(map(len, names), default=5)
    side = min(_SIDE, max(2.5, 0.26 * len(matrix)))
    handles = _kinds(model)
    left, below = 0.2 + margin + _STRIP * len(handles), 0.85 + margin
    figure = Figure(figsize=(max(left + side + 1.5, 7.0), 0.6 + side + below))
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, below / height, side / width, side / height))
    scale = ScalarMappable(Normalize(0.0, 1.0), cmap="Blues")
    axes.imshow(np.sqrt(matrix), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    ticks = range(states) if named else [tick for tick in axes.get_xticks() if 0 <= tick < len(matrix)]
    words = names if named else [f"{int(tick) * group:,}" for tick in ticks]
    axes.set_xticks(ticks, words, fontsize=7.5, rotation=90 if named else 0, parse_math=False)
    axes.set_yticks(ticks, words, fontsize=7.5, parse_math=False)
    axes.tick_params(length=2)
    axes.set_xlabel("from a state (down) to a state (across)" + ("" if group == 1 else f", the first of each {group}"))
    _draw_strips(axes, model, group, side, margin)
    bar = figure.add_axes(((left + side + 0.2) / width, below / height, 0.15 / width, min(side, 2.5) / height))
    figure.colorbar(scale, cax=bar).set_ticks([0.0, 0.1, 0.1**0.5, 0.3**0.5, 1.0], labels=["0", "0.01", "0.1", "0.3", "1"])
    bar.set_title("probability,\nmean over actions", fontsize=8, loc="left")
    _explain(figure, [handle for handle, _ in handles], title, above=0.28)
    return figure


def _mean_transitions(model: CMDP, group: int) -> Floats:
    """[n, n] from groups of states to groups: the mean over actions, steps and the states of a group."""
    rows, after, probability = model.kernel.transitions()
    size = -(-model.num_states // group)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (rows // model.num_actions % model.num_states // group, after // group), probability)
    return np.asarray(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12))


def _kinds(model: CMDP) -> list[tuple[Line2D, Floats]]:
    """(what the legend says, [S] how much of it a state has) for start, costs and ends, as far as there are some."""
    constraints = ", ".join(one.label[:30] for one in model.wordings)
    kinds = ((GREEN, "start", model.start), (RED, f"counts against {constraints}", losses(model)),
             (INK, "end", ends(model).astype(np.float64)))  # fmt: skip
    dot: dict[str, Any] = {"linestyle": "none", "marker": "s", "markersize": 6}
    return [(Line2D([], [], color=colour, label=words, **dot), values) for colour, words, values in kinds if values.any()]


def _draw_strips(axes: Axes, model: CMDP, group: int, side: float, margin: float) -> None:
    """A column of marks for each kind, left of the names."""
    for number, (handle, values) in enumerate(_kinds(model)):
        here = np.unique(np.flatnonzero(values > 0.0) // group)
        across = -(margin + (number + 0.5) * _STRIP) / side
        size = max(3.0, min(6.0, 72.0 * side / (-(-model.num_states // group)) * 0.7))
        axes.plot(np.full(len(here), across), here, marker="s", markersize=size, linestyle="none", color=handle.get_color(),
                  transform=axes.get_yaxis_transform(), clip_on=False)  # fmt: skip
