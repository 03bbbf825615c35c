"""Backward induction: the best policy for one weighted sum of reward and utilities, by one pass over all rows."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import inner
from safe2real._compiled.transitions import dot, expectation, mean_of, rows_per_step


@inner
def sweep(instance, weighted, actions, values):
    """Backward induction on `weighted` [1 or H, S, A]: the greedy policy into `actions` [H, S]; returns its weighted value.

    `values` [2, S] is working space.
    """
    rows, H = instance.rows, instance.H
    S, A = weighted.shape[1], weighted.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    values[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        utility, later, now = weighted[h if weighted.shape[0] > 1 else 0], values[(h + 1) % 2], values[h % 2]
        mean = mean_of(later) if instance.uniform else 0.0
        row = np.uint64(h * stride)
        for s in range(S):
            best = -np.inf
            choice = np.uint32(0)
            for a in range(A):
                q = utility[s, a] + expectation(rows, row, later, mean)
                row += np.uint64(1)
                # Written as selections, not a branch: which action wins cannot be predicted.
                better = q > best
                best = q if better else best
                choice = np.uint32(a) if better else choice
            now[s] = best
            actions[h, s] = choice
    return dot(instance.start, values[0])


@inner
def sweep_pair(instance, multiplier, actions, line, parts, q):
    """Backward induction on reward + multiplier * utility for K = 1: the greedy policy into `actions` [H, S], its two values
    into `line` [2]. An infinite multiplier means the utility alone. `parts` [2, 2, S] and `q` [2, A] are working space.
    """
    if instance.packed and not instance.uniform:
        sweep_pair_over(instance, None, multiplier, actions, line, parts, q)
    else:
        sweep_pair_over(instance, True, multiplier, actions, line, parts, q)


@inner
def sweep_pair_over(instance, any_rows, multiplier, actions, line, parts, q):
    """`sweep_pair` for rows of any kind, or (`any_rows` is None) for packed ones of which none is uniform.

    It carries the two values of the greedy policy instead of their weighted sum, so that nothing is left to evaluate.
    `any_rows` is known when this is compiled: where it is None `begin` need not be read. The values of all actions go to
    `q` and the best is fetched from there, because selecting three numbers at once is compiled to a branch, and which
    action wins cannot be predicted. Indices instead of slices, because making a slice costs as much as several rows;
    unsigned, because a signed index is tested for being negative at every use.
    """
    begin, length, successor, probability = instance.rows
    reward, utilities, H, uniform = instance.reward, instance.utilities, instance.H, instance.uniform
    S, A = reward.shape[1], reward.shape[2]
    stride = rows_per_step(begin, S, A)
    reward_weight, utility_weight = (0.0, 1.0) if multiplier == np.inf else (1.0, multiplier)
    parts[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        later, now = np.uint64((h + 1) % 2), np.uint64(h % 2)
        reward_step = np.uint64(h if reward.shape[0] > 1 else 0)
        utility_step = np.uint64(h if utilities.shape[1] > 1 else 0)
        mean = mean_of(parts[later, 0]) if uniform else 0.0
        other_mean = mean_of(parts[later, 1]) if uniform else 0.0
        row = np.uint64(h * stride)
        i = np.uint64(begin[row])
        for s in range(S):
            best = -np.inf
            choice = np.uint32(0)
            for a in range(A):
                total = reward[reward_step, s, a]
                other = utilities[0, utility_step, s, a]
                n = length[row]
                if any_rows is not None:
                    i = np.uint64(begin[row])
                    total += mean if n == 0 else 0.0
                    other += other_mean if n == 0 else 0.0
                end = i + n
                while i < end:
                    p = probability[i]
                    t = successor[i]
                    total += p * parts[later, 0, t]
                    other += p * parts[later, 1, t]
                    i += np.uint64(1)
                row += np.uint64(1)
                q[0, a] = total
                q[1, a] = other
                weighted = reward_weight * total + utility_weight * other
                better = weighted > best
                best = weighted if better else best
                choice = np.uint32(a) if better else choice
            parts[now, 0, s] = q[0, choice]
            parts[now, 1, s] = q[1, choice]
            actions[h, s] = choice
    line[0] = dot(instance.start, parts[0, 0])
    line[1] = dot(instance.start, parts[0, 1])


@inner
def sweep_lexicographic(instance, first, second, tie, actions, parts, q):
    """Backward induction on `first`; among actions within `tie` of the best, the one with the largest `second`."""
    rows, H = instance.rows, instance.H
    S, A = first.shape[1], first.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    parts[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        later, now = (h + 1) % 2, h % 2
        v, w = parts[later, 0], parts[later, 1]
        v_mean, w_mean = mean_of(v), mean_of(w)
        first_step, second_step = h if first.shape[0] > 1 else 0, h if second.shape[0] > 1 else 0
        row = np.uint64(h * stride)
        for s in range(S):
            best = -np.inf
            for a in range(A):
                q[0, a] = first[first_step, s, a] + expectation(rows, row, v, v_mean)
                q[1, a] = second[second_step, s, a] + expectation(rows, row, w, w_mean)
                row += np.uint64(1)
                best = max(best, q[0, a])
            choice = -1
            for a in range(A):
                if q[0, a] >= best - tie and (choice < 0 or q[1, a] > q[1, choice]):
                    choice = a
            parts[now, 0, s], parts[now, 1, s] = q[0, choice], q[1, choice]
            actions[h, s] = choice
