"""Compiled tests of the baseline's margin, by the data of the run itself; nothing here checks its input.

Two of them (proofs in docs/guarantee.md). By the model: the best V_c of the baseline over the confidence sets is an upper
bound on its real V_c, on the event that the certificates rest on; the worst one is a lower bound, and a larger margin than
the stated one where it is that. By returns: a bettor who bets on returns below threshold + margin, in the baseline's own
episodes, is rich with a stated probability at most if the margin is there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import borrowing, shared
from safe2real._compiled.rows import Array
from safe2real._compiled.transitions import any_of
from safe2real._compiled.worst_rows import follow

SAMPLES, NEXT, EPISODES = 0, 1, 2  # places in `counters`
LEFT, HALTED = 0, 1  # places in `flags`
LOOKS = 8  # a check by the model is due when the samples have grown by 1 / LOOKS
ROUNDING = 1e-9


class Trust(NamedTuple):
    """The evidence on the baseline's margins. The arrays from `margins` on change with the data."""

    utilities: Array  # [K, 1 or H, S, A]
    thresholds: Array  # [K]
    stated: Array  # [K] the margins as stated
    baseline: Array  # [H, S, A]
    start: Array  # [S]
    bets: Array  # [K, B] shares of the wealth; none can lose it all
    alarm: float  # the wealth that refutes
    raises: bool  # whether a margin that the data prove is used where it is the larger one
    counts_end: bool  # whether the last step only collects, in the state that an episode ends in
    margins: Array  # [K] what may be used
    ceiling: Array  # [K] the least upper bound on the baseline's V_c so far
    wealth: Array  # [K, B]
    refuted: Array  # [K]
    counters: Array  # [3] samples counted, the number at which to look next, episodes of the baseline
    flags: Array  # [2] whether an episode left the model or its support, whether a margin is refuted


@borrowing
def shortfall(trust, k, states, actions):
    """Return the shortfall of a return below threshold + margin, as a share of H; negative if it exceeds it.

    The episode may have been cut short: unseen steps count as if they were perfect.
    """
    H, utility = trust.baseline.shape[0], trust.utilities[k]
    total = np.float64(H - actions.size)
    for h in range(actions.size):
        total += utility[h if utility.shape[0] > 1 else 0, states[h], actions[h]]
    if trust.counts_end and actions.size == H - 1:  # a whole episode: the same for all actions there
        total += utility[utility.shape[0] - 1, states[H - 1], 0] - 1.0
    return (trust.thresholds[k] + trust.stated[k] - total) / H


@borrowing
def take(trust, states, actions):
    """Update the wealth of the bets with one episode of the baseline; refute margins that it disproves."""
    trust.counters[EPISODES] += 1
    for k in range(trust.thresholds.size):
        short = shortfall(trust, k, states, actions)
        rich = 0.0
        for j in range(trust.bets.shape[1]):
            trust.wealth[k, j] *= 1.0 + trust.bets[k, j] * short
            rich += trust.wealth[k, j]
        if rich >= trust.alarm * trust.bets.shape[1]:
            trust.refuted[k] = trust.flags[HALTED] = True


@shared
def look(trust, sets, refuted, threads):
    """Bound the baseline's V_c over the confidence sets; raise or refute its margins accordingly."""
    trust.counters[NEXT] = trust.counters[SAMPLES] + max(trust.baseline.shape[0], trust.counters[SAMPLES] // LOOKS)
    if trust.flags[LEFT] or any_of(refuted):
        return  # the confidence sets are invalid
    values, no_policy = np.empty((2, trust.start.size)), np.empty((0, 0), dtype=np.uint32)
    for k in range(trust.thresholds.size):
        # The best value is minus the worst value of the negated utility.
        best = -follow(sets, -trust.utilities[k], trust.baseline, no_policy, trust.start, values, threads)
        trust.ceiling[k] = min(trust.ceiling[k], best)
        if trust.ceiling[k] < trust.thresholds[k] + trust.stated[k] - ROUNDING:
            trust.refuted[k] = trust.flags[HALTED] = True
        if trust.raises:
            worst = follow(sets, trust.utilities[k], trust.baseline, no_policy, trust.start, values, threads)
            trust.margins[k] = max(trust.margins[k], worst - trust.thresholds[k])
