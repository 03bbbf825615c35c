"""VI-Zero, the exploration of Miryoosefi and Jin: bonuses alone, for a fixed number of episodes.

Problem: a model that is good enough for constrained plans of any reward; constraints are not kept to while exploring.
Algorithm: deploy the greedy policy of Q = min(P_hat V + b, H), b = c (sqrt(min(d, S) H^2 iota / n) + H^2 S iota / n), iota
= log(d S A K H / delta), d the number of returns (reward and constraints). Stopping rule: K episodes, or V_1 <= epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related.base import Related, as_it_is, empirical, over, plan_on, positive, span_radii, visits_of
from experiments.related.clipped import clipped_maximum
from experiments.related.facts import Facts, Fidelity
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.policy import Mixture
from safe2real.model.validation import Floats, positive_integer
from safe2real.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class VIZero(Related):
    """VI-Zero with exact planning. Ignores constraints while it explores, and its plans may miss them by epsilon.

    Attributes:
        episodes: K, at most.
        epsilon: it also ends when V_1 is at most this; 0 for K episodes in any case.
        scale: the constant c, which the paper does not print.
        ours: see `Related`.
    """

    episodes: int
    epsilon: float = 0.0
    scale: float = 1.0
    ours: bool = False
    name: ClassVar[str] = "related: VI-Zero"
    reuses_simulator: ClassVar[bool] = False
    keeps_safe: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="VI-Zero, exact planning",
        citation="Miryoosefi, Jin: A Simple Reward-free Approach to Constrained Reinforcement Learning. ICML 2022",
        key="miryoosefi2022simple",
        fidelity=Fidelity.ADAPTED,
        safe=False,
        any_reward=True,
        uses_simulator=False,
        stops=True,
        told=("K", "epsilon"),
        differs="the constant of the bonus is not printed: 1 here; it also ends when V_1 <= epsilon; plans are exact on the "
        "last model instead of one more real episode for each step of a dual iteration; visits pooled over steps",
    )

    def __post_init__(self) -> None:
        positive_integer("episodes", self.episodes)
        positive("scale", self.scale)

    def bonus(self, problem: Problem, evidence: Evidence) -> Floats:
        """[S, A] or [H, S, A]; inf where nobody was."""
        if self.ours:
            return span_radii(evidence)
        horizon, states, actions = problem.simulator.shape
        returns = 1 + problem.simulator.num_constraints
        level = np.log(returns * states * actions * self.episodes * horizon / problem.settings.delta)
        visits = visits_of(evidence)
        slow = np.sqrt(over(min(returns, states) * horizon**2 * level, visits))
        return np.asarray(self.scale * (slow + over(horizon**2 * states * level, visits)))

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        model = empirical(evidence)
        found = clipped_maximum(model, self.bonus(problem, evidence), gain=1.0, cap=float(model.horizon))
        if found.value <= self.epsilon or evidence.counts.episodes >= self.episodes:
            return Decision(Reason.STOP, uncertainty=found.value)
        return as_it_is(Mixture.of([1.0], [found.policy]), np.empty(0), found.value)

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return evidence.counts.episodes >= self.episodes or Related.is_due(self, evidence, planned, memory)

    def stops_at(self, problem: Problem) -> float:
        return self.epsilon

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        return plan_on(empirical(evidence), problem.baseline, reward)
