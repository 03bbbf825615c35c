"""The contract of a radius.

A radius answers for a row seen n times: with probability at least 1 - delta, for ALL rows and ALL n at once, the TV distance
between the observed and the real row is at most radius(n). Statements and proofs are in docs/radii.md. A radius that is only
scaled down to save samples has lost that statement: it is `certified = False`, and everything computed with it is labelled
heuristic. Records name a radius with its `revision`, which changes whenever its numbers do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real.model.checks import Floats


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
    """What a radius may depend on besides the data."""

    possible: int  # m: how many successors the row can have
    rows: int  # R: how many rows have to hold at once
    system: System
    delta: float  # probability of failure, of all rows together


class Radius(ABC):
    """A TV confidence radius. Subclass it as a frozen dataclass, whose fields are its parameters; nothing is registered.

    `safe2real.testing.RadiusContract` checks what is promised here: monotone in n, never below 0, and covering at its level.
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
        """The radius after `visits` [n] >= 1 with `seen` [n] different successors, [n]; values above 1 count as 1.

        It must not grow with the visits. A row with one possible successor is not asked for: it is known after one visit.
        """

    def __str__(self) -> str:
        return f"the radius {self.name!r}"
