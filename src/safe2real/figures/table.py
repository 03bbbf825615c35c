"""A policy as a table: steps across, states down, a colour for the action, paler where the policy seldom is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from safe2real.errors import needed_for
from safe2real.figures.grid_layout import losses
from safe2real.figures.style import GREEN, INK, KINDS, RED
from safe2real.model.cmdp import CMDP
from safe2real.model.validation import Floats

with needed_for("figures", "report"):
    from matplotlib import colormaps
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

_MOST_STATES = 50  # in one picture; those where the policy is longest
_RARE = 1e-6
_WIDEST, _CELL = 9.0, 0.32  # inches
_LONGEST = 24  # characters of a name beside the table


def draw_table(visits: Floats, model: CMDP, title: str) -> Figure:
    """`visits` [H, S, A] is how likely the policy is to be in a state at a step and to do an action there."""
    there = visits.sum(axis=2)  # [H, S]
    order = np.argsort(-there.sum(axis=0), kind="stable")
    reached = order[there.sum(axis=0)[order] > _RARE]
    chosen = np.sort(reached[:_MOST_STATES])
    steps = len(visits)
    names = [_shown(model, state) for state in chosen.tolist()]
    left = 0.35 + 0.075 * max(map(len, names))
    cell = min(_CELL, _WIDEST / steps)
    actions = sorted(set(visits[:, chosen].argmax(axis=2)[there[:, chosen] > _RARE].tolist()))
    handles = _handles(model, actions)
    below = 0.6 + 0.22 * -(-len(handles) // 4)
    wide, tall = max(cell * steps, 1.5), 0.24 * len(chosen)
    figure = Figure(figsize=(max(left + wide + 0.3, 7.0), 0.75 + tall + below))
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, below / height, wide / width, tall / height))
    axes.imshow(_colours(visits[:, chosen], model.num_actions), aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(chosen)), names, fontsize=8, parse_math=False)
    _mark_states(axes, model, chosen.tolist())
    every = max(1, -(-steps // 30))
    axes.set_xticks(range(0, steps, every), [f"{step}" for step in range(0, steps, every)], fontsize=8)
    axes.set_xlabel("step")
    axes.tick_params(length=2)
    said = title or "What the policy does"
    figure.text(0.2 / width, 1.0 - 0.28 / height, said, fontsize=11, parse_math=False)
    if len(chosen) < len(reached):
        share = float(there[:, chosen].sum() / there.sum())
        more = f"the {len(chosen)} states it is in longest, of {len(reached):,} it reaches: {share:.1%} of its steps"
        figure.text(0.2 / width, 1.0 - 0.52 / height, more, fontsize=9, color=INK)
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.2 / width, 0.05 / height), ncols=4, fontsize=8.5,
                  frameon=False, borderaxespad=0.0)  # fmt: skip
    return figure


def kind_colours(number: int) -> list[tuple[float, float, float]]:
    """A colour for each of `number` kinds: told apart by everybody for a few, in the order of a scale for many."""
    if number <= len(KINDS):
        return [to_rgb(colour) for colour in KINDS[:number]]
    return [tuple(colour[:3]) for colour in colormaps["cividis"](np.linspace(0.0, 1.0, number))]


def _colours(visits: Floats, num_actions: int) -> Floats:
    """[S, H, 3]: the colours of the actions in their shares, mixed with white where the policy seldom is."""
    there = visits.sum(axis=2, keepdims=True)  # [H, S, 1]
    share = visits / np.where(there > 0.0, there, 1.0)
    mixed = share @ np.array(kind_colours(num_actions))  # [H, S, 3]
    strength = np.where(there > _RARE, 0.25 + 0.75 * np.sqrt(there), 0.0)
    return np.asarray((strength * mixed + (1.0 - strength)).transpose(1, 0, 2).clip(0.0, 1.0))


def _handles(model: CMDP, actions: Sequence[int]) -> list[Artist]:
    colours = kind_colours(model.num_actions)
    chosen = list(actions) if len(actions) <= 12 else [actions[i] for i in np.linspace(0, len(actions) - 1, 8).astype(int)]
    handles: list[Artist] = [Patch(facecolor=colours[a], label=model.legend.action(a)[:_LONGEST]) for a in chosen]
    handles.append(Patch(facecolor="white", edgecolor="0.7", label="paler: seldom there"))
    if losses(model).max(initial=0.0) > 0.0:
        words = ", ".join(one.label[:30] for one in model.wordings)
        handles.append(Line2D([], [], linestyle="none", marker="s", color=RED, label=f"red name: counts against {words}"))
    handles.append(Line2D([], [], linestyle="none", marker="s", color=GREEN, label="green name: start"))
    return handles


def _mark_states(axes: Axes, model: CMDP, chosen: Sequence[int]) -> None:
    lost = losses(model)
    for label, state in zip(axes.get_yticklabels(), chosen, strict=True):
        if lost[state] > 0.0:
            label.set(color=RED, weight="bold")
        elif model.start[state] > 0.0:
            label.set(color=GREEN, weight="bold")


def _shown(model: CMDP, state: int) -> str:
    name = model.legend.states[state] if model.legend.states else f"{state}"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
