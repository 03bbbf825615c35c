"""Refinements, which make the confidence sets smaller than the paper's; the proofs are in docs/samples.md.

All of them are certified: they change how the probability of failure is spent, never how much of it there is. Settings list
those that are used; none of them is the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from safe2real.errors import InvalidInput
from safe2real.model.validation import finite_number

_Kind = TypeVar("_Kind", bound="Refinement")


class Refinement:
    """One way to learn more from the same data; a frozen dataclass, whose fields are its parameters.

    The events of all that are used, and that of the radius, hold together with probability at least 1 - delta: each has the
    `share` of delta that it states, the radius has the rest.
    """

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    share: ClassVar[float] = 0.0


def find(used: Sequence[Refinement], kind: type[_Kind]) -> _Kind | None:
    """Return the refinement of a kind among those used.

    Args:
        used: refinements, as in `Settings.refinements`.
        kind: a class of refinements; subclasses match too.

    Returns:
        The first match, or None.
    """
    return next((one for one in used if isinstance(one, kind)), None)


@dataclass(frozen=True, slots=True)
class _Clearing(Refinement):
    """`protection` > 1 clears only rows that are shown to be nearer than mismatch_gap / protection.

    A mismatch gap that is overstated is dangerous: rows that are wrong by less are cleared, and nothing may object. State a
    protection of 2 or more where the gap is a guess; it costs about three times the visits until a right row is cleared.
    """

    protection: float = 1.0

    def __post_init__(self) -> None:
        if not 1.0 <= finite_number("protection", self.protection) <= 1e6:
            raise InvalidInput(f"protection is {self.protection:g}; give 1 (none), or a number above it, like 2")


@dataclass(frozen=True, slots=True)
class BelowGap(_Clearing):
    """Clear a row when distance + radius is below the mismatch gap (the paper: below the middle of the two gaps).

    Guarantee: TV(p, q) <= distance + radius < mismatch_gap, on the radius's own event.
    """

    name: ClassVar[str] = "below-gap"


@dataclass(frozen=True, slots=True)
class SequentialClearing(_Clearing):
    """Clear a row by a sequential test of every set of successors on its own, or as `BelowGap` does.

    Guarantee: a row that is wrong is ever cleared with probability at most share * delta / R (docs/samples.md).
    """

    name: ClassVar[str] = "sequential-clearing"
    share: ClassVar[float] = 0.15


CLEARINGS = (BelowGap, SequentialClearing)


@dataclass(frozen=True, slots=True)
class NearSets(Refinement):
    """Half of a row's share for sets of near successors, those that the simulator has from its state by any action.

    Nothing is assumed: a row that leaves its near successors pays log 2 more than without. Guarantee: docs/samples.md.
    """

    name: ClassVar[str] = "near-sets"
    revision: ClassVar[int] = 2  # 1 took the near half alone, also where the other one was smaller


@dataclass(frozen=True, slots=True)
class OpenRows(Refinement):
    """The union is over the rows that are in doubt: not over known ones, nor over those with one possible successor.

    Known rows are still tested, at a level of their own: docs/samples.md.
    """

    name: ClassVar[str] = "open-rows"


@dataclass(frozen=True, slots=True)
class LikelihoodBalls(Refinement):
    """n KL(observed, real) <= D for all rows and all n, beside the TV balls; D from mixtures of likelihoods.

    Guarantee: docs/samples.md, "KL balls". A row that is taken to be the simulator's is refuted by it, too.
    """

    name: ClassVar[str] = "likelihood-balls"
    share: ClassVar[float] = 0.55


@dataclass(frozen=True, slots=True)
class Chain(Refinement):
    """Delta by a chain of divergences over the steps, where that is smaller than the sum of TV distances.

    Guarantee: docs/samples.md, "The chain"; it needs `LikelihoodBalls`, whose event it rests on, and spends nothing itself.
    """

    name: ClassVar[str] = "chain"


ALL: tuple[type[Refinement], ...] = (BelowGap, SequentialClearing, NearSets, OpenRows, LikelihoodBalls, Chain)
"""The refinements of this package."""
DEFAULT: tuple[Refinement, ...] = (SequentialClearing(), NearSets(), OpenRows(), LikelihoodBalls(), Chain())
"""The tightest certified refinements."""

__all__ = [
    "ALL",
    "DEFAULT",
    "BelowGap",
    "Chain",
    "LikelihoodBalls",
    "NearSets",
    "OpenRows",
    "Refinement",
    "SequentialClearing",
    "find",
]
