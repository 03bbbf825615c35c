"""Backward induction over policies AND kernels at once: every row takes the distribution of its set that suits the sum best.

Letters as in `transitions`. The set of a row is a box, every probability between two bounds, or a TV ball.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.rows import Array, Rows
from safe2real._compiled.transitions import dot, rows_per_step


class Around(NamedTuple):
    """Rows of a model, and the set around each of them."""

    rows: Rows
    low: Array  # [N] least probability of every stored transition; [0] for TV balls
    high: Array  # [N] largest
    rest: Array  # [R] largest probability of a successor that is not stored; how far a uniform row's may be from 1/S
    gap: Array  # [R] TV distance; [0] for boxes


FEW = 32  # successors of a row among which the next one in the order is looked for; for more, the order is walked


@inner
def next_stored(rows, first, n, rank, last, direction):
    """Which transition of a row is next after the rank `last`, or before it where `direction` is -1; -1 where none is."""
    found, nearest = -1, rank.size + 1
    for i in range(first, first + n):
        apart = direction * (rank[rows.successor[i]] - last)
        if 0 < apart < nearest:
            found, nearest = i, apart
    return found


@inner
def fill_box(around, row, order, rank, values, room, out):
    """The expectation of every line of `values` [C, S] under the box's vertex that is best for the first state of `order`,
    then the next, into `out` [C]: all start at their lower bounds, and what is left of the mass goes to the best.

    `rank` [S] is the place of each state in the order. `room` [S] is -1 wherever nothing is stored, before and after.
    """
    rows, S = around.rows, order.size
    first, n = np.int64(rows.begin[row]), np.int64(rows.length[row])
    left = 1.0
    out[:] = 0.0
    elsewhere = around.rest[row]
    if n == 0:
        least = max(0.0, 1.0 / S - around.rest[row])
        elsewhere = min(1.0, 1.0 / S + around.rest[row]) - least
        left -= S * least
        for s in range(S):
            for j in range(out.size):
                out[j] += least * values[j, s]
    else:
        for i in range(first, first + n):
            s, least = rows.successor[i], around.low[i]
            room[s] = around.high[i] - least
            left -= least
            for j in range(out.size):
                out[j] += least * values[j, s]
    k = -1
    while left > 0.0 and k < S - 1:
        k += 1
        if elsewhere == 0.0 and n <= FEW:  # only stored ones have room
            i = next_stored(rows, first, n, rank, k - 1, 1)
            if i < 0:
                break
            k = rank[rows.successor[i]]
        s = order[k]
        moved = min(left, room[s] if room[s] >= 0.0 else elsewhere)
        left -= moved
        for j in range(out.size):
            out[j] += moved * values[j, s]
    for i in range(first, first + n):
        room[rows.successor[i]] = -1.0


@inner
def fill_ball(around, row, order, rank, values, room, out):
    """The same for a TV ball: mass moves from the worst successors of the row to the best state."""
    rows, S = around.rows, order.size
    first, n = np.int64(rows.begin[row]), np.int64(rows.length[row])
    out[:] = 0.0
    if n == 0:
        for s in range(S):
            for j in range(out.size):
                out[j] += values[j, s] / S
    else:
        for i in range(first, first + n):
            s, p = rows.successor[i], rows.probability[i]
            room[s] = p
            for j in range(out.size):
                out[j] += p * values[j, s]
    left, best, elsewhere = around.gap[row], order[0], 1.0 / S if n == 0 else 0.0
    k = S
    while left > 0.0 and k > 1:
        k -= 1
        if 0 < n <= FEW:
            i = next_stored(rows, first, n, rank, k + 1, -1)
            if i < 0 or rank[rows.successor[i]] == 0:
                break
            k = rank[rows.successor[i]]
        s = order[k]
        moved = min(left, room[s] if room[s] >= 0.0 else elsewhere)
        left -= moved
        for j in range(out.size):
            out[j] += moved * (values[j, best] - values[j, s])
    for i in range(first, first + n):
        room[rows.successor[i]] = -1.0


@compiled
def sweep(around, reward, utilities, prices, start, actions, line):
    """The policy and the kernels that are best for prices[0] r + sum_k prices[1 + k] c_k, where `utilities` are
    [K, 1 or H, S, A]: the policy into `actions` [H, S], the reward and every utility under both into `line` [1 + K].
    """
    H, S = actions.shape
    A, K = reward.shape[2], utilities.shape[0]
    stride = rows_per_step(around.rows.begin, S, A)
    later, now = np.zeros((1 + K, S)), np.zeros((1 + K, S))
    weighted, room, out, is_box = np.zeros(S), np.full(S, -1.0), np.empty(1 + K), around.gap.size == 0
    rank = np.empty(S, dtype=np.int64)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            weighted[s] = 0.0
            for j in range(1 + K):
                weighted[s] -= prices[j] * later[j, s]
        order = np.argsort(weighted)
        for k in range(S):
            rank[order[k]] = k
        for s in range(S):
            best = -np.inf
            for a in range(A):
                row = h * stride + s * A + a
                if is_box:
                    fill_box(around, row, order, rank, later, room, out)
                else:
                    fill_ball(around, row, order, rank, later, room, out)
                out[0] += reward[h if reward.shape[0] > 1 else 0, s, a]
                total = prices[0] * out[0]
                for k in range(K):
                    out[1 + k] += utilities[k, h if utilities.shape[1] > 1 else 0, s, a]
                    total += prices[1 + k] * out[1 + k]
                if total > best:
                    best = total
                    actions[h, s] = a
                    for j in range(1 + K):
                        now[j, s] = out[j]
        later, now = now, later
    for j in range(1 + K):
        line[j] = dot(start, later[j])
