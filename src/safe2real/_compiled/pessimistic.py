"""Backward induction over sets of rows: policies by their worst case, and what is at stake in a row.

Letters as in `transitions`. For values at their best hand in the negative of the utility, and negate what comes back.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner, released
from safe2real._compiled.master import simplex, weights_of
from safe2real._compiled.robust import BLOCK
from safe2real._compiled.team import share_of, wait_for_all
from safe2real._compiled.transitions import dot, expectation, rows_per_step
from safe2real._compiled.worst_rows import later_of, least_of_rows, longest_row, needs_order


@inner
def sweep_states(reward_sets, sets, reward, utilities, prices, h, laters, longest, low, high, actions, now):
    """One step of `sweep` for the states `low` to `high`: into `actions` [S] and `now` [1 + K, S]."""
    S, A, K = reward.shape[1], reward.shape[2], utilities.shape[0]
    nobody, all_of_them = np.empty(0, dtype=np.uint32), np.empty((0, 0))
    room, heap = np.empty(longest), np.empty(longest, dtype=np.int64)
    q, total = np.empty((1 + K, BLOCK * A)), np.empty(BLOCK * A)
    reward_step, step = h if reward.shape[0] > 1 else 0, h if utilities.shape[1] > 1 else 0
    reward_row, row = h * rows_per_step(reward_sets.rows.begin, S, A), h * rows_per_step(sets.rows.begin, S, A)
    for first in range(low, high, BLOCK):
        last = min(high, first + BLOCK)
        least_of_rows(reward_sets, reward_row, laters[0], nobody, all_of_them, first, last, A, room, heap, q[0])
        for i in range((last - first) * A):
            q[0, i] = reward[reward_step, first + i // A, i % A] + q[0, i]
            total[i] = prices[0] * q[0, i]
        for k in range(K):
            least_of_rows(sets, row, laters[1 + k], nobody, all_of_them, first, last, A, room, heap, q[1 + k])
            for i in range((last - first) * A):
                q[1 + k, i] = utilities[k, step, first + i // A, i % A] + q[1 + k, i]
                total[i] += prices[1 + k] * q[1 + k, i]
        for s in range(first, last):
            choice = (s - first) * A
            for i in range(choice + 1, (s - first) * A + A):
                choice = i if total[i] > total[choice] else choice
            actions[s] = choice - (s - first) * A
            for j in range(1 + K):
                now[j, s] = q[j, choice]


@released
def sweep(reward_sets, sets, reward, utilities, prices, start, actions, line, values, team):
    """The policy that is greedy for prices[0] L_r + sum_k prices[1 + k] L_ck, where every L is carried under its own
    worst kernel: `reward` over `reward_sets`, `utilities` [K, 1 or H, S, A] over `sets`.

    The policy goes into `actions` [H, S]. The carried numbers, into `line` [1 + K], are what `robust.worst_value` gives
    for it: whatever was chosen, they are its own. `values` [2, 1 + K, S] is working space, zeros at first; a team works as
    in `robust`.
    """
    H, S = actions.shape
    K = utilities.shape[0]
    longest = max(longest_row(sets.rows), longest_row(reward_sets.rows))
    reward_ordered, ordered = needs_order(reward_sets), needs_order(sets)
    low, high = share_of(team, S)
    for h in range(H - 1, -1, -1):
        after = values[(h + 1) % 2]
        laters = [later_of(after[0], reward_ordered)]
        for k in range(K):
            laters.append(later_of(after[1 + k], ordered))
        sweep_states(
            reward_sets, sets, reward, utilities, prices, h, laters, longest, low, high, actions[h], values[h % 2]
        )  # fmt: skip
        wait_for_all(team)
    if team.member == 0:
        for j in range(1 + K):
            line[j] = dot(start, values[0, j])


@compiled
def add_stakes(sets, guess, values, visits, weight, out):
    """Add to `out` [R] for every row what its set leaves open about `values` [H + 1, S], where the row is visited.

    `visits` [H, S, A] are expected on the rows `guess`; what is open at a step is the distance between the guess's
    expectation and the worst over the row's set.
    """
    H, S, A = visits.shape
    stride = rows_per_step(sets.rows.begin, S, A)
    longest, ordered, nobody = longest_row(sets.rows), needs_order(sets), np.empty(0, dtype=np.uint32)
    room, heap = np.empty(longest), np.empty(longest, dtype=np.int64)
    least = np.empty(BLOCK * A)
    for h in range(H):
        later = later_of(values[h + 1], ordered)
        for first in range(0, S, BLOCK):
            last = min(S, first + BLOCK)
            least_of_rows(sets, h * stride, later, nobody, visits[h], first, last, A, room, heap, least)
            for i in range((last - first) * A):
                s, a = first + i // A, i % A
                row = h * stride + s * A + a
                if visits[h, s, a] > 0.0 and sets.gap[row] > 0.0:
                    guessed = expectation(guess, np.uint64(row), later.values, later.mean)
                    out[row] += weight * visits[h, s, a] * abs(guessed - least[i])


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
