"""The radius as the paper states it, and the same one scaled, which proves nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import kinds
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, finite_number
from safe2real.radii.base import Radius, RowShape, System


@dataclass(frozen=True, slots=True)
class Literal(Radius):
    """rho(n) = min(1, sqrt(beta(n) / (2 n))), beta(n) = log(2 S A H / delta) + S log(8 e (n + 1)) (paper, section 3).

    Guarantee: Lemma proba_master_event (a time-uniform KL bound of Jonsson et al., 2020, and Pinsker's inequality); the
    event holds with probability 1 - delta / 2. For pooled counts the union over H steps is not needed, and is kept as
    stated.
    """

    name: ClassVar[str] = "literal"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = kinds.LITERAL
    scale: ClassVar[float] = 1.0

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        return literal_radius(visits, row)

    def __str__(self) -> str:
        return "the paper's literal radius"


@dataclass(frozen=True, slots=True)
class Scaled(Radius):
    """min(1, scale * sqrt(beta(n) / (2 n))): the shape of the literal radius without its guarantee. Heuristic."""

    scale: float
    name: ClassVar[str] = "scaled"
    kind: ClassVar[int] = kinds.LITERAL

    def __post_init__(self) -> None:
        if finite_number("scale", self.scale) <= 0.0:
            raise InvalidInput(
                f"scale is {self.scale:g}; it must be positive, e.g. 0.4 for radii 0.4 times the literal ones"
            )

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        return self.scale * literal_radius(visits, row)

    def __str__(self) -> str:
        return f"{self.scale:g} x the paper's radius (heuristic)"


def literal_constants(system: System, delta: float) -> tuple[float, float]:
    """(constant, weight) of beta(n) = constant + weight * log(8 e (n + 1))."""
    return math.log(2.0 * system.num_triples / delta), float(system.num_states)


def literal_radius(visits: NDArray[np.int64], row: RowShape) -> Floats:
    """sqrt(beta(n) / (2 n)), not cut off at 1."""
    constant, weight = literal_constants(row.system, row.delta)
    return np.asarray(np.sqrt((constant + weight * np.log(8.0 * np.e * (visits + 1.0))) / np.maximum(2.0 * visits, 1.0)))


def beta_after(visits: float, system: System, delta: float) -> float:
    """beta(n) of a row seen n = `visits` times."""
    constant, weight = literal_constants(system, delta)
    return constant + weight * math.log(8.0 * math.e * (visits + 1.0))


def radius_after(radius: Literal | Scaled, visits: float, system: System, delta: float) -> float:
    """The literal or scaled radius of a row seen `visits` times; also for numbers of visits that are not whole."""
    return min(1.0, radius.scale * math.sqrt(beta_after(visits, system, delta) / max(2.0 * visits, 1.0)))
