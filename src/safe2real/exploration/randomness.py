"""The coin that shows which policy of a mixture is run: a function of (seed, round), so that any round can be replayed."""

from __future__ import annotations

import numpy as np

from safe2real._compiled import draws
from safe2real.model.validation import Floats, bare


def coin_of(seed: int, round_number: int) -> float:
    """The coin of a round, uniform in [0, 1)."""
    return draw_of(seed, round_number, 0)


def draw_of(seed: int, round_number: int, index: int) -> float:
    """The index-th uniform number of a round: 0 is the coin, 1 the beginning, 2 + 2h and 3 + 2h are of step h."""
    return float(draws.draw(np.uint64(seed), round_number, index))


def drawn(weights: Floats, coin: float) -> int:
    """The component of a mixture that a coin shows; never one of weight 0."""
    return int(draws.pick(bare(weights), coin))
