"""All numbers of visits by Gaussian mixtures; the price of the subsets grows with the successors SEEN. The default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import kinds
from safe2real.model.checks import Floats
from safe2real.radii.base import Radius, RowShape
from safe2real.radii.subsets import level_of


@dataclass(frozen=True, slots=True)
class Adaptive(Radius):
    """The price of the subsets grows with the successors seen, not with all there could be.

    Guarantee: TV is attained on a subset of the successors seen. Sets of j of the m possible successors share the weight
    1 / (j (j + 1)) of delta / R (all sets alike where m is small), and for each of them Ville's inequality holds for
    the mean of two half-normal mixtures of exponential supermartingales. The proof is in docs/radii.md; nothing is cited.
    """

    name: ClassVar[str] = "adaptive"
    certified: ClassVar[bool] = True
    counts_successors: ClassVar[bool] = True
    kind: ClassVar[int] = kinds.ADAPTIVE

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        level = level_of(row, seen, adaptive=True) + np.log(2.0)  # two mixtures, each with half of the row's share
        squares = [_mixture_square(visits, run, level) for run in (kinds.SHORT_RUN, kinds.LONG_RUN)]
        return np.asarray(np.sqrt(np.minimum(*squares)) / visits)

    def __str__(self) -> str:
        return "the adaptive L1 radius"


def _mixture_square(visits: NDArray[np.int64], run: float, level: Floats) -> Floats:
    """The square of n times the deviation that a mixture tuned for `run` visits allows at log(1 / alpha) = `level`."""
    spread, tuned = 0.25 * visits, 0.25 * run
    x = level + 0.5 * np.log((spread + tuned) / tuned)
    # log(1/2 + exp(x) / 2), also where exp(x) is beyond all numbers
    return np.asarray(2.0 * (spread + tuned) * (x - np.log(2.0) + np.log1p(np.exp(-x))))
