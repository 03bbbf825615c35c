"""Which rows the probability of failure is shared by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.refinements.base import Refinement


@dataclass(frozen=True, slots=True)
class OpenRows(Refinement):
    """The union is over the rows that are in doubt: not over known ones, nor over those with one possible successor.

    Known rows are still tested, at a level of their own: docs/samples.md.
    """

    name: ClassVar[str] = "open-rows"
