"""The worst and the best over all kernels within TV and KL balls around the rows of a model."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.transitions import dot, rows_per_step

NEAR = 0.02  # the search for nu ends where the bound is within about 1e-4 of its distance to the mean


@inner
def lowest_of(values):
    lowest = values[0]
    for i in range(values.size):
        lowest = min(lowest, values[i])
    return lowest


@inner
def working_space(rows, S):
    """Room for the longest row: one that lists labels may have more of them than there are states."""
    longest = S
    for row in range(rows.length.size):
        longest = max(longest, np.int64(rows.length[row]))
    return np.empty(longest)


@inner
def least_by_likelihood(rows, row, divergence, values, bottom):
    """A lower bound on P . values over the rows P with KL(row, P) <= `divergence`, whose values are at least `bottom`.

    For every nu <= bottom, by Jensen's inequality, P . values >= nu + exp(-divergence + sum_i p_i log(values_i - nu)); the
    best nu makes it the minimum over the ball. It is sought as bottom - d: the right-hand side grows with d while
    sum_i p_i log x_i + log sum_i p_i / x_i > divergence, x_i = values_i - bottom + d. Any d >= 0 gives a valid bound.
    """
    first, n = np.int64(rows.begin[row]), np.int64(rows.length[row])
    mean, square, least = 0.0, 0.0, np.inf
    for i in range(first, first + n):
        above = values[rows.successor[i]] - bottom
        mean += rows.probability[i] * above
        square += rows.probability[i] * above * above
        if rows.probability[i] > 0.0:
            least = min(least, above)
    if n == 0 or mean <= 1e-14:
        return bottom
    spread = np.sqrt(max(0.0, square - mean * mean) / (2.0 * divergence))
    d = max(spread - mean, 1e-3 * mean)  # right where the divergence is small
    bound = bottom
    for _ in range(40):
        logs, inverse, inverse_square = 0.0, 0.0, 0.0
        for i in range(first, first + n):
            p = rows.probability[i]
            x = values[rows.successor[i]] - bottom + d
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
        for i in range(first, first + n):
            if rows.probability[i] > 0.0:
                logs += rows.probability[i] * np.log(values[rows.successor[i]] - bottom)
        bound = max(bound, bottom + np.exp(logs - divergence))
    return bound


@inner
def worst_expectation(sets, row, values, lowest, left):
    """A lower bound on P . values over the rows P of a row's set, on its support.

    TV: mass moves from the successors of the highest value to the lowest that can be reached, `lowest` where that is
    everywhere; this is the exact minimum over the ball intersected with the simplex. KL: see above. The larger of the two
    holds. `left` is
    from `working_space`.
    """
    rows, reach, gap = sets.rows, sets.reach, sets.gap[row]
    S = values.size
    successor, probability = rows.successor, rows.probability
    first, n = np.int64(rows.begin[row]), np.int64(rows.length[row])
    bottom = lowest
    if reach.begin.size > 0 and reach.length[row] > 0:
        start = np.int64(reach.begin[row])
        bottom = values[reach.successor[start]]
        for i in range(start, start + np.int64(reach.length[row])):
            bottom = min(bottom, values[reach.successor[i]])
    least = -np.inf
    if gap > 0.0 and sets.divergence[row] < np.inf:
        least = least_by_likelihood(rows, row, sets.divergence[row], values, bottom)
    if gap >= 1.0:
        return max(bottom, least)
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
    return max(total, least)


@compiled
def worst_value(sets, utility, policy, fixed, start):
    """A lower bound on V_f of a policy over all kernels in `sets`, row by row and step by step; the minimum for TV alone.

    Follows the deterministic actions `fixed` [H, S] when that is not empty, otherwise `policy` [H, S, A]; `utility`
    is [1 or H, S, A].
    """
    is_fixed = fixed.size > 0
    H = fixed.shape[0] if is_fixed else policy.shape[0]
    S, A = utility.shape[1], utility.shape[2]
    stride = rows_per_step(sets.rows.begin, S, A)
    after, now, left = np.zeros(S), np.zeros(S), working_space(sets.rows, S)
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
                    least = worst_expectation(sets, row, after, lowest, left)
                    total += share * (utility[step, s, a] + least)
            now[s] = total
        after, now = now, after
    return dot(start, after)


@compiled
def least_cost(sets, cost, start, H):
    """A lower bound over policies AND kernels in `sets` on the expected sum of `cost` [1 or H, S, A].

    With cost = - utility it is minus the optimistic value.
    """
    S, A = cost.shape[1], cost.shape[2]
    stride = rows_per_step(sets.rows.begin, S, A)
    after, now, left = np.zeros(S), np.zeros(S), working_space(sets.rows, S)
    for h in range(H - 1, -1, -1):
        lowest = lowest_of(after)
        step = h if cost.shape[0] > 1 else 0
        for s in range(S):
            best = np.inf
            for a in range(A):
                row = h * stride + s * A + a
                least = worst_expectation(sets, row, after, lowest, left)
                best = min(best, cost[step, s, a] + least)
            now[s] = best
        after, now = now, after
    return dot(start, after)
