"""LB-SGD: policy gradients inside a log barrier, adapted to a finite horizon.

Problem: improve ONE reward from a safe policy on, without a model, every iterate safe. Algorithm: ascend V_r + eta sum_k
log(V_ck - threshold_k) by policy gradients from batches; the step is min(1 / M', a / (sqrt(M a) + 2 b) / |gradient|), a a
lower bound on the slack of a constraint, b an upper bound on its slope along the step, M the smoothness and M' that of the
barrier. Stopping rule: the barrier's gradient is at most eta / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related.barrier_evidence import BarrierEvidence
from experiments.related.base import Related, as_it_is, checked_reward, kept_reward, positive
from experiments.related.facts import Facts, Fidelity
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.policy import Mixture
from safe2real.model.validation import positive_integer
from safe2real.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class LogBarrier(Related):
    """LB-SGD for one reward, from the baseline on, which must take every action sometimes.

    Guarantee: if the baseline has its stated margin, then with probability at least 1 - delta every deployed iterate meets
    the constraints (`barrier_evidence`); no row is ever looked at.

    Attributes:
        reward: [S, A] or [H, S, A] in [0, 1].
        batch: episodes before each step.
        eta: of the barrier; what it stops near is worse than the best by about eta for each constraint.
        ours: has no meaning here, since it has no radius.
    """

    reward: ArrayLike
    batch: int = 1_000
    eta: float = 0.1
    ours: bool = False
    name: ClassVar[str] = "related: LB-SGD"
    reuses_simulator: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="LB-SGD",
        citation="Ni, Kamgarpour: A Safe Exploration Approach to Constrained Markov Decision Processes. AISTATS 2025",
        key="ni2025safe",
        fidelity=Fidelity.ADAPTED,
        safe=True,
        any_reward=False,
        uses_simulator=False,
        stops=True,
        told=("xi", "batch", "eta"),
        differs="a finite horizon in place of a discount: smoothness and confidence terms are derived here; the first slack "
        "is the baseline's margin",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", kept_reward(self.reward))
        positive_integer("batch", self.batch)
        positive("eta", self.eta)
        if self.ours:
            raise InvalidInput("ours is True; LB-SGD has no radius that another could replace: leave it out")

    def evidence(self, problem: Problem) -> BarrierEvidence:
        return BarrierEvidence(problem, checked_reward(problem, self.reward), self.batch, self.eta)

    def stops_at(self, problem: Problem) -> float:
        return self.eta / 2.0

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        found, ended = _iterates(evidence), refuted_decision(evidence)
        if ended is not None:
            return ended
        if found.norm <= self.eta / 2.0:
            return Decision(Reason.STOP, uncertainty=found.norm)
        lower = problem.simulator.thresholds + found.slack
        return as_it_is(Mixture.of([1.0], [found.policy]), lower, found.norm, found.iteration)

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return bool(memory != _iterates(evidence).iteration)

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        """The iterate; `reward` must be its own."""
        return Mixture.of([1.0], [_iterates(evidence).policy])


def _iterates(evidence: Evidence) -> BarrierEvidence:
    if not isinstance(evidence, BarrierEvidence):
        raise InvalidInput(f"the evidence is a {type(evidence).__name__}; LB-SGD goes by that of LogBarrier.evidence")
    return evidence
