"""The least expectation of rows over their TV and KL balls, row after row of one step.

A row takes time in proportion to its stored transitions. The mass that moves within a TV ball comes from the successors of
the highest value. They are found by a few linear searches, then from a heap; uniform rows use the heap at once. Both break
ties by the order of storage, so the results are the same bits.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner, instead_of
from safe2real._compiled.rows import Array, Sets
from safe2real._compiled.team import Team
from safe2real._compiled.transitions import dot, longest_of, mean_of, rows_per_step

NEAR = 0.02  # the search for nu ends where the bound is within about 1e-4 of its distance to the mean
LOOKS = 8  # linear searches for the highest successor of a row, before a heap of the rest is made
EVERY_ROW, EVERY_ACTION = np.empty((0, 0)), np.empty(0, dtype=np.uint32)  # `shares` and `chosen` that leave nothing out


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
def emptied_by_heap(total, probability, first, alike, values, n, gap, bottom, heap):
    """`total` after the mass `gap` has moved from the highest `values` [n] of a row to the value `bottom`.

    The row is probability[first : first + n], or `alike` everywhere where that is positive. `heap` has n places.
    """
    size = 0
    for i in range(n):
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
            share = alike if alike > 0.0 else probability[first + highest]
            moved = share if share < remaining else remaining
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
def least_of_rows(sets, first_row, values, chosen, shares, A, longest, out, low, high):
    """Lower bounds on P . values over the sets of the rows of states `low` to `high` of a step, into `out`.

    TV: mass moves from the successors of the highest value to the lowest that can be reached, the lowest of all where that
    is everywhere; this is the exact minimum over the ball intersected with the simplex. KL: `least_by_likelihood`. The
    larger of the two holds.

    The rows of the step begin at `first_row`, A for each state: all of them, those with shares[s, a] > 0 where `shares`
    [S, A] is not empty, or one for each state, that of the action chosen[s], where `chosen` [S] is not. `out` has one
    place for each row of the step, or for each state where actions are chosen; places of rows that are left out stay as
    they are. No row has more than `longest` transitions. Everything is in one loop: a call for each row would cost more
    than the row.
    """
    begin, length, successor, probability = sets.rows
    reach_begin, reach_length, reach_successor = sets.reach
    gaps, divergences = sets.gap, sets.divergence
    lowest, mean = values[0], mean_of(values)
    for s in range(values.size):
        lowest = values[s] if values[s] < lowest else lowest
    room, heap = np.empty(longest), np.empty(max(longest, values.size), dtype=np.int64)
    is_chosen, is_shared, is_limited = chosen.size > 0, shares.size > 0, reach_begin.size > 0
    one = np.uint64(1)
    known_gap, known_bottom, known = -1.0, 0.0, 0.0  # of the last uniform row: many are alike
    at = np.uint64(low) if is_chosen else np.uint64(low * A)  # in `out`
    for s in range(low, high):
        first_action = np.int64(chosen[s]) if is_chosen else 0
        last_action = first_action + 1 if is_chosen else A
        for a in range(first_action, last_action):
            place = at
            at += one
            if is_shared and shares[s, a] <= 0.0:
                continue
            row = np.uint64(first_row + s * A + a)
            gap, bottom, total = gaps[row], lowest, 0.0
            first, n = np.uint64(begin[row]), np.uint64(length[row])
            if is_limited:
                i = np.uint64(reach_begin[row])
                end = i + np.uint64(reach_length[row])
                bottom = bottom if i == end else np.inf
                while i < end:
                    value = values[reach_successor[i]]
                    bottom = value if value < bottom else bottom
                    i += one
            if gap >= 1.0:
                total = bottom
            elif n == 0:
                if gap <= 0.0:
                    total = mean
                else:
                    if gap != known_gap or bottom != known_bottom:
                        known_gap, known_bottom = gap, bottom
                        known = emptied_by_heap(
                            mean, probability, 0, 1.0 / values.size, values, values.size, gap, bottom, heap
                        )
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
                        total = emptied_by_heap(
                            total, probability, np.int64(first), 0.0, room, np.int64(n), remaining, bottom, heap
                        )
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
                    share = probability[first + highest]
                    moved = share if share < remaining else remaining
                    total -= moved * (best - bottom)
                    remaining -= moved
                    room[highest] = -np.inf
            if gap > 0.0 and divergences[row] < np.inf:
                k = np.uint64(0)
                while k < n:
                    room[k] = values[successor[first + k]] - bottom
                    k += one
                bound = least_by_likelihood(probability, first, room, n, divergences[row], bottom)
                total = bound if bound > total else total
            out[place] = total


@compiled
def least_of_step(sets, first_row, values, chosen, shares, A, longest, out, low, high):
    least_of_rows(sets, first_row, values, chosen, shares, A, longest, out, low, high)


def follow(sets: Sets, utility: Array, policy: Array, fixed: Array, start: Array, values: Array, threads: int) -> float:
    """A lower bound on V_f of a policy over all kernels in `sets`, row by row and step by step; the minimum for TV alone.

    Follows the deterministic actions `fixed` [H, S] when that is not empty, otherwise `policy` [H, S, A]; `utility`
    is [1 or H, S, A]. `values` is [H + 1, S], or [2, S] where only those of the first step are asked for: step h is in
    line h modulo its length. For values at their best hand in the negative of the utility, and negate what comes back.
    """
    H, S, A = len(fixed) or len(policy), start.size, utility.shape[2]
    stride, longest, states = rows_per_step(sets.gap, S, A), longest_of(sets.rows), np.arange(S)
    values[H % len(values)] = 0.0
    with Team(threads, S) as team:
        for h in range(H - 1, -1, -1):
            later, earned = values[(h + 1) % len(values)], utility[h if len(utility) > 1 else 0]
            if fixed.size:
                least = np.empty(S)
                team.share(least_of_step, sets, h * stride, later, fixed[h], EVERY_ROW, A, longest, least)
                values[h % len(values)] = earned[states, fixed[h]] + least
                continue
            least, total = np.zeros(S * A), np.zeros(S)
            team.share(least_of_step, sets, h * stride, later, EVERY_ACTION, policy[h], A, longest, least)
            for a in range(A):  # one after the other, as compiled code adds them
                total += policy[h][:, a] * (earned[:, a] + least[a::A])
            values[h % len(values)] = total
    return float(np.add.accumulate(start * values[0])[-1])


@instead_of(follow)
def compiled_follow(sets, utility, policy, fixed, start, values, threads):
    is_fixed, kept, S, A = fixed.size > 0, values.shape[0], start.size, utility.shape[2]
    H = fixed.shape[0] if is_fixed else policy.shape[0]
    stride, longest = rows_per_step(sets.gap, S, A), longest_of(sets.rows)
    no_policy, no_shares, least = np.empty(0, dtype=np.uint32), np.empty((0, 0)), np.empty(S if is_fixed else S * A)
    for s in range(S):
        values[H % kept, s] = 0.0
    for h in range(H - 1, -1, -1):
        chosen, shares = fixed[h] if is_fixed else no_policy, no_shares if is_fixed else policy[h]
        least_of_rows(sets, h * stride, values[(h + 1) % kept], chosen, shares, A, longest, least, 0, S)
        step = h if utility.shape[0] > 1 else 0
        for s in range(S):
            total = 0.0
            if is_fixed:
                total = utility[step, s, np.int64(chosen[s])] + least[s]
            else:
                for a in range(A):
                    if shares[s, a] > 0.0:
                        total += shares[s, a] * (utility[step, s, a] + least[s * A + a])
            values[h % kept, s] = total
    return dot(start, values[0])
