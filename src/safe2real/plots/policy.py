"""Pictures of a policy: arrows or names of actions where states lie on a map, else a table of steps and states.

Marks are weighted by the time that the policy spends in a state on the given model; states that it never visits stay
empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import Policy
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import occupancy
from safe2real.plots.style import GREEN, INK, KINDS, RED, columns_within, explain, panel, shortened, write_title
from safe2real.plots.system import Places, draw_cells, ends, losses, map_figure, mark_cells, name_cells, places_of

with needed_for("figures", "report"):
    from matplotlib import colormaps
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

_RARE = 1e-3  # steps of an episode spent in a place below which nothing is drawn there
_LEAST_SHARE = 0.08  # of an action below which it has no arrow
_SPREAD = math.radians(25.0)  # directions have to differ by this much to be told apart
_STILL = 0.1  # of the longest mean move, below which an action has no direction
_MOST_STATES = 50  # in one table; those where the policy is longest
_NEVER = 1e-6
_MIXED = 0.1  # share of a second action from which the colour is between two
_WIDEST, _CELL = 9.0, 0.32  # inches, of a table
_NARROWEST, _WIDEST_CELL = 7.0, 0.8  # inches, of a picture, and of a step in a short table
_LONGEST = 24  # characters of a name beside a table
_SHADES = LinearSegmentedColormap.from_list("visits", ["white", "#bcd3ee", "#7aa7dc"])  # light: arrows lie on it


def draw_policy(policy: Policy, model: CMDP, *, title: str = "") -> Figure:
    """Draw a policy's actions on `model`: on a map where states have positions, else steps across and states down.

    Args:
        policy: a Markov policy or a mixture.
        model: gives the time spent in each state, names, positions, start, costs and ends.
        title: in one line.

    Returns:
        A figure; save it with `savefig`.
    """
    visits = occupancy(model, policy)[: model.steps]  # [steps, S, A]
    positions = model.legend.positions
    places = None if positions is None else places_of(positions)
    if places is None:
        return _draw_table(visits, model, title)
    return _draw_map(visits.sum(axis=0), places, model, title)


def _draw_map(visits: Floats, places: Places, model: CMDP, title: str) -> Figure:
    spent = places.total(visits)  # [P, A]
    time = spent.sum(axis=1)
    directions = action_directions(model)
    letters = [] if directions is not None else short_names(model)
    explained = 0 if letters == list(model.legend.actions) else len(letters)
    figure, axes = map_figure(places, below=0.5 + 0.2 * (2 + explained // 2))
    draw_cells(axes, places, _SHADES(np.sqrt(time / max(float(time.max()), _RARE))))
    handles = mark_cells(axes, places, model)
    name_cells(axes, places, model)
    acts = places.total(np.where(ends(model)[:, None], 0.0, visits))  # no action matters after the end
    shown = np.flatnonzero(acts.sum(axis=1) > _RARE)
    if directions is not None:
        _draw_arrows(axes, places, acts[shown], shown, directions)
        handles.append(_arrow_handle())
    else:
        handles += _draw_letters(axes, places, acts[shown], shown, letters, model)
    handles.append(Patch(facecolor=_SHADES(1.0), edgecolor="0.75", label="the longer it is there, the darker"))
    explain(figure, handles, 2)
    write_title(figure, 0.2, 0.35, title or "What the policy does, over all steps", 10.5)
    return figure


def action_directions(model: CMDP) -> Floats | None:
    """Return [A, 2] the mean direction of each action, of length 1, or 0 if it does not move; None if they are too alike.

    To the nearest of eight directions where those differ: slips and walls bend the mean.
    """
    positions = model.legend.positions
    if positions is None:
        return None
    rows, after, probability = model.kernel.transitions()
    state, action = rows // model.num_actions % model.num_states, rows % model.num_actions
    moved = positions[after] - positions[state]  # [N, 2]
    lies = np.isfinite(moved).all(axis=1)
    total = np.zeros((model.num_actions, 2))
    np.add.at(total, action[lies], moved[lies] * probability[lies, None])
    length = np.linalg.norm(total, axis=1)
    moves = length > _STILL * length.max(initial=0.0)
    if not moves.any() or (~moves).sum() > 1:
        return None
    unit = np.where(moves[:, None], total / np.where(moves, length, 1.0)[:, None], 0.0)
    eighth = np.round(np.arctan2(unit[:, 1], unit[:, 0]) / (np.pi / 4.0)) * (np.pi / 4.0)
    compass = np.where(moves[:, None], np.stack([np.cos(eighth), np.sin(eighth)], axis=1), 0.0)
    return next((one for one in (compass, unit) if _apart(one[moves]) > _SPREAD), None)


def _apart(directions: Floats) -> float:
    """The smallest angle between two of some directions [n, 2]; of one alone it is large."""
    angles = np.arccos(np.clip(directions @ directions.T, -1.0, 1.0))
    return float((angles + 4.0 * np.eye(len(directions))).min())


def _draw_arrows(axes: Axes, places: Places, spent: Floats, shown: NDArray[np.int64], directions: Floats) -> None:
    time = spent.sum(axis=1)
    share, strength = spent / time[:, None], np.sqrt(time / time.max(initial=_RARE))
    cell = np.array([places.width, places.height])
    for place, action in np.argwhere(share > _LEAST_SHARE).tolist():
        centre, part = places.centres[shown[place]], float(share[place, action])
        look: dict[str, Any] = {"alpha": 0.35 + 0.65 * float(strength[place]), "zorder": 3}
        if not directions[action].any():  # it stays
            axes.plot(*centre, "o", color=INK, markersize=6.0 * places.inches * (2.0 + 6.0 * part), **look)
            continue
        reach = directions[action] * cell * (0.12 + 0.32 * part)
        arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": places.inches * (0.8 + 2.2 * part),
                 "mutation_scale": places.inches * (5.0 + 11.0 * part), "shrinkA": 0.0, "shrinkB": 0.0}  # fmt: skip
        axes.annotate("", centre + reach, centre, arrowprops=arrow | look)


def _arrow_handle() -> Artist:
    return Line2D([], [], color=INK, marker=">", markersize=6, label="the likelier the action, the longer its arrow")


def short_names(model: CMDP) -> list[str]:
    """Return [A] the shortest distinct prefixes of the actions' names; their numbers without names."""
    names = model.legend.actions
    if not names:
        return [f"{action}" for action in range(model.num_actions)]
    for length in range(1, 9):
        cut = [name[:length].strip() for name in names]
        if len(set(cut)) == len(cut):
            return cut
    return [f"{action}" for action in range(model.num_actions)]


