"""The paper's own lemma, not simplified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import kinds
from safe2real.model.checks import Floats
from safe2real.radii.base import Radius, RowShape


@dataclass(frozen=True, slots=True)
class KL(Radius):
    """sqrt((log(R / delta) + (m - 1) log(e (1 + n / (m - 1)))) / (2 n)).

    R rows, m possible successors of the row. Guarantee: Proposition 1 of Jonsson et al. (2020) for each row at level
    delta / R, then Pinsker's inequality.
    """

    name: ClassVar[str] = "kl"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = kinds.KL

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        free = row.possible - 1.0
        beta = np.log(row.rows / row.delta) + free * np.log(np.e * (1.0 + visits / free))
        return np.asarray(np.sqrt(beta / (2.0 * visits)))

    def __str__(self) -> str:
        return "the KL radius of Jonsson et al."
