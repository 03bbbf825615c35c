"""When a row is so close to the simulator's that it cannot be a mismatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.errors import InvalidInput
from safe2real.model.checks import finite_number
from safe2real.refinements.base import Refinement


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
