"""Structure of an environment in the numbering of a finite system: ties of its rows, and copies of its states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.problem.ties import Ties
from safe2real.systems.arrival_costs import ENDED, Arrival, Outcomes


def ties_in(given: Ties, outcomes: Outcomes, arrivals: Mapping[Arrival, int]) -> Ties:
    """Ties of the environment's rows as ties of the system's: every copy of a state has its classes.

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
    """[S] for every state the first one that stands for the same state of the environment and has the same rows."""
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
