"""Compiled bookkeeping of what the real system has shown; nothing here checks its input.

Letters: R rows (S*A, or H*S*A for dynamics that change with the step), N stored transitions. The first part of
`successor` and `probability` holds the simulator's transitions, the rest a segment of its own for the observed successors
of each row, so that a row of the hybrid model is a pointer to one or the other and never a copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

Array = Any  # numba infers dtypes and dimensions


class Tally(NamedTuple):
    """Visits and successors beside the simulator's rows."""

    simulator_begin: Array  # [R]
    simulator_length: Array  # [R]
    begin: Array  # [R] first slot of the row's own segment
    length: Array  # [R] distinct successors seen
    capacity: Array  # [R] slots of the segment
    successor: Array  # [N]
    probability: Array  # [N] simulator's, then empirical
    count: Array  # [N]
    visits: Array  # [R]


class Belief(NamedTuple):
    """The hybrid model: which row is believed, and what is left open about it."""

    begin: Array  # [R] the rows a planner sees
    length: Array  # [R]
    suspect: Array  # [R]
    known: Array  # [R]
    bonus: Array  # [R]


class Rule(NamedTuple):
    """The constants of the deletion rule and of the bonus."""

    constant: float  # radius = min(1, scale sqrt((constant + weight log(8 e (n + 1))) / (2 n)))
    weight: float
    scale: float
    threshold: float  # (eps_s + sigma_s) / 2; negative when nothing may be deleted
    suspect_bonus: float  # times the radius, inside `suspects`
    cleared_bonus: float  # outside


@njit(cache=True)
def radius_at(rule, n):
    """The literal radius of the paper (section 3), times `scale`; at most 1, which the literal one is without data."""
    beta = rule.constant + rule.weight * np.log(8.0 * np.e * (n + 1.0))
    return min(1.0, rule.scale * np.sqrt(beta / max(2.0 * n, 1.0)))


@njit(cache=True)
def record(tally, row, successor):
    """One more observed transition; the caller has made sure that the segment has room."""
    tally.visits[row] += 1
    i = tally.begin[row]
    end = i + tally.length[row]
    while i < end:
        if tally.successor[i] == successor:
            tally.count[i] += 1
            return
        i += 1
    tally.successor[end] = successor
    tally.count[end] = 1
    tally.length[row] += np.uint32(1)


@njit(cache=True)
def simulator_probability(tally, row, successor, S):
    """P_sim(successor | row); the simulator's successors are sorted."""
    n = tally.simulator_length[row]
    if n == 0:
        return 1.0 / S
    low = np.int64(tally.simulator_begin[row])
    end = low + n
    high = end
    while low < high:
        middle = (low + high) // 2
        if tally.successor[middle] < successor:
            low = middle + 1
        else:
            high = middle
    if low < end and tally.successor[low] == successor:
        return tally.probability[low]
    return 0.0


@njit(cache=True)
def simulator_distance(tally, row, S):
    """TV distance between the empirical row and the simulator's; an unvisited row is uniform over all states."""
    n = tally.visits[row]
    if n == 0:
        stored = tally.simulator_length[row]
        if stored == 0:
            return 0.0
        total = (S - stored) / S
        first = np.int64(tally.simulator_begin[row])
        for i in range(first, first + stored):
            total += abs(tally.probability[i] - 1.0 / S)
        return 0.5 * total
    apart, shared = 0.0, 0.0
    first = np.int64(tally.begin[row])
    for i in range(first, first + tally.length[row]):
        q = simulator_probability(tally, row, tally.successor[i], S)
        apart += abs(tally.probability[i] - q)
        shared += q
    return min(1.0, 0.5 * (apart + max(0.0, 1.0 - shared)))


@njit(cache=True)
def refresh(tally, row):
    """The empirical probabilities of a row from its counts."""
    first = np.int64(tally.begin[row])
    for i in range(first, first + tally.length[row]):
        tally.probability[i] = tally.count[i] / tally.visits[row]


@njit(cache=True)
def distances(tally, S, out):
    """TV distance of every empirical row to the simulator's, into `out` [R]."""
    for row in range(out.size):
        refresh(tally, row)
        out[row] = simulator_distance(tally, row, S)


@njit(cache=True)
def radii(rule, visits, out):
    """The radius of every row, into `out` [R]."""
    for row in range(out.size):
        out[row] = radius_at(rule, visits[row])


@njit(cache=True)
def update_row(tally, belief, rule, row, S):
    """Everything that follows from a row's counts: its empirical probabilities, the deletion rule, its place in the model.

    Deletion (paper, eq. deletetion-rule) is permanent; counts of a deleted row are still kept.
    """
    if belief.suspect[row]:
        refresh(tally, row)
        radius = radius_at(rule, tally.visits[row])
        if simulator_distance(tally, row, S) + radius > rule.threshold:
            belief.begin[row], belief.length[row] = tally.begin[row], tally.length[row]
            belief.bonus[row] = rule.suspect_bonus * radius
            return
        belief.suspect[row] = False
    belief.begin[row], belief.length[row] = tally.simulator_begin[row], tally.simulator_length[row]
    belief.bonus[row] = 0.0 if belief.known[row] else rule.cleared_bonus


@njit(cache=True)
def update_all(tally, belief, rule, S):
    for row in range(belief.suspect.size):
        update_row(tally, belief, rule, row, S)


@njit(cache=True)
def record_episode(tally, states, actions, A, rows_per_step):
    """Count every transition of an episode."""
    for h in range(actions.size):
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        record(tally, row, states[h + 1])


@njit(cache=True)
def observe_episode(tally, belief, rule, states, actions, S, A, rows_per_step):
    """Count an episode, then apply Lines 3 and 4 of Algorithm 1 to the rows it changed (no other row can change)."""
    record_episode(tally, states, actions, A, rows_per_step)
    for h in range(actions.size):
        update_row(tally, belief, rule, h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h]), S)


@njit(cache=True)
def observe_episodes(tally, belief, rule, states, actions, ends, H, S, A, rows_per_step):
    """`observe_episode` for episodes laid end to end, until a row needs more room; returns how many were counted.

    Episode i has actions[ends[i] : ends[i + 1]] and one state more, its states beginning at ends[i] + i.
    """
    for i in range(ends.size - 1):
        here = actions[ends[i] : ends[i + 1]]
        visited = states[ends[i] + i : ends[i + 1] + i + 1]
        observe_episode(tally, belief, rule, visited, here, S, A, rows_per_step)
        if lacks_room(tally, visited, here, H, S, A, rows_per_step):
            return i + 1
    return ends.size - 1


@njit(cache=True)
def lacks_room(tally, states, actions, H, S, A, rows_per_step):
    """Whether a row of the episode could overflow its segment in the next one, which may be longer than this one."""
    new = 1 if rows_per_step > 0 else H
    for h in range(actions.size):
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        if tally.capacity[row] < min(S, np.int64(tally.length[row]) + new):
            return True
    return False
