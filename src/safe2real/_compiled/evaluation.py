"""Evaluation of a policy in a known model: occupancies forward, values backward."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import borrowing, compiled
from safe2real._compiled.transitions import dot, expectation, mean_of, rows_per_step, spread


@compiled
def occupancy(rows, start, policy):
    """State-action visitation probabilities [H, S, A] of a stochastic policy [H, S, A]."""
    H, S, A = policy.shape
    stride = rows_per_step(rows.begin, S, A)
    visits = np.zeros((H, S, A))
    here, there = np.empty(S), np.empty(S)
    for s in range(S):
        here[s] = start[s]
    for h in range(H):
        for s in range(S):
            there[s] = 0.0
        everywhere = 0.0
        for s in range(S):
            for a in range(A):
                mass = here[s] * policy[h, s, a]
                if mass > 0.0:
                    visits[h, s, a] = mass
                    everywhere += spread(rows, np.uint64(h * stride + s * A + a), mass, there)
        for s in range(S):
            there[s] += everywhere / S
        here, there = there, here
    return visits


@compiled
def value_functions(rows, utility, policy):
    """V_h(s) [H + 1, S] of one utility [1 or H, S, A] under a stochastic policy [H, S, A]; the last row is 0."""
    H, S, A = policy.shape
    stride = rows_per_step(rows.begin, S, A)
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        later = values[h + 1]
        mean = mean_of(later)
        u = utility[h if utility.shape[0] > 1 else 0]
        for s in range(S):
            total = 0.0
            for a in range(A):
                if policy[h, s, a] > 0.0:
                    row = np.uint64(h * stride + s * A + a)
                    total += policy[h, s, a] * (u[s, a] + expectation(rows, row, later, mean))
            values[h, s] = total
    return values


@borrowing
def evaluate_actions(task, actions, line):
    """Values of the reward and of K >= 1 constraints under the policy `actions` [H, S], into `line` [1 + K].

    `task` has rows, start, reward, utilities, H, uniform and working space for 2 (1 + K) S numbers in `room`.
    """
    begin, length, successor, probability = task.rows
    reward, utilities, H, uniform = task.reward, task.utilities, task.H, task.uniform
    S, A, K = reward.shape[1], reward.shape[2], utilities.shape[0]
    stride = rows_per_step(begin, S, A)
    parts = task.room[: 2 * (1 + K) * S].reshape((2, 1 + K, S))
    for k in range(1 + K):
        for s in range(S):
            parts[H % 2, k, s] = 0.0
    for h in range(H - 1, -1, -1):
        later, now = np.uint64((h + 1) % 2), np.uint64(h % 2)
        reward_step = np.uint64(h if reward.shape[0] > 1 else 0)
        utility_step = np.uint64(h if utilities.shape[1] > 1 else 0)
        for k in range(K):
            part = np.uint64(1 + k)
            mean = mean_of(parts[later, 0]) if uniform else 0.0
            other_mean = mean_of(parts[later, part]) if uniform else 0.0
            first = np.uint64(h * stride)
            for s in range(S):
                a = np.uint64(actions[h, s])
                row = first + a
                first += np.uint64(A)
                n = length[row]
                i = np.uint64(begin[row])
                end = i + n
                total = reward[reward_step, s, a] + (mean if n == 0 else 0.0)
                other = utilities[k, utility_step, s, a] + (other_mean if n == 0 else 0.0)
                while i < end:
                    p = probability[i]
                    t = successor[i]
                    total += p * parts[later, 0, t]
                    other += p * parts[later, part, t]
                    i += np.uint64(1)
                parts[now, 0, s] = total
                parts[now, part, s] = other
    for j in range(1 + K):
        line[j] = dot(task.start, parts[0, j])
