"""What a system of the studies is made of, and the problem that somebody has who knows parts of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.problem.ties import Ties
from safe2real.refinements import DEFAULT


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """A simulator and the reality, a trusted policy, and rewards somebody may declare."""

    model: CMDP
    real: Kernel
    baseline: MarkovPolicy
    margin: float
    known: Any  # [S, A] of booleans
    support: Kernel
    rewards: dict[str, Floats]  # [S, A] each
    ties: Ties | None = None  # true ones, called exact

    @property
    def reality(self) -> CMDP:
        return self.model.with_kernel(self.real)

    def problem(
        self, *, seed: int, support: bool, ties: Ties | None = None, refined: bool = True, growth: float = 0.0
    ) -> Problem:
        """With the `support` declared or not, `ties`, and the `refined` confidence sets or those without."""
        gaps = self.real.distances_to(self.model.kernel)
        settings = Settings(
            margin=self.margin,
            calibrated_gap=0.0,
            mismatch_gap=float(gaps[gaps > 0.0].min()),
            tolerance=self.margin / 4.0,
            seed=seed,
            replan_growth=growth,
            refinements=DEFAULT if refined else (),
        )
        declared = self.support if support else None
        return Problem(self.model, self.baseline, settings, known=self.known, support=declared, ties=ties)
