"""OptPess-LP: optimistic about the reward, pessimistic about the constraint, on the empirical model.

Problem: little regret for ONE reward over K episodes, with every deployed policy safe. Algorithm: beta = sqrt(Z / n), Z =
log(16 S^2 A H K / delta). Deploy the baseline while its pessimistic V_c is at most threshold + margin / 2, then the optimum
of r + (S H + 4 S H^2 / xi) beta subject to V_c of c - S H beta >= threshold on the empirical model, a linear program that
is solved by its dual here. It does not stop: it has K episodes.
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
    own_bounds,
    span_radii,
    visits_of,
)
from experiments.related.facts import Facts, Fidelity
from experiments.related.rectangular import priced
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.cmdp import without_steps
from safe2real.model.policy import Mixture
from safe2real.model.validation import Floats, positive_integer
from safe2real.planning.evaluate import evaluate
from safe2real.planning.solve import Solution, solve
from safe2real.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class OptPess(Related):
    """OptPess-LP for one reward. Safe in all of its K episodes; its output is what it deploys last.

    Guarantee: with probability at least 1 - delta over K episodes every deployed mixture meets the constraints, since
    |p - p_hat| <= beta for every successor makes the two V_c differ by at most the expected sum of S H beta.

    Attributes:
        reward: [S, A] or [H, S, A] in [0, 1].
        episodes: K.
        ours: see `Related`; (H - 1 - h) radius takes the place of S H beta.
    """

    reward: ArrayLike
    episodes: int
    ours: bool = False
    name: ClassVar[str] = "related: OptPess-LP"
    reuses_simulator: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="OptPess-LP",
        citation="T. Liu, Zhou, Kalathil, Kumar, Tian: Learning Policies with Zero or Bounded Constraint Violation for "
        "Constrained MDPs. NeurIPS 2021",
        key="",
        fidelity=Fidelity.EXACT,
        safe=True,
        any_reward=False,
        uses_simulator=False,
        stops=False,
        told=("xi", "K"),
        differs="rewards and utilities are known, so their own errors drop out; visits pooled over steps",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", kept_reward(self.reward))
        positive_integer("episodes", self.episodes)

    def penalty(self, problem: Problem, evidence: Evidence) -> Floats:
        """S H beta [S, A] or [H, S, A]: what a step may add to the error of any value."""
        if self.ours:
            return span_radii(evidence)
        horizon, states, actions = problem.simulator.shape
        level = np.log(16.0 * states**2 * actions * horizon * self.episodes / problem.settings.delta)
        return np.asarray(states * horizon * np.sqrt(level / np.maximum(visits_of(evidence), 1.0)))

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        model, penalty = empirical(evidence), self.penalty(problem, evidence)
        finished = evidence.counts.episodes >= self.episodes
        lower = own_bounds(model, problem.baseline, penalty)
        if (lower <= model.thresholds + problem.margins / 2.0).any():
            return Decision(Reason.STOP if finished else Reason.BASELINE, uncertainty=float(model.horizon))
        reward = without_steps(checked_reward(problem, self.reward))
        found = self.optimum(problem, evidence, reward)
        missed = min(float(model.horizon), found.bound - evaluate(model, found.policy, reward - penalty))
        if finished or not found.is_feasible:  # the baseline is feasible: this would be rounding
            return Decision(Reason.STOP if finished else Reason.BASELINE, uncertainty=missed)
        return as_it_is(found.policy, found.constraint_values, missed)

    def optimum(self, problem: Problem, evidence: Evidence, reward: Floats) -> Solution:
        """The optimistic reward under the pessimistic constraint, on the empirical model."""
        model, penalty = empirical(evidence), self.penalty(problem, evidence)
        optimism = (1.0 + 4.0 * model.horizon / float(problem.margins.min(initial=1.0))) * penalty
        return solve(priced(model, model.utilities - penalty), reward + optimism)

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return evidence.counts.episodes >= self.episodes or Related.is_due(self, evidence, planned, memory)

    def stops_at(self, problem: Problem) -> float:
        return 0.0

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        """What it would deploy next; `reward` must be its own. Its regret is that of the uniform mixture of its rounds."""
        found = self.optimum(problem, evidence, np.asarray(reward))
        return found.policy if found.is_feasible else Mixture.of([1.0], [problem.baseline])
