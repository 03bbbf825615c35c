"""DOPE: optimistic about the reward AND the model, pessimistic about the constraint.

Problem: as for OptPess-LP, with less waiting. Algorithm: |p - p_hat| <= beta_p for every successor, beta_p = sqrt(4 L p_hat
(1 - p_hat) / n) + 14 L / (3 n), L = log(2 S A H K / delta), and B is their sum. Deploy the baseline for K0 episodes and
while the program has no solution, then the optimum of r + (H^2 / xi) B subject to V_c of c - H B >= threshold, over
policies and kernels of the boxes (`planning.rectangular`). It does not stop: it has K episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related.base import Related, as_it_is, checked_reward, empirical, kept_reward, span_radii, visits_of
from experiments.related.facts import Facts, Fidelity
from experiments.related.rectangular import KernelSet, balls, boxes, priced, solve_optimistic
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.cmdp import CMDP, without_steps
from safe2real.model.policy import Mixture
from safe2real.model.validation import Floats, is_whole, positive_integer
from safe2real.planning.evaluate import evaluate
from safe2real.planning.solve import Solution
from safe2real.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class Dope(Related):
    """DOPE for one reward. Safe in all of its K episodes; its output is what it deploys last.

    Guarantee: with probability at least 1 - 2 delta over K episodes every deployed mixture meets the constraints: two
    kernels of the boxes differ by at most 2 B in L1, so the V_c of the optimistic one exceeds the real one by at most the
    expected sum of H B. For TV balls (`ours`) two kernels are up to 2 radii apart, so the penalty is 2 (H - 1 - h) radius.

    Attributes:
        reward: [S, A] or [H, S, A] in [0, 1].
        episodes: K.
        warm_up: K0; None for what the authors' code uses, S^2 A H^3 / xi^2. With 0 the baseline is deployed while nothing
            else is feasible.
        ours: see `Related`.
    """

    reward: ArrayLike
    episodes: int
    warm_up: int | None = None
    ours: bool = False
    name: ClassVar[str] = "related: DOPE"
    reuses_simulator: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="DOPE",
        citation="Bura, HasanzadeZonuzy, Kalathil, Shakkottai, Chamberland: DOPE: Doubly Optimistic and Pessimistic "
        "Exploration for Safe Reinforcement Learning. NeurIPS 2022",
        key="bura2022dope",
        fidelity=Fidelity.EXACT,
        safe=True,
        any_reward=False,
        uses_simulator=False,
        stops=False,
        told=("xi", "K"),
        differs="rewards and utilities are known, so their own errors drop out; every successor is possible, where the "
        "authors' code knows the true support; visits pooled over steps",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", kept_reward(self.reward))
        positive_integer("episodes", self.episodes)
        if self.warm_up is not None and (not is_whole(self.warm_up) or self.warm_up < 0):
            raise InvalidInput(f"warm_up is {self.warm_up!r}; give a number of episodes, or None for the authors' rule")

    def warm_up_for(self, problem: Problem) -> float:
        """K0 in episodes."""
        horizon, states, actions = problem.simulator.shape
        rule = states**2 * actions * horizon**3 / float(problem.margins.min(initial=1.0)) ** 2
        return rule if self.warm_up is None else float(self.warm_up)

    def sets(self, problem: Problem, evidence: Evidence) -> tuple[KernelSet, Floats]:
        """(the kernels that the data allow, with the pessimistic constraint; what a step costs it, H B)."""
        model = empirical(evidence)
        if self.ours:
            penalty = 2.0 * span_radii(evidence)
            return balls(priced(model, model.utilities - penalty), np.minimum(evidence.radii, 1.0)), penalty
        horizon, states, actions = model.shape
        level = np.log(2.0 * states * actions * horizon * self.episodes / problem.settings.delta)
        visits = np.maximum(visits_of(evidence), 1.0).reshape(-1)

        def half_width(p: Floats, rows: NDArray[np.int64]) -> Floats:
            return np.asarray(np.sqrt(4.0 * level * p * (1.0 - p) / visits[rows]) + 14.0 * level / (3.0 * visits[rows]))

        penalty = horizon * _sums(model, half_width(np.zeros(visits.size), np.arange(visits.size)), half_width)
        return boxes(priced(model, model.utilities - penalty), half_width), penalty

    def optimum(self, problem: Problem, evidence: Evidence, reward: Floats) -> tuple[Solution, Floats]:
        """(the program's solution, the penalty of every row)."""
        sets, penalty = self.sets(problem, evidence)
        xi = float(problem.margins.min(initial=1.0))
        return solve_optimistic(sets, reward + problem.simulator.horizon / xi * penalty), penalty

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        horizon, counted = float(problem.simulator.horizon), evidence.counts.episodes
        finished = counted >= self.episodes
        if counted < self.warm_up_for(problem):
            return Decision(Reason.STOP if finished else Reason.BASELINE, uncertainty=horizon)
        reward = without_steps(checked_reward(problem, self.reward))
        found, penalty = self.optimum(problem, evidence, reward)
        reached = found.constraint_values >= problem.simulator.thresholds - 1e-9  # bonuses of 1e6 may leave rounding
        if not (found.is_feasible and reached.all()):
            return Decision(Reason.STOP if finished else Reason.BASELINE, uncertainty=horizon)
        missed = min(horizon, found.bound - evaluate(empirical(evidence), found.policy, reward - penalty))
        if finished:
            return Decision(Reason.STOP, uncertainty=missed)
        return as_it_is(found.policy, found.constraint_values, missed)

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return evidence.counts.episodes >= self.episodes or Related.is_due(self, evidence, planned, memory)

    def stops_at(self, problem: Problem) -> float:
        return 0.0

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        """What it would deploy next; `reward` must be its own. Its regret is that of the uniform mixture of its rounds."""
        found, _ = self.optimum(problem, evidence, np.asarray(reward))
        return found.policy if found.is_feasible else Mixture.of([1.0], [problem.baseline])


def _sums(model: CMDP, unseen: Floats, half_width: Any) -> Floats:
    """B [S, A] or [H, S, A]: the half widths of all successors together; `unseen` [R] is that of one with p_hat = 0."""
    states = model.num_states
    rows, _, probability = model.kernel.transitions()  # a uniform row is written out
    stored = np.bincount(rows, minlength=unseen.size)
    total = np.bincount(rows, half_width(probability, rows), minlength=unseen.size) + (states - stored) * unseen
    return np.asarray(total.reshape(model.kernel.shape))
