"""What it costs to speak of all subsets of a row's successors at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from safe2real.model.checks import Floats
from safe2real.radii.base import RowShape

# Up to this many possible successors every subset is given the same share of delta; beyond, small sets are given more.
_FEW = 10


def subset_costs(size: int, length: int, *, adaptive: bool) -> Floats:
    """[length] at k: the largest log(1 / share) of a set of at most k of `size` successors. Shares sum to at most 1."""
    result = np.zeros(length)
    if size < 2:
        return result
    if not adaptive or size <= _FEW:
        result[:] = size * math.log(2.0) + math.log1p(-(2.0 ** (1 - size)))  # log(2^m - 2)
        return result
    from scipy.special import gammaln  # late: it takes longer to import than all of this package

    members = np.arange(1, size)
    choose = gammaln(size + 1.0) - gammaln(members + 1.0) - gammaln(size - members + 1.0)
    result[1:size] = np.maximum.accumulate(choose + np.log(members * (members + 1.0)))
    result[size:] = result[size - 1]
    return result


def near_costs(size: int, length: int, *, adaptive: bool) -> Floats:
    """[length] at k: the same for sets of near successors, `size` of them, which need not be all that are possible.

    So the set of all of them counts too: 2^size - 1 sets.
    """
    result = np.zeros(length)
    if size < 1:
        return result
    if not adaptive or size <= _FEW:
        result[:] = size * math.log(2.0) + math.log1p(-(2.0**-size))
        return result
    from scipy.special import gammaln

    members = np.arange(1, size + 1)
    choose = gammaln(size + 1.0) - gammaln(members + 1.0) - gammaln(size - members + 1.0)
    result[1 : size + 1] = np.maximum.accumulate(choose + np.log(members * (members + 1.0)))
    result[size + 1 :] = result[size]
    return result


def level_of(row: RowShape, seen: NDArray[np.int64], *, adaptive: bool) -> Floats:
    """log(1 / alpha) of every set of successors after `seen` [n] different ones, [n]."""
    cost = subset_costs(row.possible, row.possible + 1, adaptive=adaptive)
    return np.asarray(math.log(row.rows / row.delta) + cost[np.clip(seen, 1, max(1, row.possible - 1))])
