"""Counting: visits and successors of every row, beside the simulator's.

Letters: R rows (S*A, or H*S*A for dynamics that change with the step), N stored transitions. The first part of
`successor` and `probability` holds the simulator's transitions, the rest a segment of its own for the observed successors
of each row, so that a row of the hybrid model is a pointer to one or the other and never a copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import beforehand, borrowing, compiled
from safe2real._compiled.rows import Array


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


class Episode(NamedTuple):
    """An episode of n steps, with working space for the rows that it visits."""

    states: Array  # [n + 1]
    actions: Array  # [n]
    rows: Array  # [n] or longer, overwritten


@beforehand
def record(tally, row, successor):
    """Count one transition; the caller ensures that the segment has room."""
    tally.visits[row] += 1
    i = np.int64(tally.begin[row])
    end = i + np.int64(tally.length[row])
    while i < end and tally.successor[i] != successor:
        i += 1
    if i == end:  # not seen before; counts beyond a row's length are 0
        tally.successor[i] = successor
        tally.length[row] += np.uint32(1)
    tally.count[i] += 1


@compiled
def record_episode(tally, states, actions, A, rows_per_step):
    count_episode(tally, states, actions, A, rows_per_step)


@beforehand
def count_episode(tally, states, actions, A, rows_per_step):
    """Count every transition of an episode."""
    for h in range(actions.size):
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        record(tally, row, states[h + 1])


@borrowing
def lacks_room(tally, states, actions, H, S, A, rows_per_step):
    """Return whether the next episode, which may be longer, could overflow the segment of a row of this one."""
    new = 1 if rows_per_step > 0 else H
    for h in range(actions.size):
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        if tally.capacity[row] < min(S, np.int64(tally.length[row]) + new):
            return True
    return False


@borrowing
def refresh(tally, row):
    """Update the empirical probabilities of a row from its counts."""
    first = np.int64(tally.begin[row])
    for i in range(first, first + tally.length[row]):
        tally.probability[i] = tally.count[i] / tally.visits[row]


@borrowing
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


@borrowing
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
        apart += abs(tally.count[i] / n - q)
        shared += q
    return min(1.0, 0.5 * (apart + max(0.0, 1.0 - shared)))


@compiled
def distances(tally, S, out):
    """Write the TV distance of every empirical row to the simulator's into `out` [R]."""
    for row in range(out.size):
        out[row] = simulator_distance(tally, row, S)
