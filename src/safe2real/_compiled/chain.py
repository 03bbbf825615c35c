"""Delta by a chain of divergences: how far any value can be off, from the TV and the KL balls together (docs/samples.md).

For all s_j > 0, j = 1 to H - 1, Delta = sum_j s_j / 2 + max over feasible policies of V_b on the model, where step h of
a row costs b = min(gap (H - 1 - h), divergence sum over j > h of 1 / (4 s_j)). Good s_j follow from where a policy goes:
sqrt(W_j / 2), W_j what the divergences of its steps before j sum up to.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, shared
from safe2real._compiled.transitions import rows_per_step, spread

LEAST = 1e-6  # of the tolerance: the smallest s_j


@shared
def first_scales(H, tolerance):
    """[H] s_j that grow like the square root of j and take half of the tolerance; s_0 is not used."""
    scales, total = np.zeros(H), 0.0
    for j in range(1, H):
        scales[j] = np.sqrt(j)
        total += scales[j]
    for j in range(1, H):
        scales[j] *= tolerance / total
    return scales


@shared
def tails_of(scales):
    """[H] sum over j > h of 1 / (4 s_j)."""
    H = scales.size
    tails = np.zeros(H)
    for h in range(H - 2, -1, -1):
        tails[h] = tails[h + 1] + 0.25 / scales[h + 1]
    return tails


@compiled
def chain_bonus(sets, tails, H, S, A):
    """[H, S, A] what each step of a row costs."""
    out, stride = np.empty((H, S, A)), rows_per_step(sets.gap, S, A)
    for h in range(H):
        row = h * stride
        for s in range(S):
            for a in range(A):
                out[h, s, a] = cost_of(sets, row, tails[h], H - 1.0 - h)
                row += 1
    return out


@shared
def cost_of(sets, row, tail, span):
    by_gap = sets.gap[row] * span
    return min(by_gap, sets.divergence[row] * tail) if sets.divergence[row] < np.inf else by_gap


@compiled
def follow(sets, start, actions, weights, tails, least, scales, A):
    """Where the candidate goes on the model: new `scales` [H] from its divergences, in place; none below `least`.

    Returns what Delta is at least, whatever the scales: sum_j sqrt(W_j / 2) of this candidate, and the costs of its steps
    that go by their gap.
    """
    H, S = actions.shape[1], actions.shape[2]
    stride = rows_per_step(sets.gap, S, A)
    summed, by_gap = np.zeros(H), 0.0
    here, there = np.empty(S), np.empty(S)
    for slot in range(weights.size):
        if weights[slot] <= 0.0:
            continue
        for s in range(S):
            here[s] = start[s]
        for h in range(H):
            for s in range(S):
                there[s] = 0.0
            everywhere = 0.0
            for s in range(S):
                if here[s] > 0.0:
                    row, span = h * stride + s * A + np.int64(actions[slot, h, s]), H - 1.0 - h
                    if sets.divergence[row] * tails[h] < sets.gap[row] * span:
                        summed[h] += weights[slot] * here[s] * sets.divergence[row]
                    else:
                        by_gap += weights[slot] * here[s] * sets.gap[row] * span
                    everywhere += spread(sets.rows, np.uint64(row), here[s], there)
            for s in range(S):
                there[s] += everywhere / S
            here, there = there, here
    total, before = by_gap, 0.0
    for j in range(1, H):
        before += summed[j - 1]
        scales[j] = max(least, np.sqrt(0.5 * before))
        total += np.sqrt(0.5 * before)
    return total
