"""How an environment's states are entered, and the numbering of a finite system that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Table
from safe2real.model.validation import Floats, finite_number

Arrival = tuple[int, float, bool]
"""(the environment's state, the cost with which it is entered, whether that ends the episode)."""
ArrivalCost = Callable[[int, int, int, float, bool], float]
"""cost(state, action, next state, reward, terminated) in [0, 1]."""
ENDED = -1
"""In place of an environment's state: the absorbing state after the end of an episode, with what a step there costs."""
_MOST_COSTS = 16  # different costs of transitions: each can add a copy of every state


@dataclass(frozen=True, eq=False, slots=True)
class Outcomes(Table):
    """What can follow a state and an action of an environment, N outcomes sorted by state; from a table or from counts."""

    costs: Floats  # [N] paid on arrival
    ended: Floats = field(default_factory=lambda: np.zeros(0))  # [S] what a step costs after an episode that ended there

    @property
    def has_costs(self) -> bool:
        return bool((self.costs > 0.0).any())

    def of(self, state: int) -> slice:
        """The outcomes of one state."""
        first, last = np.searchsorted(self.states, (state, state + 1))
        return slice(int(first), int(last))

    def arrivals_of(self, row: slice) -> list[Arrival]:
        """How the successor of each of these outcomes is entered."""
        return list(zip(self.successors[row].tolist(), self.costs[row].tolist(), self.terminated[row].tolist(), strict=True))

    def arrivals_from(self, state: int) -> set[Arrival]:
        return set(self.arrivals_of(self.of(state)))

    def mean_rewards(self) -> Floats:
        """[S, A]"""
        rows = self.states * self.num_actions + self.actions
        sums = np.bincount(rows, self.probabilities * self.rewards, minlength=self.num_states * self.num_actions)
        return np.asarray(sums, dtype=np.float64).reshape(self.num_states, self.num_actions)


def cost_on_arrival(given: ArrivalCost, s: int, a: int, t: int, reward: float, terminated: bool) -> float:
    """The user's cost of one transition, checked."""
    place = f"cost({s}, {a}, {t}, {reward:g}, {bool(terminated)})"
    value = given(s, a, t, reward, bool(terminated))
    value = float(value) if isinstance(value, (bool, np.bool_)) else finite_number(place, value)
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{place} is {value:g}; costs lie in [0, 1]: divide them by the largest, and the limit too")
    return value


def find_arrivals(outcomes: Outcomes, start: NDArray[np.bool_]) -> dict[Arrival, int]:
    """Numbers for all ways to enter a state, from `start` [S] on; states that nothing enters are kept as they are.

    Every state keeps its number of the environment for one way to enter it. Further ways follow, then what is `ENDED`.
    """
    costs = np.unique(outcomes.costs)
    if costs.size > _MOST_COSTS:
        raise InvalidInput(
            f"transitions have {costs.size} different costs; at most {_MOST_COSTS} can be told apart by copies of states: "
            "round them, or give cost as an array over states and actions"
        )
    found: dict[Arrival, None] = {}
    _follow(outcomes, ((int(s), 0.0, False) for s in np.flatnonzero(start)), found)
    entered = {state for state, _, _ in found}
    for state in range(outcomes.num_states):
        if state not in entered:
            # An end that no episode of this environment reaches has only itself to go to.
            only = outcomes.arrivals_from(state)
            dead_end = all(t == state and terminated for t, _, terminated in only)
            _follow(outcomes, only if dead_end else [(state, 0.0, False)], found)
            entered.update(state for state, _, _ in found)
    return _numbered(found, outcomes.num_states)


def reached_within(outcomes: Outcomes, start: Iterable[int], steps: int) -> set[Arrival]:
    """All arrivals that can be made in at most `steps` steps, the first states included."""
    reached = {(int(s), 0.0, False) for s in start}
    front = set(reached)
    for _ in range(steps):
        front = {after for arrival in front for after in _after(outcomes, arrival)} - reached
        if not front:
            break
        reached |= front
    return reached


def without_unreachable(
    arrivals: Mapping[Arrival, int], outcomes: Outcomes, start: NDArray[np.bool_], horizon: int
) -> dict[Arrival, int]:
    """The arrivals that `outcomes` can make within the horizon, numbered anew in the same order."""
    reached = reached_within(outcomes, np.flatnonzero(start), horizon)
    # Where the rows of an end lead that only the last step reaches.
    reached.update(after_end(outcomes, state) for state, _, terminated in list(reached) if terminated and state != ENDED)
    kept = [arrival for arrival in sorted(arrivals, key=arrivals.__getitem__) if arrival in reached]
    return {arrival: index for index, arrival in enumerate(kept)}


def _follow(outcomes: Outcomes, first: Iterable[Arrival], found: dict[Arrival, None]) -> None:
    waiting = [arrival for arrival in first if arrival not in found]
    found.update(dict.fromkeys(waiting))
    while waiting:
        for after in _after(outcomes, waiting.pop()):
            if after not in found:
                found[after] = None
                waiting.append(after)


def _after(outcomes: Outcomes, arrival: Arrival) -> set[Arrival]:
    state, _, terminated = arrival
    if state == ENDED:
        return {arrival}
    return {after_end(outcomes, state)} if terminated else outcomes.arrivals_from(state)


def after_end(outcomes: Outcomes, state: int) -> Arrival:
    """Where an episode stays that ended in `state` of the environment."""
    return (ENDED, float(outcomes.ended[state]), True)


def _numbered(found: Iterable[Arrival], num_states: int) -> dict[Arrival, int]:
    """One arrival of every state has its number: the plain one if there is one, else the cheapest."""
    ways: list[list[Arrival]] = [[] for _ in range(num_states)]
    for arrival in found:
        if arrival[0] != ENDED:
            ways[arrival[0]].append(arrival)
    for listed in ways:
        listed.sort(key=lambda arrival: (arrival[2], arrival[1]))
    order = [listed[0] for listed in ways] + [arrival for listed in ways for arrival in listed[1:]]
    order += sorted(arrival for arrival in found if arrival[0] == ENDED)
    return {arrival: index for index, arrival in enumerate(order)}
