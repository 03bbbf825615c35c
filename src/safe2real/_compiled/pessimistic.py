"""Backward induction over sets of rows: policies by their worst case, values at their worst, what is at stake in a row.

Letters as in `transitions`. For values at their best hand in the negative of the utility, and negate what comes back.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled
from safe2real._compiled.master import simplex, weights_of
from safe2real._compiled.robust import lowest_of, working_space, worst_expectation
from safe2real._compiled.transitions import dot, expectation, mean_of, rows_per_step


@compiled
def sweep(reward_sets, sets, reward, utilities, prices, start, actions, line):
    """The policy that is greedy for prices[0] L_r + sum_k prices[1 + k] L_ck, where every L is carried under its own
    worst kernel: `reward` over `reward_sets`, `utilities` [K, 1 or H, S, A] over `sets`.

    The policy goes into `actions` [H, S]. The carried numbers, into `line` [1 + K], are what `robust.worst_value` gives
    for it: whatever was chosen, they are its own.
    """
    H, S = actions.shape
    A, K = reward.shape[2], utilities.shape[0]
    stride = rows_per_step(sets.rows.begin, S, A)
    reward_stride = rows_per_step(reward_sets.rows.begin, S, A)
    values, q, total = np.zeros((1 + K, S)), np.empty((1 + K, S * A)), np.empty(S * A)
    left = np.empty(max(working_space(sets.rows, S).size, working_space(reward_sets.rows, S).size))
    for h in range(H - 1, -1, -1):
        after = values[0]
        lowest = lowest_of(after)
        step = h if reward.shape[0] > 1 else 0
        for i in range(S * A):
            least = worst_expectation(reward_sets, h * reward_stride + i, after, lowest, left)
            q[0, i] = reward[step, i // A, i % A] + least
            total[i] = prices[0] * q[0, i]
        step = h if utilities.shape[1] > 1 else 0
        for k in range(K):
            after = values[1 + k]
            lowest = lowest_of(after)
            for i in range(S * A):
                least = worst_expectation(sets, h * stride + i, after, lowest, left)
                q[1 + k, i] = utilities[k, step, i // A, i % A] + least
                total[i] += prices[1 + k] * q[1 + k, i]
        for s in range(S):
            choice = s * A
            for i in range(s * A + 1, s * A + A):
                choice = i if total[i] > total[choice] else choice
            actions[h, s] = choice - s * A
            for j in range(1 + K):
                values[j, s] = q[j, choice]
    for j in range(1 + K):
        line[j] = dot(start, values[j])


@compiled
def worst_values(sets, utility, policy, fixed):
    """`robust.worst_value` from every step and state on: [H + 1, S], the last row 0."""
    is_fixed = fixed.size > 0
    H = fixed.shape[0] if is_fixed else policy.shape[0]
    S, A = utility.shape[1], utility.shape[2]
    stride = rows_per_step(sets.rows.begin, S, A)
    values, left = np.zeros((H + 1, S)), working_space(sets.rows, S)
    for h in range(H - 1, -1, -1):
        after = values[h + 1]
        lowest = lowest_of(after)
        step = h if utility.shape[0] > 1 else 0
        for s in range(S):
            total = 0.0
            first = np.int64(fixed[h, s]) if is_fixed else 0
            for a in range(first, first + 1 if is_fixed else A):
                share = 1.0 if is_fixed else policy[h, s, a]
                if share > 0.0:
                    least = worst_expectation(sets, h * stride + s * A + a, after, lowest, left)
                    total += share * (utility[step, s, a] + least)
            values[h, s] = total
    return values


@compiled
def cheapest_policy(sets, cost, actions):
    """`robust.least_cost` with the policy that attains it into `actions` [H, S]; returns the values [H + 1, S]."""
    H, S = actions.shape
    A = cost.shape[2]
    stride = rows_per_step(sets.rows.begin, S, A)
    values, left = np.zeros((H + 1, S)), working_space(sets.rows, S)
    for h in range(H - 1, -1, -1):
        after = values[h + 1]
        lowest = lowest_of(after)
        step = h if cost.shape[0] > 1 else 0
        for s in range(S):
            best, choice = np.inf, 0
            for a in range(A):
                least = cost[step, s, a] + worst_expectation(sets, h * stride + s * A + a, after, lowest, left)
                if least < best:
                    best, choice = least, a
            values[h, s] = best
            actions[h, s] = choice
    return values


@compiled
def add_stakes(sets, guess, values, visits, weight, out):
    """Add to `out` [R] for every row what its set leaves open about `values` [H + 1, S], where the row is visited.

    `visits` [H, S, A] are expected on the rows `guess`; what is open at a step is the distance between the guess's
    expectation and the worst over the row's set.
    """
    H, S, A = visits.shape
    stride = rows_per_step(sets.rows.begin, S, A)
    left = working_space(sets.rows, S)
    for h in range(H):
        after = values[h + 1]
        lowest, mean = lowest_of(after), mean_of(after)
        for s in range(S):
            for a in range(A):
                row = h * stride + s * A + a
                if visits[h, s, a] > 0.0 and sets.gap[row] > 0.0:
                    least = worst_expectation(sets, row, after, lowest, left)
                    out[row] += weight * visits[h, s, a] * abs(expectation(guess, np.uint64(row), after, mean) - least)


@compiled
def best_mixture(lines, thresholds, weights, dual):
    """The weights [C] of the best mixture of the columns `lines` [C, 1 + K] that meets every threshold.

    Column 0 must meet all of them: the search starts there. `dual` [K + 1] gets the prices, those of the constraints at
    most 0, and the value last.
    """
    C, K = lines.shape[0], thresholds.size
    basis = np.empty(K + 1, dtype=np.int64)
    for k in range(K):
        basis[k] = C + k  # its slack
    basis[K] = 0
    used = np.ones(C, dtype=np.bool_)
    solution = simplex(lines, used, thresholds, basis, False, dual)
    weights_of(basis, solution, C, weights)
