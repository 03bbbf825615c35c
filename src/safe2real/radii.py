"""How far a row's true successors can be from the observed ones: the contract of a radius, and the six that ship.

A radius answers for a row seen n times: with probability at least 1 - delta, for ALL rows and ALL n at once, the TV distance
between the observed and the real row is at most radius(n). Statements and proofs are in docs/radii.md. A radius that is only
scaled down to save samples has lost that statement: it is `certified = False`, and everything computed with it is labelled
heuristic. Records name a radius with its `revision`, which changes whenever its numbers do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import codes
from safe2real.errors import InvalidInput
from safe2real.model.validation import Floats, finite_number


@dataclass(frozen=True, slots=True)
class System:
    """The sizes of a system."""

    num_states: int
    num_actions: int
    horizon: int

    @property
    def num_triples(self) -> int:
        """H S A: how many (h, s, a) there are."""
        return self.horizon * self.num_states * self.num_actions


@dataclass(frozen=True, slots=True)
class RowShape:
    """The arguments of a radius besides the data."""

    possible: int  # m: how many successors the row can have
    rows: int  # R: how many rows have to hold at once
    system: System
    delta: float  # probability of failure, of all rows together


class Radius(ABC):
    """A TV confidence radius. Subclass it as a frozen dataclass, whose fields are its parameters; nothing is registered.

    `safe2real.testing.RadiusContract` checks the contract: monotone in n, never below 0, and covering at its level.
    """

    name: ClassVar[str]
    """Names it in records: one word that no other radius has."""
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = False
    """Whether the statement above is proved; say where in the docstring."""
    counts_successors: ClassVar[bool] = False
    """Whether `after` depends on how many different successors were seen."""
    kind: ClassVar[int | None] = None
    """The formula in compiled code; None for a radius from elsewhere, which is tabulated."""

    @abstractmethod
    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        """Return the radius after `visits` >= 1, never growing with the visits; values above 1 count as 1.

        A row with one possible successor needs no radius: one visit determines it.

        Args:
            visits: [n] numbers of visits, each at least 1.
            seen: [n] numbers of different successors observed.
            row: possible successors, number of rows, system sizes and delta.

        Returns:
            [n] upper bounds on the TV distance.
        """

    def __str__(self) -> str:
        return f"the radius {self.name!r}"


# Union bounds over all subsets of a row's successors.


# Up to this many possible successors every subset is given the same share of delta; beyond, small sets are given more.
_FEW = 10


def subset_costs(size: int, length: int, *, adaptive: bool) -> Floats:
    """Return [length], at k the largest log(1 / share) of a set of at most k of `size` successors; shares sum to <= 1."""
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
    """Return [length], at k the same for sets of `size` near successors, which need not be all possible ones.

    So the full set counts too: 2^size - 1 sets.
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
    """Return [n] log(1 / alpha) of every set of successors after `seen` [n] different ones."""
    cost = subset_costs(row.possible, row.possible + 1, adaptive=adaptive)
    return np.asarray(math.log(row.rows / row.delta) + cost[np.clip(seen, 1, max(1, row.possible - 1))])


# The radius as the paper states it, and the same one scaled, which proves nothing.


@dataclass(frozen=True, slots=True)
class Literal(Radius):
    """rho(n) = min(1, sqrt(beta(n) / (2 n))), beta(n) = log(2 S A H / delta) + S log(8 e (n + 1)) (paper, section 3).

    Guarantee: Lemma proba_master_event (a time-uniform KL bound of Jonsson et al., 2020, and Pinsker's inequality); the
    event holds with probability 1 - delta / 2. For pooled counts the union over H steps is not needed, and is kept as
    stated.
    """

    name: ClassVar[str] = "literal"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = codes.LITERAL
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
    kind: ClassVar[int] = codes.LITERAL

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
    """Return (constant, weight) of beta(n) = constant + weight * log(8 e (n + 1))."""
    return math.log(2.0 * system.num_triples / delta), float(system.num_states)


