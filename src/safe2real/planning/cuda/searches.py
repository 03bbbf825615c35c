"""The searches of a batch, one for each system, answered together: every pass sweeps for whatever all of them ask.

The searches, their stopping rules and their dual bounds are those of the CPU (`_compiled.dual_search` for one constraint,
`_compiled.column_generation` for several); only the sweeps are the device's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import column_generation, dual_search
from safe2real.model.validation import Floats
from safe2real.planning.cuda.sweeper import Sweeper
from safe2real.planning.sweeper import LANES, slots_for, weights_of


class SearchEnds(NamedTuple):
    """How the searches for N systems ended; C policies per system lie on the device."""

    status: NDArray[np.int64]  # [N] codes
    lines: Floats  # [N, C, 1 + K]
    weights: Floats  # [N, C]
    bound: Floats  # [N]
    multipliers: Floats  # [N, K]
    shortfall: Floats  # [N]
    passes: NDArray[np.int64]  # [N]


def search_all(sweeper: Sweeper, thresholds: Floats, warm: int, multipliers: Floats) -> SearchEnds:
    """Search until every system is finished.

    Args:
        sweeper: of a batch of N systems with K >= 1 constraints each and `slots_for(K)` slots.
        thresholds: [N, K]
        warm: how many slots of every system hold a policy to start from.
        multipliers: [K] those that went with them, or zeros.

    Returns:
        How they ended.
    """
    systems, constraints = thresholds.shape
    lines = np.zeros((systems, slots_for(constraints), 1 + constraints))
    for slot in range(warm):
        lines[:, slot] = sweeper.follow(np.full((systems, 1), slot, dtype=np.int32))[:, 0]
    search = _search_one if constraints == 1 else _search_several
    return search(sweeper, lines, thresholds, warm, np.tile(multipliers, (systems, 1)))


def _search_one(sweeper: Sweeper, lines: Floats, thresholds: Floats, warm: int, multipliers: Floats) -> SearchEnds:
    """K = 1; `lines` and `multipliers` are overwritten."""
    extents, systems = sweeper.batch.extents, len(lines)
    searches = dual_search.Searches(
        lines=lines,
        at=np.empty(lines.shape[:2]),
        held=np.empty((systems, 4), dtype=np.int64),
        asked=np.zeros((systems, LANES)),
        slots=np.zeros((systems, LANES), dtype=np.int64),
        weights=np.zeros(lines.shape[:2]),
        multipliers=multipliers,
        thresholds=thresholds,
        H=sweeper.batch.shape[0],
        numbers=np.zeros((systems, dual_search.NUMBERS)),
        aside=np.empty((systems, 7)),
    )
    dual_search.begin_all(
        searches, warm, np.array(np.broadcast_to(extents[:, 0] / np.maximum(extents[:, 1], 1e-300), systems))
    )
    status, counts = np.full(systems, dual_search.GO_ON), np.zeros(systems, dtype=np.int64)
    while (status == dual_search.GO_ON).any():
        dual_search.ask_all(searches, status, counts)
        tied = counts == dual_search.BREAK_TIES
        if tied.any():
            slots = np.where(tied, searches.slots[:, 0], -1).astype(np.int32)[:, None]
            which = np.flatnonzero(tied)
            lines[which, searches.slots[which, 0]] = sweeper.safest(dual_search.TIE * searches.H, slots)[which, 0]
        _sweep(sweeper, lines, weights_of(searches.asked), searches.slots, counts)
        dual_search.tell_all(searches, status, counts)
    bound, shortfall, passes = searches.numbers[:, [dual_search.BOUND, dual_search.SHORTFALL, dual_search.PASSES]].T
    return SearchEnds(status, lines, searches.weights, bound, multipliers, shortfall, passes.astype(np.int64))


def _search_several(sweeper: Sweeper, lines: Floats, thresholds: Floats, warm: int, multipliers: Floats) -> SearchEnds:
    """K >= 2; `lines` and `multipliers` are overwritten."""
    systems, slots, parts = lines.shape
    searches = column_generation.Searches(
        lines=lines,
        used=np.zeros((systems, slots), dtype=np.bool_),
        limits=thresholds.copy(),
        basis=np.zeros((systems, parts), dtype=np.int64),
        solution=np.zeros((systems, parts)),
        dual=np.zeros((systems, parts)),
        previous=np.zeros((systems, parts)),
        asked=np.zeros((systems, LANES, parts)),
        slots=np.zeros((systems, LANES), dtype=np.int64),
        weights=np.zeros((systems, slots)),
        multipliers=multipliers,
        H=sweeper.batch.shape[0],
        numbers=np.zeros((systems, column_generation.NUMBERS)),
    )
    column_generation.begin_all(searches, warm)
    status, counts = np.full(systems, dual_search.GO_ON), np.zeros(systems, dtype=np.int64)
    while (status == dual_search.GO_ON).any():
        column_generation.ask_all(searches, status, counts)
        _sweep(sweeper, lines, searches.asked, searches.slots, counts)
        column_generation.tell_all(searches, status, counts)
    bound, shortfall, passes = searches.numbers[
        :, [column_generation.BOUND, column_generation.SHORTFALL, column_generation.PASSES]
    ].T
    return SearchEnds(status, lines, searches.weights, bound, multipliers, shortfall, passes.astype(np.int64))


def _sweep(sweeper: Sweeper, lines: Floats, weights: Floats, slots: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """One pass for the first `counts` [N] weights of every system [N, LANES, U]; `lines` [N, C, U] are written down."""
    swept = np.arange(LANES) < counts[:, None]  # [N, LANES]
    if swept.any():
        found = sweeper.greedy(weights, np.where(swept, slots, -1).astype(np.int32))
        which, lane = np.nonzero(swept)
        lines[which, slots[which, lane]] = found[which, lane]