def _draw_letters(
    axes: Axes, places: Places, spent: Floats, shown: NDArray[np.int64], letters: Sequence[str], model: CMDP
) -> list[Artist]:
    """Write the likeliest action of each place; return the legend."""
    time = spent.sum(axis=1)
    strength = np.sqrt(time / time.max(initial=_RARE))
    best = spent.argmax(axis=1) if len(spent) else np.zeros(0, dtype=np.int64)
    room = max(map(len, letters))
    size = min(13.0, 72.0 * places.inches / (0.75 * room + 0.5))
    for place, action in enumerate(best.tolist()):
        behind = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 0.6}
        look: dict[str, Any] = {
            "bbox": behind,
            "fontsize": size,
            "alpha": 0.35 + 0.65 * float(strength[place]),
            "weight": "bold",
        }
        x, y = places.centres[shown[place]]
        axes.text(x, y, letters[action], ha="center", va="center", color=INK, **look)
    if list(letters) == list(model.legend.actions):
        return []
    blank: dict[str, Any] = {"color": "none", "marker": "none"}
    used = sorted(set(best.tolist()))[: 2 * len(KINDS)]
    return [Line2D([], [], label=f"{letters[a]}  {model.legend.action(a)}", **blank) for a in used]


def _draw_table(visits: Floats, model: CMDP, title: str) -> Figure:
    """Draw a colour for each action, paler where the policy seldom is.

    `visits` [H, S, A] is how likely the policy is to be in a state at a step and to do an action there.
    """
    there = visits.sum(axis=2)  # [H, S]
    order = np.argsort(-there.sum(axis=0), kind="stable")
    reached = order[there.sum(axis=0)[order] > _NEVER]
    chosen = np.sort(reached[:_MOST_STATES])
    steps = len(visits)
    names = [_shown(model, state) for state in chosen.tolist()]
    left = 0.6 + 0.075 * max(map(len, names))
    wide = max(min(_CELL * steps, _WIDEST), min(_WIDEST_CELL * steps, _NARROWEST - left - 0.3))
    width = max(left + wide + 0.3, _NARROWEST)
    actions = sorted(set(visits[:, chosen].argmax(axis=2)[there[:, chosen] > _NEVER].tolist()))
    second = np.sort(visits[:, chosen], axis=2)[:, :, -2] if model.num_actions > 1 else np.zeros((1, 1))
    handles = _handles(model, actions, mixed=bool((second > _MIXED * there[:, chosen]).any()))
    columns = columns_within(handles, width - 0.3, 4)
    below, above = 0.6 + 0.22 * -(-len(handles) // columns), 0.5 if len(chosen) == len(reached) else 0.75
    tall = 0.24 * len(chosen)
    figure = Figure(figsize=(width, above + tall + below))
    axes = panel(figure, left, below, wide, tall)
    axes.imshow(_colours(visits[:, chosen], model.num_actions), aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(chosen)), names, fontsize=8, parse_math=False)
    _mark_states(axes, model, chosen.tolist())
    every = max(1, -(-steps // 30))
    axes.set_xticks(range(0, steps, every), [f"{step}" for step in range(0, steps, every)], fontsize=8)
    axes.set_xlabel("step")
    axes.set_ylabel("state")
    axes.tick_params(length=2)
    write_title(figure, 0.2, 0.24, title or "What the policy does", 11)
    if len(chosen) < len(reached):
        share = float(there[:, chosen].sum() / there.sum())
        more = f"the {len(chosen)} states it is in longest, of {len(reached):,} it reaches: {share:.1%} of its steps"
        write_title(figure, 0.2, 0.48, more, 9)
    explain(figure, handles, columns, 0.2)
    return figure


def kind_colours(number: int) -> list[tuple[float, float, float]]:
    """Return `number` colours: a palette for colour-blind readers for a few, in the order of a scale for many."""
    if number <= len(KINDS):
        return [to_rgb(colour) for colour in KINDS[:number]]
    return [tuple(colour[:3]) for colour in colormaps["cividis"](np.linspace(0.0, 1.0, number))]


def _colours(visits: Floats, num_actions: int) -> Floats:
    """[S, H, 3]: the colours of the actions in their shares, mixed with white where the policy seldom is."""
    there = visits.sum(axis=2, keepdims=True)  # [H, S, 1]
    share = visits / np.where(there > 0.0, there, 1.0)
    mixed = share @ np.array(kind_colours(num_actions))  # [H, S, 3]
    strength = np.where(there > _NEVER, 0.25 + 0.75 * np.sqrt(there), 0.0)
    return np.asarray((strength * mixed + (1.0 - strength)).transpose(1, 0, 2).clip(0.0, 1.0))


def _handles(model: CMDP, actions: Sequence[int], *, mixed: bool) -> list[Artist]:
    colours = kind_colours(model.num_actions)
    chosen = list(actions) if len(actions) <= 12 else [actions[i] for i in np.linspace(0, len(actions) - 1, 8).astype(int)]
    handles: list[Artist] = [Patch(facecolor=colours[a], label=model.legend.action(a)[:_LONGEST]) for a in chosen]
    handles.append(Patch(facecolor="white", edgecolor="0.7", label="paler: seldom there"))
    if mixed:
        handles.append(Patch(facecolor="#a08a76", label="between two colours: at random"))
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
    return shortened(name, _LONGEST)
