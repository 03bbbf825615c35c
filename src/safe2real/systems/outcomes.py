"""The outcomes of each state and action of an environment, and the state numbering of the finite system made of them.

An environment's state has a copy for every way to enter it: at which cost, and whether that ends the episode. `Outcomes`
lists what can happen in the environment's own states, from a table or from counts; the functions below number the ways to
enter them, and give rows, costs, ties and copies in that numbering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput, OutsideModel
from safe2real.model.kernel import Kernel
from safe2real.model.validation import (
    Floats,
    distributions,
    finite_floats,
    finite_number,
    positive_integer,
    shown,
    whole_numbers,
)
from safe2real.problem.ties import Ties

if TYPE_CHECKING:
    import gymnasium

TransitionTable = Mapping[int, Mapping[int, Sequence[Any]]]
"""P[s][a] = [(probability, next state, reward, terminated), ...]"""
Arrival = tuple[int, float, bool]
"""(the environment's state, the cost with which it is entered, whether that ends the episode)."""
ArrivalCost = Callable[[int, int, int, float, bool], float]
"""cost(state, action, next state, reward, terminated) in [0, 1]."""
ENDED = -1
"""In place of an environment's state: the absorbing state after the end of an episode, with what a step there costs."""
MOST_COSTS = 16  # different costs of transitions: each can add a copy of every state


@dataclass(frozen=True, eq=False, slots=True)
class Outcomes:
    """N outcomes that can follow a state and an action of an environment, in that order; from a table or from counts."""

    num_states: int
    num_actions: int
    states: NDArray[np.int64]  # [N]
    actions: NDArray[np.int64]  # [N]
    successors: NDArray[np.int64]  # [N]
    probabilities: Floats  # [N]
    rewards: Floats  # [N]
    terminated: NDArray[np.bool_]  # [N]
    costs: Floats  # [N] paid on arrival
    ended: Floats = field(default_factory=lambda: np.zeros(0))  # [S] what a step costs after an episode that ended there

    def of(self, state: int) -> slice:
        """The outcomes of one state."""
        first, last = np.searchsorted(self.states, (state, state + 1))
        return slice(int(first), int(last))

    def arrivals_of(self, row: slice) -> list[Arrival]:
        """Return the arrival of each outcome in `row`: (state, cost, terminated)."""
        return list(zip(self.successors[row].tolist(), self.costs[row].tolist(), self.terminated[row].tolist(), strict=True))

    def arrivals_from(self, state: int) -> set[Arrival]:
        return set(self.arrivals_of(self.of(state)))

    def mean_rewards(self) -> Floats:
        """[S, A]"""
        rows = self.states * self.num_actions + self.actions
        sums = np.bincount(rows, self.probabilities * self.rewards, minlength=self.num_states * self.num_actions)
        return np.asarray(sums, dtype=np.float64).reshape(self.num_states, self.num_actions)


def cost_on_arrival(given: ArrivalCost, s: int, a: int, t: int, reward: float, terminated: bool) -> float:
    """Return the user's cost of one transition, checked."""
    value = given(s, a, t, reward, bool(terminated))
    place = f"cost({s}, {a}, {t}, {f'{reward:g}' if isinstance(reward, float) else 'no reward'}, {bool(terminated)})"
    value = float(value) if isinstance(value, (bool, np.bool_)) else finite_number(place, value)
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{place} is {value:g}; costs lie in [0, 1]: divide them by the largest, and the limit too")
    return value


def find_arrivals(outcomes: Outcomes, start: NDArray[np.bool_]) -> dict[Arrival, int]:
    """Number all ways to enter a state, from `start` [S] on; states that nothing enters are kept as they are.

    Every state keeps its number of the environment for one way to enter it. Further ways follow, then the absorbing states
    (`ENDED`).
    """
    costs = np.unique(outcomes.costs)
    if costs.size > MOST_COSTS:
        raise InvalidInput(
            f"transitions have {costs.size} different costs; at most {MOST_COSTS} can be told apart by copies of states: "
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


def _reached_within(outcomes: Outcomes, start: Iterable[int], steps: int) -> set[Arrival]:
    """Return all arrivals that can be made in at most `steps` steps, the first states included."""
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
    """Return the arrivals that `outcomes` can make within the horizon, numbered anew in the same order."""
    reached = _reached_within(outcomes, np.flatnonzero(start), horizon)
    # Where the rows of an end lead that only the last step reaches.
    reached.update(_after_end(outcomes, state) for state, _, terminated in list(reached) if terminated and state != ENDED)
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
    return {_after_end(outcomes, state)} if terminated else outcomes.arrivals_from(state)


def _after_end(outcomes: Outcomes, state: int) -> Arrival:
    """Return where an episode stays that ended in `state` of the environment."""
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


def read_table(table: TransitionTable) -> Outcomes:
    """Return the outcomes that a table lists, at no costs; whether rows sum to 1 is for `Kernel` to check.

    Raises:
        InvalidInput: an entry cannot be one; names it.
    """
    table = {s: _indexed(f"P[{s}]", row) for s, row in _indexed("P", table).items()}
    num_states = positive_integer("the number of states in the table", len(table))
    num_actions = positive_integer("the number of actions of state 0", len(table[0]) if 0 in table else 0)
    listed = []
    for s in range(num_states):
        if s not in table or sorted(table[s]) != list(range(num_actions)):
            raise InvalidInput(f"P[{s}] must list the actions 0 to {num_actions - 1}, like every other state")
        for a in range(num_actions):
            for k, entry in enumerate(table[s][a]):
                outcome = _outcome(f"P[{s}][{a}][{k}]", entry, num_states)
                if outcome[1] != 0.0:
                    listed.append((s, a, *outcome))
    if not listed:
        raise InvalidInput("the table lists no outcome at all; P[s][a] needs (probability, next state, reward, terminated)")
    states, actions, successors, probabilities, rewards, terminated = map(np.array, zip(*listed, strict=True))
    costs = np.zeros(len(listed))
    return Outcomes(num_states, num_actions, states, actions, successors, probabilities, rewards, terminated, costs)


def _indexed(name: str, value: Any) -> Mapping[int, Any]:
    """Return a mapping unchanged, and a list as a mapping from positions."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    raise InvalidInput(
        f"{name} is a {type(value).__name__}; a table is P[s][a] = [(probability, next state, reward, terminated), ...], of "
        "dictionaries or lists; arrays [S, A, S] are for Kernel.from_dense"
    )


def _outcome(name: str, entry: Any, num_states: int) -> tuple[int, float, float, bool]:
    if not isinstance(entry, Sequence) or len(entry) != 4:
        raise InvalidInput(f"{name} is {shown(entry)}; give (probability, next state, reward, terminated)")
    (successor,) = whole_numbers(f"{name}, the next state,", [entry[1]], below=num_states, what="states")
    probability = finite_number(f"{name}, the probability,", entry[0])
    return int(successor), probability, finite_number(f"{name}, the reward,", entry[2]), bool(entry[3])


def outcomes_of(env: gymnasium.Env[Any, Any] | TransitionTable, arrival_cost: ArrivalCost | None) -> Outcomes:
    """List all that the table of `env` says can happen, with the cost of each transition."""
    table = env if isinstance(env, Mapping) else getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        name = type(getattr(env, "unwrapped", env)).__name__
        raise InvalidInput(
            f"{name} has no transition table (env.unwrapped.P); estimate it with estimate_by_running(env, ...)"
        )
    listed = read_table(table)
    if arrival_cost is None:
        return listed
    columns = (listed.states, listed.actions, listed.successors, listed.rewards, listed.terminated)
    listing = zip(*(column.tolist() for column in columns), strict=True)
    return replace(listed, costs=np.array([cost_on_arrival(arrival_cost, *outcome) for outcome in listing]))


def kernel_in(outcomes: Outcomes, arrivals: Mapping[Arrival, int], start: NDArray[Any], horizon: int) -> Kernel:
    """Build the kernel of the numbered states: the environment's rows, or self-loops and end rows after termination.

    A state that only the last step enters takes no action, so it gets self-loops if one of its successors has no number.
    """
    columns: list[tuple[NDArray[Any], ...]] = []
    acting: set[Arrival] | None = None
    every = np.arange(outcomes.num_actions)
    for arrival, index in arrivals.items():
        state, _, terminated = arrival
        row, actions, probabilities = outcomes.of(state), every, np.ones(every.size)
        if terminated:
            after = [index if state == ENDED else arrivals[_after_end(outcomes, state)]] * every.size
        else:
            actions, probabilities = outcomes.actions[row], outcomes.probabilities[row]
            after = [arrivals.get(key, -1) for key in outcomes.arrivals_of(row)]
        if -1 in after:
            if acting is None:
                acting = _reached_within(outcomes, start, horizon - 1)
            if arrival in acting:
                first = after.index(-1)
                missing = outcomes.arrivals_of(row)[first]
                raise unknown_arrival(f"action {actions[first]} in state {state} leads to state {missing[0]}", missing)
            actions, after, probabilities = every, [index] * every.size, np.ones(every.size)
        columns.append((np.full(len(after), index), actions, np.array(after), probabilities))
    states, actions, successors, probabilities = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Kernel.from_triples(
        states, actions, successors, probabilities, num_states=len(arrivals), num_actions=outcomes.num_actions
    )


def unknown_arrival(event: str, arrival: Arrival) -> OutsideModel:
    """Return the error for an arrival that a system has no state for."""
    _, cost, terminated = arrival
    return OutsideModel(
        f"{event} (cost {cost:g}, {'' if terminated else 'not '}terminated), which this system does not have; build it "
        "from an environment that can get there (without drop_unreachable), or from samples that have shown it"
    )


def costs_paid(arrivals: Mapping[Arrival, int], cost: ArrayLike | None, outcomes: Outcomes) -> Floats:
    """Return the cost [S, A] of every state of the numbering."""
    shape = (outcomes.num_states, outcomes.num_actions)
    own = np.zeros(shape)
    if cost is not None:
        given = finite_floats("cost", cost)
        if given.shape not in (shape, shape[:1]):
            raise InvalidInput(
                f"cost has shape {given.shape}; give one entry for each of the environment's states, {shape[:1]}, or for "
                f"each state and action, {shape}; or a function cost(state, action, next_state, reward, terminated)"
            )
        own = np.broadcast_to(given[:, None], shape) if given.ndim == 1 else given
    paid = np.empty((len(arrivals), outcomes.num_actions))
    for (state, on_arrival, _), index in arrivals.items():
        paid[index] = on_arrival if state == ENDED else own[state] + on_arrival
    return paid


def costs_after_end(ended: ArrayLike | None, outcomes: Outcomes, *, required: bool) -> Floats:
    """Return what a step costs after an episode that ended in each of the environment's states [S]."""
    if ended is None:
        if required and outcomes.terminated.any():
            raise InvalidInput(
                "episodes of this environment can end before the horizon; give ended=, what every step after the end "
                "costs in [0, 1]: 0 where an ended episode is as good as a safe one; one number, or one for each state"
            )
        ended = 0.0
    given = finite_floats("ended", ended)
    if given.shape not in ((), (outcomes.num_states,)):
        raise InvalidInput(
            f"ended has shape {given.shape}; give one number, or one for each of the {outcomes.num_states} states"
        )
    if ((given < 0.0) | (given > 1.0)).any():
        raise InvalidInput(f"ended is {shown(ended)}; what a step after the end costs lies in [0, 1]")
    return np.array(np.broadcast_to(given, (outcomes.num_states,)))


def start_distribution(start: int | ArrayLike, num_states: int) -> Floats:
    """Return the distribution [S] of first states, given one state or a distribution."""
    given = np.asarray(start)
    if given.ndim == 0 and given.dtype.kind in "iu" and 0 <= given < num_states:
        return np.asarray(np.arange(num_states) == given, dtype=np.float64)
    if given.shape != (num_states,):
        raise InvalidInput(f"start is {shown(start)}; give one of the environment's {num_states} states, or a distribution")
    return distributions("start", given)


def ties_in(given: Ties, outcomes: Outcomes, arrivals: Mapping[Arrival, int]) -> Ties:
    """Return ties of the environment's rows as ties of the system's: every copy of a state has its classes.

    A label leads to a state of the environment. How that is entered, at which cost and whether it ends the episode, is what
    the table lists for that state, action and successor, and must be one thing.

    Raises:
        InvalidInput: the ties do not fit the environment, or a label does not say how its state is entered.
    """
    expected = (outcomes.num_states, outcomes.num_actions)
    if np.shape(given.classes) != expected:
        raise InvalidInput(
            f"ties.classes has shape {np.shape(given.classes)}; give one class for each state and action of the "
            f"environment, {expected}"
        )
    theirs, leads = np.asarray(given.classes), np.asarray(given.successors)
    classes = np.full((len(arrivals), outcomes.num_actions), -1, dtype=np.int64)
    successors = np.full((*classes.shape, given.num_labels), -1, dtype=np.int64)
    for (state, _, terminated), index in arrivals.items():
        if terminated or state == ENDED:
            continue
        listed = outcomes.arrivals_of(outcomes.of(state))
        if any(arrival not in arrivals for arrival in listed):
            continue  # only the last step comes here, and its rows are never taken
        by = outcomes.actions[outcomes.of(state)]
        for action in np.flatnonzero(theirs[state] >= 0):
            here = {arrival for arrival, a in zip(listed, by, strict=True) if a == action}
            classes[index, action] = theirs[state, action]
            for label in np.flatnonzero(leads[state, action] >= 0):
                after = _entered(given, (state, int(action), int(label)), int(leads[state, action, label]), here, arrivals)
                successors[index, action, label] = after
    return Ties(
        classes,
        successors,
        exact=given.exact,
        reported=given.reported,
        laws=given.laws,
        class_names=given.class_names if classes.max() + 1 == given.num_classes else (),
        label_names=given.label_names,
    )


def _entered(given: Ties, at: tuple[int, int, int], target: int, here: set[Arrival], arrivals: Mapping[Arrival, int]) -> int:
    """The state of the numbering that a label leads to."""
    ways = {arrival for arrival in here if arrival[0] == target} or {one for one in arrivals if one[0] == target}
    if len(ways) != 1:
        state, action, label = at
        how = "in several ways (cost, end)" if ways else "not at all"
        raise InvalidInput(
            f"ties.successors[{state}, {action}, {label}] leads to state {target} of the environment, which is entered {how}"
            f"; let {given.label_name(label)} say which: a label of its own for each, or untie the row (-1)"
        )
    return arrivals[ways.pop()]


def copies_in(origin: NDArray[np.int64], over: NDArray[np.bool_], kernel: Kernel) -> NDArray[np.int64]:
    """Return [S], for every state the first one that stands for the same state of the environment and has the same rows."""
    found = np.arange(origin.size)
    first: dict[int, int] = {}
    for state in np.flatnonzero(~over):
        other = first.setdefault(int(origin[state]), int(state))
        if other != state and _same_rows(kernel, other, int(state)):
            found[state] = other
    return found


def _same_rows(kernel: Kernel, one: int, other: int) -> bool:
    pairs = [[kernel.row(state * kernel.num_actions + a) for a in range(kernel.num_actions)] for state in (one, other)]
    return all(np.array_equal(a[i], b[i]) for a, b in zip(*pairs, strict=True) for i in (0, 1))
