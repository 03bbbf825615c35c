"""KL balls around the observed rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.refinements.base import Refinement


@dataclass(frozen=True, slots=True)
class LikelihoodBalls(Refinement):
    """n KL(observed, real) <= D for all rows and all n, beside the TV balls; D from mixtures of likelihoods.

    Guarantee: docs/samples.md, "KL balls". A row that is taken to be the simulator's is refuted by it, too.
    """

    name: ClassVar[str] = "likelihood-balls"
    share: ClassVar[float] = 0.55
