"""HySRL: find where the simulator is wrong, then learn one reward there and trust the simulator elsewhere.

Problem: a near-optimal policy for ONE reward without constraints, from a simulator that is exact outside an unknown region
in which it is wrong by at least `gap`. Algorithm: if gap <= sqrt(S / H) epsilon / sigma the simulator is ignored. Otherwise
phase 1 explores by W = min(1, 4 H g1 / n + P_hat max W) until 3 sqrt(W_1) + W_1 <= sigma gap / 8; the region is where the
empirical row is more than gap / 2 from the simulator's. Phase 2 keeps an upper and a lower value (`bracketed`) on the model
made of both, without a bonus outside the region, and deploys the greedy policy of the upper one. Stopping rule: G_1 <=
epsilon, G = min(H, 6 sqrt(Var g2 / n) + 35 H^2 g1 / n + (1 + 3/H) p G) of that policy. g1 = log(6 S A H / delta) + S log(8
e (n + 1)), g2 the same with 1 in place of S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related.base import (
    Related,
    as_it_is,
    checked_reward,
    empirical,
    kept_reward,
    level_of,
    over,
    positive,
    span_radii,
    visits_of,
)
from experiments.related.clipped import Bracket, bracketed, clipped_maximum, clipped_value
from experiments.related.facts import Facts, Fidelity
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.cmdp import without_steps
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import unit_number
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class HySRL(Related):
    """HySRL for one reward; the separation gap is the problem's `mismatch_gap`. Ignores constraints.

    Attributes:
        reward: [S, A] or [H, S, A] in [0, 1].
        reachability: sigma; every state can be reached with at least this probability at some step.
        epsilon: accuracy.
        ours: see `Related`; W and G are then sums of (H - 1 - h) radius, at the thresholds sigma gap H / 8 and epsilon.
    """

    reward: ArrayLike
    reachability: float
    epsilon: float = 0.1
    ours: bool = False
    name: ClassVar[str] = "related: HySRL"
    keeps_safe: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="HySRL",
        citation="Qu, Shi, Panaganti, You, Wierman: Hybrid Transfer Reinforcement Learning: Provable Sample Efficiency from "
        "Shifted-Dynamics Data. AISTATS 2025",
        key="qu2025hybrid",
        fidelity=Fidelity.ADAPTED,
        safe=False,
        any_reward=False,
        uses_simulator=True,
        stops=True,
        told=("sigma_s", "sigma", "epsilon"),
        differs="the region is found anew from all visits instead of those of phase 1 alone; visits pooled over steps",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", kept_reward(self.reward))
        positive("epsilon", self.epsilon)
        positive("reachability", unit_number("reachability", self.reachability))

    def stops_at(self, problem: Problem) -> float:
        return self.epsilon

    def ignores_simulator(self, problem: Problem) -> bool:
        horizon, states, _ = problem.simulator.shape
        gap = problem.settings.mismatch_gap
        return bool(gap <= np.sqrt(states / horizon) * self.epsilon / self.reachability)

    def searching(self, problem: Problem, evidence: Evidence) -> tuple[MarkovPolicy, float, float]:
        """Phase 1: (the policy that looks for the region, what is left of it, what ends it)."""
        model, settings, visits = empirical(evidence), problem.settings, visits_of(evidence)
        limit = self.reachability * settings.mismatch_gap / 8.0
        if self.ours:
            horizon = float(model.horizon)
            found = clipped_maximum(model, span_radii(evidence), gain=1.0, cap=horizon)
            return found.policy, found.value, limit * horizon
        level = level_of(model, visits, settings.delta, events=6.0, successors=float(model.num_states))
        found = clipped_maximum(model, over(4.0 * model.horizon * level, visits), gain=1.0, cap=1.0)
        return found.policy, 3.0 * float(np.sqrt(found.value)) + found.value, limit

    def region(self, problem: Problem, evidence: Evidence) -> NDArray[np.bool_]:
        """[R] rows in which the simulator is taken to be wrong."""
        distances = evidence.counts.distances()
        everywhere = self.ignores_simulator(problem)
        return np.ones(distances.size, dtype=np.bool_) if everywhere else distances > problem.settings.mismatch_gap / 2.0

    def learning(self, problem: Problem, evidence: Evidence) -> tuple[Bracket, float]:
        """Phase 2: (upper and lower values with the policy of the upper one, how far from the best it may be)."""
        wrong, delta = self.region(problem, evidence), problem.settings.delta
        model, visits = empirical(evidence, wrong), visits_of(evidence)
        reward = without_steps(checked_reward(problem, self.reward))
        horizon, inside = model.horizon, wrong.reshape(model.kernel.shape)
        if self.ours:
            bonus = np.where(inside, span_radii(evidence), 0.0)
            found = bracketed(model, reward, np.zeros_like(visits), bonus, share=0.0, cap=float(horizon))
            return found, clipped_value(model, found.policy, 2.0 * bonus, gain=1.0, cap=float(horizon))
        first = level_of(model, visits, delta, events=6.0, successors=float(model.num_states))
        second = level_of(model, visits, delta, events=6.0, successors=1.0)
        scale = np.where(inside, np.sqrt(over(second, visits)), 0.0)
        added = np.where(inside, over(horizon**2 * first, visits), 0.0)
        found = bracketed(model, reward, 3.0 * scale, 14.0 * added, share=1.0 / horizon, cap=float(horizon))
        spread = np.where(
            found.variances > 0.0, 6.0 * np.nan_to_num(scale, posinf=horizon**2) * np.sqrt(found.variances), 0.0
        )
        gap = clipped_value(model, found.policy, spread + 35.0 * added, gain=1.0 + 3.0 / horizon, cap=float(horizon))
        return found, gap

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        if not self.ignores_simulator(problem):
            policy, left, limit = self.searching(problem, evidence)
            if left > limit:
                return as_it_is(Mixture.of([1.0], [policy]), np.empty(0), float(problem.simulator.horizon))
        bracket, gap = self.learning(problem, evidence)
        if gap <= self.epsilon:
            return Decision(Reason.STOP, uncertainty=gap)
        return as_it_is(Mixture.of([1.0], [bracket.policy]), np.empty(0), gap)

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        """The best policy of the model made of both, without constraints; `reward` must be its own."""
        model = empirical(evidence, self.region(problem, evidence))
        return solve(model.with_constraints(0), np.asarray(reward)).policy
