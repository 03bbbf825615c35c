"""Hoeffding's inequality for every subset of successors and every number of visits."""

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
class Union(Radius):
    """sqrt((log(2^m - 2) + log(R / delta) + log(n (n + 1))) / (2 n)).

    Guarantee: TV is the largest deviation of a subset's frequency; a union over 2^m - 2 subsets, R rows and all n.
    """

    name: ClassVar[str] = "union"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = kinds.UNION

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        level = level_of(row, seen, adaptive=False)
        return np.asarray(np.sqrt((level + np.log(visits * (visits + 1.0))) / (2.0 * visits)))

    def __str__(self) -> str:
        return "the L1 radius with a union over n"
