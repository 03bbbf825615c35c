"""Every subset of successors, and all numbers of visits by stitching."""

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
class Stitched(Radius):
    """0.85 sqrt((log log 2n + 0.72 log(5.2 (2^m - 2) R / delta)) / n).

    Guarantee: equation (2) of Howard, Ramdas, McAuliffe and Sekhon (2021) for sums of indicators, which are
    1/2-sub-Gaussian.
    """

    name: ClassVar[str] = "stitched"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = kinds.STITCHED

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        level = level_of(row, seen, adaptive=False)
        return np.asarray(0.85 * np.sqrt((np.log(np.log(2.0 * visits)) + 0.72 * (np.log(5.2) + level)) / visits))

    def __str__(self) -> str:
        return "the stitched L1 radius"
