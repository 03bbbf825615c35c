"""How far a row's true successor distribution can be from the observed one, as small named objects.

A radius answers for a row seen n times: with probability at least 1 - delta, for all rows and all n at once, the TV distance
between the empirical and the real row is at most radius(n). A radius that is only scaled down to save samples has lost that
statement: it is `certified = False`, and everything computed with it is labelled heuristic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from safe2real.errors import InvalidInput
from safe2real.model.checks import finite_number


@dataclass(frozen=True, slots=True)
class System:
    """The sizes a radius depends on."""

    num_states: int
    num_actions: int
    horizon: int

    @property
    def num_triples(self) -> int:
        """H S A: how many (h, s, a) there are."""
        return self.horizon * self.num_states * self.num_actions


@dataclass(frozen=True, slots=True)
class LiteralRadius:
    """rho(n) = min(1, sqrt(beta(n) / (2 n))), beta(n) = log(2 S A H / delta) + S log(8 e (n + 1)) (paper, section 3).

    Guarantee: Lemma proba_master_event (a time-uniform KL bound of Jonsson et al., 2020, and Pinsker's inequality); the
    event holds with probability 1 - delta / 2. For pooled counts the union over H steps is not needed, and is kept as
    stated.
    """

    name: ClassVar[str] = "literal"
    certified: ClassVar[bool] = True

    @property
    def scale(self) -> float:
        return 1.0

    def __str__(self) -> str:
        return "the paper's literal radius"


@dataclass(frozen=True, slots=True)
class ScaledRadius:
    """min(1, scale * sqrt(beta(n) / (2 n))): the shape of the literal radius without its guarantee. Heuristic."""

    scale: float
    name: ClassVar[str] = "scaled"
    certified: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if finite_number("scale", self.scale) <= 0.0:
            raise InvalidInput(
                f"scale is {self.scale:g}; it must be positive, e.g. 0.4 for radii 0.4 times the literal ones"
            )

    def __str__(self) -> str:
        return f"{self.scale:g} x the paper's radius (heuristic)"


Radius = LiteralRadius | ScaledRadius


def radius_constants(system: System, delta: float) -> tuple[float, float]:
    """(constant, weight) of beta(n) = constant + weight * log(8 e (n + 1)); what the compiled `radius_at` is given."""
    return math.log(2.0 * system.num_triples / delta), float(system.num_states)


def beta_after(visits: float, system: System, delta: float) -> float:
    """beta(n) of a row seen n = `visits` times."""
    constant, weight = radius_constants(system, delta)
    return constant + weight * math.log(8.0 * math.e * (visits + 1.0))


def radius_after(radius: Radius, visits: float, system: System, delta: float) -> float:
    """The radius of a row seen `visits` times."""
    return min(1.0, radius.scale * math.sqrt(beta_after(visits, system, delta) / max(2.0 * visits, 1.0)))
