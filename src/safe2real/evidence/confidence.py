"""How far a row's true successor distribution can be from the observed one, as small named objects.

A radius answers for a row seen n times: with probability at least 1 - delta, for all rows and all n at once, the TV
distance between the empirical and the real row is at most radius(n). Statements and proofs are in docs/radii.md. A radius
that is only scaled down to save samples has lost that statement: it is `certified = False`, and everything computed with it
is labelled heuristic. Records name a radius with its `revision`, which changes whenever its numbers do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import radii as _kernels
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, finite_number

# Up to this many possible successors every subset is given the same share of delta; beyond, small sets are given more.
_FEW = 10


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
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = _kernels.LITERAL

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
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = False
    kind: ClassVar[int] = _kernels.LITERAL

    def __post_init__(self) -> None:
        if finite_number("scale", self.scale) <= 0.0:
            raise InvalidInput(
                f"scale is {self.scale:g}; it must be positive, e.g. 0.4 for radii 0.4 times the literal ones"
            )

    def __str__(self) -> str:
        return f"{self.scale:g} x the paper's radius (heuristic)"


@dataclass(frozen=True, slots=True)
class KLRadius:
    """sqrt((log(R / delta) + (m - 1) log(e (1 + n / (m - 1)))) / (2 n)): the paper's own lemma, not simplified.

    R rows, m possible successors of the row. Guarantee: Proposition 1 of Jonsson et al. (2020) for each row at level
    delta / R, then Pinsker's inequality.
    """

    name: ClassVar[str] = "kl"
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = _kernels.KL
    scale: ClassVar[float] = 1.0

    def __str__(self) -> str:
        return "the KL radius of Jonsson et al."


@dataclass(frozen=True, slots=True)
class UnionRadius:
    """sqrt((log(2^m - 2) + log(R / delta) + log(n (n + 1))) / (2 n)): Hoeffding for every subset and every n.

    Guarantee: TV is the largest deviation of a subset's frequency; a union over 2^m - 2 subsets, R rows and all n.
    """

    name: ClassVar[str] = "union"
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = _kernels.UNION
    scale: ClassVar[float] = 1.0

    def __str__(self) -> str:
        return "the L1 radius with a union over n"


@dataclass(frozen=True, slots=True)
class StitchedRadius:
    """0.85 sqrt((log log 2n + 0.72 log(5.2 (2^m - 2) R / delta)) / n): the same subsets, all n by stitching.

    Guarantee: equation (2) of Howard, Ramdas, McAuliffe and Sekhon (2021) for sums of indicators, which are
    1/2-sub-Gaussian.
    """

    name: ClassVar[str] = "stitched"
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = _kernels.STITCHED
    scale: ClassVar[float] = 1.0

    def __str__(self) -> str:
        return "the stitched L1 radius"


@dataclass(frozen=True, slots=True)
class AdaptiveRadius:
    """All n by Gaussian mixtures; the price of the subsets grows with the successors SEEN, not with all there could be.

    Guarantee: TV is attained on a subset of the successors seen. Sets of j of the m possible successors share the weight
    1 / (j (j + 1)) of delta / R (all sets alike where m is small), and for each of them Ville's inequality holds for
    the mean of two half-normal mixtures of exponential supermartingales. The proof is in docs/radii.md; nothing is cited.
    """

    name: ClassVar[str] = "adaptive"
    revision: ClassVar[int] = 1
    certified: ClassVar[bool] = True
    kind: ClassVar[int] = _kernels.ADAPTIVE
    scale: ClassVar[float] = 1.0

    def __str__(self) -> str:
        return "the adaptive L1 radius"


Radius = LiteralRadius | ScaledRadius | KLRadius | UnionRadius | StitchedRadius | AdaptiveRadius
RADII: tuple[type[Radius], ...] = (LiteralRadius, ScaledRadius, KLRadius, UnionRadius, StitchedRadius, AdaptiveRadius)


def rule_of(
    radius: Radius,
    system: System,
    sizes: NDArray[np.int64],
    delta: float,
    *,
    threshold: float = -1.0,
    suspect_bonus: float = 1.0,
    cleared_bonus: float = 0.0,
    cleared_gap: float = 0.0,
    mismatch_gap: float = 1.0,
) -> _kernels.Rule:
    """What the compiled code needs of a radius, for rows with `sizes` [R] possible successors each."""
    literal = radius.kind == _kernels.LITERAL
    constant, weight = radius_constants(system, delta) if literal else (math.log(sizes.size / delta), 0.0)
    distinct, profile = np.unique(sizes, return_inverse=True)
    longest = 2 if literal or radius.kind == _kernels.KL else int(distinct[-1]) + 1
    cost = np.zeros((distinct.size, longest))
    if not literal and radius.kind != _kernels.KL:
        for line, size in zip(cost, distinct, strict=True):
            line[:] = subset_costs(int(size), longest, adaptive=radius.kind == _kernels.ADAPTIVE)
    return _kernels.Rule(
        kind=radius.kind,
        scale=float(radius.scale),
        constant=constant,
        weight=weight,
        size=sizes.astype(np.int64),
        profile=profile.astype(np.int64),
        cost=cost,
        threshold=float(threshold),
        suspect_bonus=float(suspect_bonus),
        cleared_bonus=float(cleared_bonus),
        cleared_gap=float(cleared_gap),
        mismatch_gap=float(mismatch_gap),
        proves=bool(radius.certified),
    )


def subset_costs(size: int, length: int, *, adaptive: bool) -> Floats:
    """[length] at k: the largest log(1 / share) of a set of at most k of `size` successors. Shares sum to at most 1."""
    result = np.zeros(length)
    if size < 2:
        return result
    if not adaptive or size <= _FEW:
        result[:] = size * math.log(2.0) + math.log1p(-(2.0 ** (1 - size)))  # log(2^m - 2)
        return result
    from scipy.special import gammaln  # late: importing it takes longer than most of what needs no such radius

    members = np.arange(1, size)
    choose = gammaln(size + 1.0) - gammaln(members + 1.0) - gammaln(size - members + 1.0)
    result[1:size] = np.maximum.accumulate(choose + np.log(members * (members + 1.0)))
    result[size:] = result[size - 1]
    return result


def radius_constants(system: System, delta: float) -> tuple[float, float]:
    """(constant, weight) of the literal beta(n) = constant + weight * log(8 e (n + 1))."""
    return math.log(2.0 * system.num_triples / delta), float(system.num_states)


def beta_after(visits: float, system: System, delta: float) -> float:
    """The literal beta(n) of a row seen n = `visits` times."""
    constant, weight = radius_constants(system, delta)
    return constant + weight * math.log(8.0 * math.e * (visits + 1.0))


def radius_after(radius: LiteralRadius | ScaledRadius, visits: float, system: System, delta: float) -> float:
    """The literal or scaled radius of a row seen `visits` times."""
    return min(1.0, radius.scale * math.sqrt(beta_after(visits, system, delta) / max(2.0 * visits, 1.0)))
