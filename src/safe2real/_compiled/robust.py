"""The worst and the best over all kernels within TV balls around the rows of a model."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.transitions import dot, rows_per_step


@inner
def lowest_of(values):
    lowest = values[0]
    for i in range(values.size):
        lowest = min(lowest, values[i])
    return lowest


@inner
def worst_expectation(rows, reach, row, gap, values, lowest, left):
    """min of P . values over the rows P within TV distance `gap` of a row, on its support.

    Mass moves from the successors of the highest value to the lowest that can be reached, `lowest` where that is everywhere;
    this is the exact minimum over the ball intersected with the simplex. `left` [>= S] is working space.
    """
    S = values.size
    successor, probability = rows.successor, rows.probability
    first, n = np.int64(rows.begin[row]), np.int64(rows.length[row])
    bottom = lowest
    if reach.begin.size > 0 and reach.length[row] > 0:
        start = np.int64(reach.begin[row])
        bottom = values[reach.successor[start]]
        for i in range(start, start + np.int64(reach.length[row])):
            bottom = min(bottom, values[reach.successor[i]])
    if gap >= 1.0:
        return bottom
    total = 0.0
    if n == 0:
        for s in range(S):
            total += values[s]
        total /= S
    else:
        for i in range(first, first + n):
            total += probability[i] * values[successor[i]]
    if gap <= 0.0:
        return total
    count = S if n == 0 else n
    for i in range(count):
        left[i] = 1.0 / S if n == 0 else probability[first + i]
    remaining = gap
    while remaining > 0.0:
        best, at = bottom, -1
        for i in range(count):
            value = values[i] if n == 0 else values[successor[first + i]]
            if left[i] > 0.0 and value > best:
                best, at = value, i
        if at < 0:
            break
        moved = min(remaining, left[at])
        total -= moved * (best - bottom)
        left[at] -= moved
        remaining -= moved
    return total


@compiled
def worst_value(rows, reach, gap, utility, policy, fixed, start):
    """min over all kernels within `gap` [R] of the model, row by row and step by step, of V_f of a policy.

    Follows the deterministic actions `fixed` [H, S] when that is not empty, otherwise `policy` [H, S, A]; `utility`
    is [1 or H, S, A].
    """
    is_fixed = fixed.size > 0
    H = fixed.shape[0] if is_fixed else policy.shape[0]
    S, A = utility.shape[1], utility.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    after, now, left = np.zeros(S), np.zeros(S), np.empty(S)
    for h in range(H - 1, -1, -1):
        lowest = lowest_of(after)
        step = h if utility.shape[0] > 1 else 0
        for s in range(S):
            total = 0.0
            first = np.int64(fixed[h, s]) if is_fixed else 0
            for a in range(first, first + 1 if is_fixed else A):
                share = 1.0 if is_fixed else policy[h, s, a]
                if share > 0.0:
                    row = h * stride + s * A + a
                    least = worst_expectation(rows, reach, row, gap[row], after, lowest, left)
                    total += share * (utility[step, s, a] + least)
            now[s] = total
        after, now = now, after
    return dot(start, after)


@compiled
def least_cost(rows, reach, gap, cost, start, H):
    """min over policies AND kernels within `gap` of the expected sum of `cost` [1 or H, S, A].

    With cost = - utility it is minus the optimistic value.
    """
    S, A = cost.shape[1], cost.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    after, now, left = np.zeros(S), np.zeros(S), np.empty(S)
    for h in range(H - 1, -1, -1):
        lowest = lowest_of(after)
        step = h if cost.shape[0] > 1 else 0
        for s in range(S):
            best = np.inf
            for a in range(A):
                row = h * stride + s * A + a
                least = worst_expectation(rows, reach, row, gap[row], after, lowest, left)
                best = min(best, cost[step, s, a] + least)
            now[s] = best
        after, now = now, after
    return dot(start, after)
