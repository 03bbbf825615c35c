"""What an environment calls its states and actions, and where its states lie: for maps, plans and pages alone.

An environment may say it itself: attributes `state_names` and `action_names`, Atari's `get_action_meanings()`, and the maps
of the toy-text grids (`desc`, `shape`, or `nrow` and `ncol`). What it says is taken where it fits and left out where it does
not; what a user says is checked.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.names import Legend
from safe2real.systems.arrival_costs import ENDED, Arrival

_LONGEST_BASE = 40  # characters of a name that something is added to


def legend_of_env(
    env: Any,
    num_states: int,
    num_actions: int,
    *,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    positions: ArrayLike | None = None,
) -> Legend:
    """What is given, and for what is not, what the environment (or None) says itself.

    Raises:
        InvalidInput: what is given is of another size, or is no list of texts.
    """
    given = Legend.of(state_names, action_names, positions)
    given.check_size(num_states, num_actions)
    own: Any = env.get_wrapper_attr("legend") if isinstance(env, gymnasium.Env) and env.has_wrapper_attr("legend") else None
    if not isinstance(own, Legend):
        own = _said_by(getattr(env, "unwrapped", env), num_states, num_actions)
    where = own.positions if given.positions is None else given.positions
    return Legend(given.states or own.states, given.actions or own.actions, where)


def legend_in(legend: Legend, arrivals: Mapping[Arrival, int]) -> Legend:
    """The names of an environment's states as those of a finite system, which numbers the ways to enter them.

    A state has its plain name where there is one way to enter it; a copy says what it is: ended, or entered at a cost.
    """
    ordered = sorted(arrivals, key=arrivals.__getitem__)
    ways = np.bincount([state for state, _, _ in ordered if state != ENDED])
    ends = sum(state == ENDED for state, _, _ in ordered)
    names: list[str] = []
    for state, cost, over in ordered:
        if state == ENDED:
            names.append("after the end" + (f", at cost {cost:g}" if ends > 1 else ""))
            continue
        added = (", ended here" if over else "") + (f", entered at cost {cost:g}" if cost and ways[state] > 1 else "")
        name = legend.state(state)
        names.append(f"{name[:_LONGEST_BASE]}{added}" if added else name)
    plain = all(name == f"state {number}" for number, name in enumerate(names))
    where = None
    if legend.positions is not None:
        where = np.array([(np.nan, np.nan) if state == ENDED else legend.positions[state] for state, _, _ in ordered])
    return Legend.of(None if plain else names, legend.actions or None, where)


def listed_names(what: str, values: Sequence[Hashable]) -> tuple[str, ...] | None:
    """Texts as they are, other values with what they are: state (3, 2); None where one of them cannot be printed."""
    names = tuple(value if isinstance(value, str) else f"{what} {value}" for value in values)
    try:
        return Legend.of(names).states
    except InvalidInput:
        return None


def grid_positions(rows: int, columns: int) -> ArrayLike:
    """[rows columns, 2] (column, row) of the cells of a grid, counted row by row from the top left."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return np.stack([column, row], axis=1).astype(np.float64)


def _said_by(core: Any, num_states: int, num_actions: int) -> Legend:
    meanings = getattr(core, "get_action_meanings", None)
    actions = getattr(core, "action_names", None)
    if actions is None and callable(meanings):
        actions = meanings()
    return Legend(
        _fitting(getattr(core, "state_names", None), num_states),
        _fitting(actions, num_actions),
        Legend.of(positions=_grid_of(core, num_states)).positions,
    )


def _fitting(names: Any, size: int) -> tuple[str, ...]:
    """What an environment says, where it can be names of these; nobody asked for it, so nothing else is refused."""
    try:
        found = Legend.of(names).states
    except InvalidInput:
        return ()
    return found if len(found) == size else ()


def _grid_of(core: Any, num_states: int) -> ArrayLike | None:
    for shape in (np.shape(getattr(core, "desc", ())), getattr(core, "shape", None), _sides(core)):
        if isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(side, int | np.integer) for side in shape):
            rows, columns = int(shape[0]), int(shape[1])
            if rows * columns == num_states and min(rows, columns) > 1:
                return grid_positions(rows, columns)
    return None


def _sides(core: Any) -> tuple[Any, Any]:
    return getattr(core, "nrow", None), getattr(core, "ncol", None)
