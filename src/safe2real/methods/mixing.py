"""How much of a candidate the baseline's margin pays for."""

from __future__ import annotations

from safe2real._compiled import rounds
from safe2real.model.checks import Floats, bare


def candidate_share(lower_bounds: Floats, thresholds: Floats, margins: Floats) -> float:
    """alpha, the largest share of a candidate in a mixture with the baseline that keeps every threshold (paper, Line 13).

    `lower_bounds` [K] are on V_c of the candidate; the baseline has `thresholds` + `margins` [K]. The compiled
    rounds call the same function.
    """
    return float(rounds.candidate_share(bare(lower_bounds), bare(thresholds), bare(margins)))
