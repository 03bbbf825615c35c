"""The searches of a batch, one for each system, answered together: every pass sweeps for whatever all of them ask.

K = 1. The search, its stopping rule and its dual bound are those of the CPU (`_compiled.bracket`); only the sweeps are the
device's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import bracket, brackets
from safe2real.model.checks import Floats
from safe2real.planning.cuda.sweeper import Sweeper
from safe2real.planning.sweeper import LANES, SLOTS


def search_all(
    sweeper: Sweeper, thresholds: Floats, rates: Floats, warm: int = 0, multiplier: float = 0.0
) -> tuple[brackets.Searches, NDArray[np.int64]]:
    """Search until every system is finished.

    Args:
        sweeper: of a batch of N systems with one constraint each and `SLOTS` slots.
        thresholds: [N]
        rates: [N] extent of the reward (largest minus smallest entry) over that of the utility.
        warm: how many slots of every system hold a policy to start from.
        multiplier: what went with them.

    Returns:
        The searches as they ended, and their statuses [N].
    """
    systems, horizon = len(thresholds), sweeper.batch.shape[0]
    searches = brackets.Searches(
        lines=np.zeros((systems, SLOTS, 2)),
        at=np.empty((systems, SLOTS)),
        held=np.empty((systems, 4), dtype=np.int64),
        asked=np.zeros((systems, LANES)),
        slots=np.zeros((systems, LANES), dtype=np.int64),
        weights=np.zeros((systems, SLOTS)),
        multipliers=np.full((systems, 1), multiplier),
        thresholds=np.array(thresholds)[:, None],
        H=horizon,
        numbers=np.empty((systems, bracket.NUMBERS)),
    )
    for slot in range(warm):
        searches.lines[:, slot] = sweeper.follow(np.full((systems, 1), slot, dtype=np.int32))[:, 0]
    brackets.begin(searches, warm, np.array(rates))
    status, counts = np.full(systems, bracket.GO_ON), np.zeros(systems, dtype=np.int64)
    every = np.arange(systems)
    while (status == bracket.GO_ON).any():
        brackets.ask(searches, status, counts)
        tied = counts == bracket.BREAK_TIES
        if tied.any():
            slots = np.where(tied, searches.slots[:, 0], -1).astype(np.int32)[:, None]
            searches.lines[every[tied], searches.slots[tied, 0]] = sweeper.safest(bracket.TIE * horizon, slots)[tied, 0]
        swept = np.arange(LANES) < counts[:, None]  # [N, LANES]
        if swept.any():
            slots = np.where(swept, searches.slots, -1).astype(np.int32)
            found = sweeper.greedy(_weights_of(np.where(swept, searches.asked, 0.0)), slots)
            which, lane = np.nonzero(swept)
            searches.lines[which, searches.slots[which, lane]] = found[which, lane]
        brackets.tell(searches, status, counts)
    return searches, status


def _weights_of(multipliers: Floats) -> Floats:
    """[..., 2] weights of reward and utility; an infinite multiplier means the utility alone."""
    last = np.isinf(multipliers)
    return np.stack([np.where(last, 0.0, 1.0), np.where(last, 1.0, multipliers)], axis=-1)
