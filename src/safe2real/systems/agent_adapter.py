"""Between an environment and the model of it, for agents: which state an observation is, and what an action is called.

A finite system has a copy of a state for every cost with which it can be entered (`arrivals.py`). Which of them the
environment is in follows from the step that led there: from its cost, which is computed from the step as the user said.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from safe2real.errors import InvalidInput, OutsideModel
from safe2real.model.validation import finite_number, shown
from safe2real.systems.arrival_costs import cost_on_arrival
from safe2real.systems.datasets import Numbering
from safe2real.systems.discretise import Discretised
from safe2real.systems.finite_env import state_number
from safe2real.systems.finite_rows import not_here

if TYPE_CHECKING:
    from safe2real.systems.finite import FiniteSystem


class FiniteTranslation:
    """The states and actions of the environment that a `FiniteSystem` was made of."""

    def __init__(self, system: FiniteSystem, seen_as: Discretised | Numbering | None = None) -> None:
        """`seen_as` gives the number of an observation, where those of the environment are no numbers."""
        self._system, self.shape = system, (system.model.steps, *system.model.shape[1:])
        self._number: Callable[[Any], int] = lambda observation: state_number(observation, system.first_state)
        self.action_of: Callable[[int], Any] = lambda action: action + system.first_action
        if isinstance(seen_as, Discretised):
            self._number, self.action_of = seen_as.state_of, seen_as.action_of
        elif seen_as is not None:
            self._number = seen_as
        ways: dict[int, list[tuple[float, int]]] = {}  # (cost, state) of every way to enter a state and go on
        for (state, cost, terminated), number in system.arrivals.items():
            if not terminated:
                ways.setdefault(state, []).append((cost, number))
        self._ways = ways

    def begin(self, observation: Any) -> int:
        return self._system.state_of(self._number(observation))

    def follow(self, state: int, action: int, observation: Any, reward: float | None, cost: float | None) -> int:
        system, here = self._system, self._number(observation)
        given, ways = system.arrival_cost, self._ways.get(here, [])
        if given is None:  # a cost of being in a state: no state has copies, whatever a step is said to have cost
            return system.state_of(here)
        if cost is not None:
            return system.state_of(here, finite_number("cost", float(cost)))
        if reward is not None:
            paid = cost_on_arrival(given, int(system.origin[state]), action, here, float(reward), False)
            return system.state_of(here, paid)
        if not ways:
            raise not_here(f"the environment entered state {here}", (here, 0.0, False))
        if len(ways) > 1:
            costs = " and ".join(f"{paid:g}" for paid, _ in sorted(ways))
            raise InvalidInput(
                f"the environment's state {here} can be entered at the costs {costs}, and the model tells these apart; say "
                "what the last step paid: agent(observation, reward=reward), or cost= where the environment says the cost"
            )
        return ways[0][1]


class ListedTranslation:
    """States and actions that were listed by the user, as for `from_dynamics`."""

    def __init__(self, shape: tuple[int, int, int], states: Sequence[Hashable], actions: Sequence[Hashable]) -> None:
        self.shape = shape
        self._states = {state: number for number, state in enumerate(states)}
        self._actions = tuple(actions)

    def begin(self, observation: Any) -> int:
        key = key_of(observation)
        if not isinstance(key, Hashable) or key not in self._states:
            raise OutsideModel(f"an observation is {shown(observation)}, which is none of the {len(self._states)} states")
        return self._states[key]

    def follow(self, state: int, action: int, observation: Any, reward: float | None, cost: float | None) -> int:
        return self.begin(observation)

    def action_of(self, action: int) -> Hashable:
        return self._actions[action]


def key_of(value: Any) -> Any:
    """What a state, an action or a label is known by: plain numbers for NumPy's, tuples for lists and arrays."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, list)):
        return tuple(key_of(one) for one in value) if np.ndim(value) else key_of(np.asarray(value)[()])
    return value
