"""Tabular-SWEET by a line search: safe exploration for any reward, without a simulator.

Problem: as for RF-Express, with every deployed policy safe. Algorithm of Huang, Yang and Liang: deploy the baseline until
it is certified with slack, then the most uncertain policy among those with V_c >= threshold + U on the model, U a
certificate of the error. That set is not convex. Here: the largest share of the most uncertain policy on the path from the
baseline that its certificate allows, with the certificate of RF-Express in place of U, whose constants are published.
Stopping rule: no policy's error exceeds epsilon / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from experiments.related.base import Related, empirical, plan_on, positive
from experiments.related.facts import Facts, Fidelity
from experiments.related.rf_express import Uncertainty
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, candidate_share, refuted_decision
from safe2real.model.policy import Mixture
from safe2real.planning.evaluate import constraint_values
from safe2real.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Sweet(Related):
    """The line-search variant of Tabular-SWEET, for any reward.

    Guarantee: with probability at least 1 - delta every deployed mixture meets the constraints, since the error of every
    policy's V_c on the model is at most its certificate (`Uncertainty`).

    Attributes:
        epsilon: accuracy of every reward's plan.
        ours: see `Related`.
    """

    epsilon: float = 0.1
    ours: bool = False
    name: ClassVar[str] = "related: Tabular-SWEET, line search"
    reuses_simulator: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="Tabular-SWEET, line search",
        citation="Huang, Yang, Liang: Safe Exploration Incurs Nearly No Additional Sample Complexity for Reward-Free RL. "
        "ICLR 2023",
        key="huang2023safe",
        fidelity=Fidelity.VARIANT,
        safe=True,
        any_reward=True,
        uses_simulator=False,
        stops=True,
        told=("xi", "epsilon"),
        differs="a line search in place of the maximum over a set that is not convex; the certificate of RF-Express "
        "in place of its own, whose constants were not read; visits pooled over steps",
    )

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    def stops_at(self, problem: Problem) -> float:
        return self.epsilon / 2.0

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        known, baseline, margins = Uncertainty.on(problem, evidence, ours=self.ours), problem.baseline, problem.margins
        policy, error = known.largest()
        if error <= self.epsilon / 2.0:
            return Decision(Reason.STOP, uncertainty=error)
        thresholds = problem.simulator.thresholds
        slack = constraint_values(known.model, baseline) - known.of(baseline) - thresholds  # [K]
        if (slack < margins / 2.0).any():
            return Decision(Reason.BASELINE, uncertainty=error)
        lower = constraint_values(known.model, policy) - known.of(policy)
        # What is certified of the baseline, and no more than what was stated of it.
        share = candidate_share(lower, thresholds, np.minimum(slack, evidence.margins))
        return Decision(Reason.MIXTURE, (policy,), (1.0,), share, lower, error)

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        return plan_on(empirical(evidence), problem.baseline, reward)
