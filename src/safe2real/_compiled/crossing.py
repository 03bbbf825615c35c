"""The optimum under at most one constraint: the search of `bracket`, with sweeps over the rows of a known model."""

from __future__ import annotations

import numpy as np

from safe2real._compiled import bracket, outcomes
from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.rows import Instance, Rows
from safe2real._compiled.sweeps import sweep, sweep_lexicographic, sweep_pair
from safe2real._compiled.transitions import layout


@compiled
def solve(
    begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """K <= 1. `actions` [SLOTS, H, S]: the first `warm` slots hold policies to start from, and `multipliers` the multiplier
    that went with them. Returns (status, bound, shortfall, sweeps). Bare arrays, because numba recognises them several
    times faster than a tuple when it is called from Python.
    """
    S, A = reward.shape[1], reward.shape[2]
    rows = Rows(begin, length, successor, probability)
    uniform, packed = layout(rows, S * A)
    instance = Instance(rows, start, reward, utilities, thresholds, H, uniform, packed)
    if thresholds.size == 0:
        bound = sweep(instance, reward, actions[0], np.empty((2, S)))
        lines[0, 0] = bound
        weights[:] = 0.0
        weights[0] = 1.0
        return outcomes.OPTIMAL, bound, 0.0, 1
    parts, q = np.empty((2, 2, S)), np.empty((2, A))
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], parts)
    rate = extent(reward) / max(extent(utilities[0]), 1e-300)
    search = bracket.begin(lines, weights, multipliers, thresholds, H, warm, rate)
    status = bracket.GO_ON
    while status == bracket.GO_ON:
        count = bracket.ask(search)
        if count == bracket.BREAK_TIES:
            slot = search.slots[0]
            sweep_lexicographic(instance, utilities[0], reward, bracket.TIE * H, actions[slot], parts, q)
            evaluate_actions(instance, actions[slot], lines[slot], parts)
        for lane in range(count):
            slot = search.slots[lane]
            sweep_pair(instance, search.asked[lane], actions[slot], lines[slot], parts, q)
        status = bracket.tell(search, count)
    return status, search.numbers[bracket.BOUND], search.numbers[bracket.SHORTFALL], int(search.numbers[bracket.PASSES])


@inner
def extent(x):
    """Largest minus smallest entry of x [1 or H, S, A]."""
    low, high = x[0, 0, 0], x[0, 0, 0]
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            for a in range(x.shape[2]):
                low = min(low, x[h, s, a])
                high = max(high, x[h, s, a])
    return high - low
