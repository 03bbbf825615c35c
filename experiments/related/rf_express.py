"""RF-Express: explore where the model is least certain, whatever it costs, until every reward can be planned for.

Problem: an accurate model for any reward, from as few episodes as possible; no constraint is known of. Algorithm: deploy
the policy of the largest W_h(s, a) = min(H, 15 H^2 beta(n) / n + (1 + 1/H) P_hat max W_{h+1}), where beta(n) = log(3 S A H
/ delta) + S log(8 e (n + 1)). Stopping rule: 3 e sqrt(W_1) + W_1 <= epsilon / 2, which bounds the error of every policy's
value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from experiments.related.base import Related, as_it_is, empirical, level_of, over, plan_on, positive, span_radii, visits_of
from experiments.related.clipped import clipped_maximum, clipped_value
from experiments.related.facts import Facts, Fidelity
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats
from safe2real.problem.problem import Problem

MENARD = (
    "Menard, Domingues, Jonsson, Kaufmann, Leurent, Valko: Fast Active Learning for Pure Exploration in Reinforcement "
    "Learning. ICML 2021"
)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How wrong values on the empirical model can be, for all policies at once or for one.

    Guarantee: with probability at least 1 - delta, at all times, |V_r - V_r on the model| of every policy and every reward
    in [0, 1] is at most `of` that policy (Menard et al.; derived in docs/comparison-proofs.md). With `ours` it is the sum
    of (H - 1 - h) radius.
    """

    model: CMDP  # on the empirical rows
    bonus: Floats  # [S, A] or [H, S, A]
    gain: float
    ours: bool

    @classmethod
    def on(cls, problem: Problem, evidence: Evidence, *, ours: bool) -> Uncertainty:
        model = empirical(evidence)
        if ours:
            return cls(model, span_radii(evidence), 1.0, True)
        visits, horizon = visits_of(evidence), model.horizon
        level = level_of(model, visits, problem.settings.delta, events=3.0, successors=float(model.num_states))
        return cls(model, over(15.0 * horizon**2 * level, visits), 1.0 + 1.0 / horizon, False)

    def error(self, clipped: float) -> float:
        """What a clipped sum W of bonuses says about values."""
        return clipped if self.ours else 3.0 * math.e * float(np.sqrt(clipped)) + clipped

    def largest(self) -> tuple[MarkovPolicy, float]:
        """(the policy of the largest W, what that bounds the error of every policy by)."""
        found = clipped_maximum(self.model, self.bonus, gain=self.gain, cap=float(self.model.horizon))
        return found.policy, self.error(found.value)

    def of(self, policy: MarkovPolicy) -> float:
        """What the error of one policy is at most."""
        return self.error(clipped_value(self.model, policy, self.bonus, gain=self.gain, cap=float(self.model.horizon)))


@dataclass(frozen=True, slots=True)
class RFExpress(Related):
    """RF-Express. Ignores constraints while it explores; stops when all values are known to epsilon / 2.

    Its constrained plan is an addition of ours, on the model it has learnt, not tightened: it may miss a threshold by the
    accuracy.

    Attributes:
        epsilon: accuracy of every reward's plan.
        ours: see `Related`; the stop is then W_1 <= epsilon / 2, as in RF-UCRL.
    """

    epsilon: float = 0.1
    ours: bool = False
    name: ClassVar[str] = "related: RF-Express"
    reuses_simulator: ClassVar[bool] = False
    keeps_safe: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="RF-Express",
        citation=MENARD,
        key="menard2021fast",
        fidelity=Fidelity.EXACT,
        safe=False,
        any_reward=True,
        uses_simulator=False,
        stops=True,
        told=("epsilon",),
        differs="visits pooled over steps, as in the authors' code for stationary systems; the constrained plan is ours",
    )

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    def stops_at(self, problem: Problem) -> float:
        return self.epsilon / 2.0

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        policy, error = Uncertainty.on(problem, evidence, ours=self.ours).largest()
        if error <= self.epsilon / 2.0:
            return Decision(Reason.STOP, uncertainty=error)
        return as_it_is(Mixture.of([1.0], [policy]), np.empty(0), error)

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        return plan_on(empirical(evidence), problem.baseline, reward)