def literal_radius(visits: NDArray[np.int64], row: RowShape) -> Floats:
    """Return sqrt(beta(n) / (2 n)), not cut off at 1."""
    constant, weight = literal_constants(row.system, row.delta)
    return np.asarray(np.sqrt((constant + weight * np.log(8.0 * np.e * (visits + 1.0))) / np.maximum(2.0 * visits, 1.0)))


# The paper's own lemma, not simplified.


@dataclass(frozen=True, slots=True)
class KL(Radius):
    """sqrt((log(R / delta) + (m - 1) log(e (1 + n / (m - 1)))) / (2 n)).

    R rows, m possible successors of the row. Guarantee: Proposition 1 of Jonsson et al. (2020) for each row at level
    delta / R, then Pinsker's inequality.
    """

    name: ClassVar[str] = "kl"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = codes.KL

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        free = row.possible - 1.0
        beta = np.log(row.rows / row.delta) + free * np.log(np.e * (1.0 + visits / free))
        return np.asarray(np.sqrt(beta / (2.0 * visits)))

    def __str__(self) -> str:
        return "the KL radius of Jonsson et al."


# Hoeffding's inequality for every subset of successors and every number of visits.


@dataclass(frozen=True, slots=True)
class Union(Radius):
    """sqrt((log(2^m - 2) + log(R / delta) + log(n (n + 1))) / (2 n)).

    Guarantee: TV is the largest deviation of a subset's frequency; a union over 2^m - 2 subsets, R rows and all n.
    """

    name: ClassVar[str] = "union"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = codes.UNION

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        level = level_of(row, seen, adaptive=False)
        return np.asarray(np.sqrt((level + np.log(visits * (visits + 1.0))) / (2.0 * visits)))

    def __str__(self) -> str:
        return "the L1 radius with a union over n"


# Every subset of successors, and all numbers of visits by stitching.


@dataclass(frozen=True, slots=True)
class Stitched(Radius):
    """0.85 sqrt((log log 2n + 0.72 log(5.2 (2^m - 2) R / delta)) / n).

    Guarantee: equation (2) of Howard, Ramdas, McAuliffe and Sekhon (2021) for sums of indicators, which are
    1/2-sub-Gaussian.
    """

    name: ClassVar[str] = "stitched"
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = codes.STITCHED

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        level = level_of(row, seen, adaptive=False)
        return np.asarray(0.85 * np.sqrt((np.log(np.log(2.0 * visits)) + 0.72 * (np.log(5.2) + level)) / visits))

    def __str__(self) -> str:
        return "the stitched L1 radius"


# All numbers of visits by Gaussian mixtures; the price of the subsets grows with the successors SEEN. The default.


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
    kind: ClassVar[int] = codes.ADAPTIVE

    def after(self, visits: NDArray[np.int64], seen: NDArray[np.int64], row: RowShape) -> Floats:
        level = level_of(row, seen, adaptive=True) + np.log(2.0)  # two mixtures, each with half of the row's share
        squares = [_mixture_square(visits, run, level) for run in (codes.SHORT_RUN, codes.LONG_RUN)]
        return np.asarray(np.sqrt(np.minimum(*squares)) / visits)

    def __str__(self) -> str:
        return "the adaptive L1 radius"


def _mixture_square(visits: NDArray[np.int64], run: float, level: Floats) -> Floats:
    """The square of n times the deviation that a mixture tuned for `run` visits allows at log(1 / alpha) = `level`."""
    spread, tuned = 0.25 * visits, 0.25 * run
    x = level + 0.5 * np.log((spread + tuned) / tuned)
    # log(1/2 + exp(x) / 2), also where exp(x) is beyond all numbers
    return np.asarray(2.0 * (spread + tuned) * (x - np.log(2.0) + np.log1p(np.exp(-x))))


ALL: tuple[type[Radius], ...] = (Literal, Scaled, KL, Union, Stitched, Adaptive)
"""The radii of this package; another one is passed as an object (docs/extending.md)."""

__all__ = ["ALL", "KL", "Adaptive", "Literal", "Radius", "RowShape", "Scaled", "Stitched", "System", "Union"]
