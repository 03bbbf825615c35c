"""Backward induction on bonuses and bounds: values that are clipped at every step, and upper and lower values together.

Letters as in `transitions`. A bonus is [1 or H, S, A] and may be inf, where nothing is known of a row.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled
from safe2real._compiled.transitions import expectation, mean_of, rows_per_step


@compiled
def greedy(rows, bonus, gain, cap, actions):
    """W_h(s, a) = min(cap, bonus + gain P W_{h+1}), W_h(s) its maximum: [H + 1, S]; the maximiser into `actions` [H, S]."""
    H, S = actions.shape
    A = bonus.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        later = values[h + 1]
        mean, step = mean_of(later), h if bonus.shape[0] > 1 else 0
        for s in range(S):
            best = -np.inf
            for a in range(A):
                row = np.uint64(h * stride + s * A + a)
                total = min(cap, bonus[step, s, a] + gain * expectation(rows, row, later, mean))
                if total > best:
                    best = total
                    actions[h, s] = a
            values[h, s] = best
    return values


@compiled
def following(rows, bonus, gain, cap, policy):
    """The same for a policy [H, S, A] in place of the maximum: W_h(s) = sum_a policy W_h(s, a)."""
    H, S, A = policy.shape
    stride = rows_per_step(rows.begin, S, A)
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        later = values[h + 1]
        mean, step = mean_of(later), h if bonus.shape[0] > 1 else 0
        for s in range(S):
            total = 0.0
            for a in range(A):
                if policy[h, s, a] > 0.0:
                    row = np.uint64(h * stride + s * A + a)
                    worth = min(cap, bonus[step, s, a] + gain * expectation(rows, row, later, mean))
                    total += policy[h, s, a] * worth
            values[h, s] = total
    return values


@compiled
def bracket(rows, reward, scale, bonus, share, cap, actions, variances):
    """Upper and lower values [2, H + 1, S] of the best policy, with e = scale sqrt(Var Vup) + bonus + share P(Vup - Vlow):

        Qup = min(cap, r + e + P Vup),   Qlow = max(0, r - e + P Vlow),   Vup and Vlow their maxima over actions.

    `scale` and `bonus` are [1, S, A] or [H, S, A] alike. The maximiser of Qup goes into `actions` [H, S], the variance
    of Vup under every row into `variances` [H, S, A].
    """
    H, S = actions.shape
    A = reward.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    values, squares = np.zeros((2, H + 1, S)), np.empty(S)
    for h in range(H - 1, -1, -1):
        above, below = values[0, h + 1], values[1, h + 1]
        for s in range(S):
            squares[s] = above[s] * above[s]
        mean, mean_below, mean_squares = mean_of(above), mean_of(below), mean_of(squares)
        step, bonus_step = h if reward.shape[0] > 1 else 0, h if bonus.shape[0] > 1 else 0
        for s in range(S):
            best, least = -np.inf, 0.0
            for a in range(A):
                row = np.uint64(h * stride + s * A + a)
                up, low = expectation(rows, row, above, mean), expectation(rows, row, below, mean_below)
                variance = max(0.0, expectation(rows, row, squares, mean_squares) - up * up)
                variances[h, s, a] = variance
                error = bonus[bonus_step, s, a] + share * (up - low)
                if variance > 0.0:  # where the scale is inf, a variance of 0 would make it NaN
                    error += scale[bonus_step, s, a] * np.sqrt(variance)
                total = min(cap, reward[step, s, a] + error + up)
                least = max(least, reward[step, s, a] - error + low)
                if total > best:
                    best = total
                    actions[h, s] = a
            values[0, h, s] = best
            values[1, h, s] = least
    return values
