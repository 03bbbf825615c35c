"""Successors that are likely to be all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.refinements.base import Refinement


@dataclass(frozen=True, slots=True)
class NearSets(Refinement):
    """Half of a row's share for sets of near successors, those that the simulator has from its state by any action.

    Nothing is assumed: a row that leaves its near successors pays log 2 more than without. Guarantee: docs/samples.md.
    """

    name: ClassVar[str] = "near-sets"
    revision: ClassVar[int] = 2  # 1 took the near half alone, also where the other one was smaller
