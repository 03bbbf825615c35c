"""The uncertainty of policies from divergences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.refinements.base import Refinement


@dataclass(frozen=True, slots=True)
class Chain(Refinement):
    """Delta by a chain of divergences over the steps, where that is smaller than the sum of TV distances.

    Guarantee: docs/samples.md, "The chain"; it needs `LikelihoodBalls`, whose event it rests on, and spends nothing itself.
    """

    name: ClassVar[str] = "chain"
