"""The least expectation of rows over their TV and KL balls, row after row of one step.

A row takes time in proportion to its stored transitions. The mass that moves within a TV ball comes from the successors of
the highest value: found one after the other where a row is short, from a heap where it is long, by one order for all rows
where it is uniform. All take them in the same order, the higher first and of equals the one stored first, so that it does
not matter for the number, to its last bit, which way was taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import inner
from safe2real._compiled.rows import Array
from safe2real._compiled.transitions import mean_of

NEAR = 0.02  # the search for nu ends where the bound is within about 1e-4 of its distance to the mean
LOOKS = 8  # for the highest successor of a row, one after the other, before a heap is made of what is left


class Later(NamedTuple):
    """The values after a step, and what all rows of the step need to know of them."""

    values: Array  # [S]
    lowest: float
    mean: float
    order: Array  # [S] states from the highest value to the lowest; [0] where no row asks for it


@inner
def longest_row(rows):
    longest = 1
    for row in range(rows.length.size):
        longest = max(longest, np.int64(rows.length[row]))
    return longest


@inner
def needs_order(sets):
    """Whether a uniform row has a ball that is more than the row itself and less than everything."""
    for row in range(sets.gap.size):
        if sets.rows.length[row] == 0 and 0.0 < sets.gap[row] < 1.0:
            return True
    return False


@inner
def later_of(values, ordered):
    lowest = values[0]
    for s in range(values.size):
        lowest = min(lowest, values[s])
    order = np.argsort(-values, kind="mergesort") if ordered else np.empty(0, dtype=np.int64)
    return Later(values, lowest, mean_of(values), order)


@inner
def least_by_likelihood(probability, first, above, n, divergence, bottom):
    """A lower bound on P . values over the rows P with KL(row, P) <= `divergence`, whose values are at least `bottom`.

    The row is probability[first : first + n]; `above` [n] are its successors' values minus `bottom`. For every
    nu <= bottom, by Jensen's inequality, P . values >= nu + exp(-divergence + sum_i p_i log(values_i - nu)); the
    best nu makes it the minimum over the ball. It is sought as bottom - d: the right-hand side grows with d while
    sum_i p_i log x_i + log sum_i p_i / x_i > divergence, x_i = values_i - bottom + d. Any d >= 0 gives a valid bound.
    """
    mean, square, least = 0.0, 0.0, np.inf
    for i in range(n):
        p = probability[first + i]
        mean += p * above[i]
        square += p * above[i] * above[i]
        if p > 0.0:
            least = min(least, above[i])
    if n == 0 or mean <= 1e-14:
        return bottom
    spread = np.sqrt(max(0.0, square - mean * mean) / (2.0 * divergence))
    d = max(spread - mean, 1e-3 * mean)  # right where the divergence is small
    bound = bottom
    for _ in range(40):
        logs, inverse, inverse_square = 0.0, 0.0, 0.0
        for i in range(n):
            p = probability[first + i]
            x = above[i] + d
            if p > 0.0:
                logs += p * np.log(x)
                inverse += p / x
                inverse_square += p / (x * x)
        bound = max(bound, bottom - d + np.exp(logs - divergence))
        slope = np.log(inverse) + logs - divergence
        if abs(slope) < NEAR * divergence or (slope < 0.0 and d < 1e-9 * mean):
            break
        turning = d * (inverse - inverse_square / inverse)  # of the slope, as log d moves; negative
        step = -slope / turning if turning < 0.0 else (2.0 if slope > 0.0 else -2.0)
        d *= np.exp(min(3.0, max(-3.0, step)))
    if least > 0.0 and d < 0.01 * mean:  # nu = bottom itself
        logs = 0.0
        for i in range(n):
            if probability[first + i] > 0.0:
                logs += probability[first + i] * np.log(above[i])
        bound = max(bound, bottom + np.exp(logs - divergence))
    return bound


@inner
def emptied_by_heap(total, probability, first, values, n, gap, bottom, heap):
    """`total` after the mass `gap` has moved from the highest `values` [n] of a row to the value `bottom`."""
    size = 0
    for i in range(np.int64(n)):
        if values[i] > bottom:
            heap[size] = i
            size += 1
    building, remaining = size // 2, gap
    while True:
        at = 0
        if building > 0:
            building -= 1
            at = building
        elif size > 0 and remaining > 0.0:
            highest = heap[0]
            moved = min(remaining, probability[np.int64(first) + highest])
            total -= moved * (values[highest] - bottom)
            remaining -= moved
            size -= 1
            heap[0] = heap[size]
        else:
            break
        # What is at `at` sinks below higher values, and below equal ones that are stored before it.
        place = heap[at]
        value = values[place]
        child = 2 * at + 1
        while child < size:
            below = heap[child]
            if child + 1 < size:
                other = heap[child + 1]
                if values[other] > values[below] or (values[other] == values[below] and other < below):
                    child, below = child + 1, other
            if value > values[below] or (value == values[below] and place < below):
                break
            heap[at] = below
            at, child = child, 2 * child + 1
        heap[at] = place
    return total


@inner
def emptied_in_order(later, gap, bottom):
    """The same for a uniform row, from its mean on."""
    values, total, remaining = later.values, later.mean, gap
    for k in range(later.order.size):
        value = values[later.order[k]]
        if remaining <= 0.0 or value <= bottom:
            break
        moved = min(remaining, 1.0 / values.size)
        total -= moved * (value - bottom)
        remaining -= moved
    return total


@inner
def least_of_rows(sets, first_row, later, chosen, shares, low, high, A, room, heap, out):
    """Lower bounds on P . values over the sets of the rows of states `low` to `high` of a step, into `out`.

    TV: mass moves from the successors of the highest value to the lowest that can be reached, the lowest of all where that
    is everywhere; this is the exact minimum over the ball intersected with the simplex. KL: `least_by_likelihood`. The
    larger of the two holds.

    The rows of the step begin at `first_row`, A for each state: all of them, those with shares[s, a] > 0 where `shares`
    [S, A] is not empty, or one for each state, that of the action chosen[s], where `chosen` [S] is not. `out` has one
    place for each row of these states, or for each state where actions are chosen; places of rows that are left out stay as
    they are. `room` and `heap` have `longest_row` places. Everything is in one loop: a call for each row would cost more
    than the row.
    """
    begin, length, successor, probability = sets.rows
    reach_begin, reach_length, reach_successor = sets.reach
    gaps, divergences, values = sets.gap, sets.divergence, later.values
    is_chosen, is_shared, is_limited = chosen.size > 0, shares.size > 0, reach_begin.size > 0
    one = np.uint64(1)
    known_gap, known_bottom, known = -1.0, 0.0, 0.0  # of the last uniform row: many are alike
    at = np.uint64(0)  # in `out`
    for s in range(low, high):
        first_action = np.int64(chosen[s]) if is_chosen else 0
        last_action = first_action + 1 if is_chosen else A
        for a in range(first_action, last_action):
            place = at
            at += one
            if is_shared and shares[s, a] <= 0.0:
                continue
            row = np.uint64(first_row + s * A + a)
            gap, bottom, total = gaps[row], later.lowest, 0.0
            first, n = np.uint64(begin[row]), np.uint64(length[row])
            if is_limited:
                i = np.uint64(reach_begin[row])
                end = i + np.uint64(reach_length[row])
                bottom = bottom if i == end else np.inf
                while i < end:
                    bottom = min(bottom, values[reach_successor[i]])
                    i += one
            if gap >= 1.0:
                total = bottom
            elif n == 0:
                if gap <= 0.0:
                    total = later.mean
                else:
                    if gap != known_gap or bottom != known_bottom:
                        known_gap, known_bottom, known = gap, bottom, emptied_in_order(later, gap, bottom)
                    total = known
            else:
                k = np.uint64(0)
                while k < n:
                    p, value = probability[first + k], values[successor[first + k]]
                    total += p * value
                    room[k] = value if p > 0.0 else -np.inf
                    k += one
                remaining, looks = gap, 0
                while remaining > 0.0:
                    if looks == LOOKS:
                        total = emptied_by_heap(total, probability, first, room, n, remaining, bottom, heap)
                        break
                    looks += 1
                    best, highest = bottom, n
                    k = np.uint64(0)
                    while k < n:  # selections, not a branch: which one wins cannot be predicted
                        better = room[k] > best
                        best = room[k] if better else best
                        highest = k if better else highest
                        k += one
                    if highest == n:
                        break
                    moved = min(remaining, probability[first + highest])
                    total -= moved * (best - bottom)
                    remaining -= moved
                    room[highest] = -np.inf
            if gap > 0.0 and divergences[row] < np.inf:
                k = np.uint64(0)
                while k < n:
                    room[k] = values[successor[first + k]] - bottom
                    k += one
                total = max(total, least_by_likelihood(probability, first, room, n, divergences[row], bottom))
            out[place] = total
