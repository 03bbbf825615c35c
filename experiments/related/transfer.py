"""Transfer of exploration policies from a simulator (Wagenmaker et al.), for tables.

Problem: a good policy for ONE reward on the real system in N episodes, when the simulator's own optimum need not be good
there but its exploration policies still reach everything; no constraints. Algorithm: half of the episodes run policies that
cover the simulator, each up to a random step and at random from there on; value iteration on what was seen gives a policy;
a quarter each evaluates that policy and the simulator's optimum, and the better one is the result. It ends after N
episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related.base import Related, as_it_is, checked_reward, empirical, kept_reward
from experiments.related.facts import Facts, Fidelity
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Reason, refuted_decision
from safe2real.model.cmdp import CMDP, without_steps
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import Floats, Indices, positive_integer
from safe2real.planning.evaluate import occupancy
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem

_POLICIES = 24  # that cover the simulator


class TransferEvidence(Evidence):
    """Counts, what was learnt from the first half of the episodes, and the returns of the two policies on trial."""

    def __init__(self, problem: Problem, reward: Floats, episodes: int) -> None:
        """`reward` is [1 or H, S, A]."""
        super().__init__(problem, keeps_safe=False)
        self.reward, self.half, self.quarter = reward, episodes - 2 * (episodes // 4), episodes // 4
        guess = solve(problem.simulator.with_constraints(0), without_steps(reward)).policy
        self.tried: tuple[Mixture, ...] = (guess,)  # the simulator's optimum, then what was learnt
        self.earned = np.zeros(2)

    @property
    def phase(self) -> int:
        """0: explore; 1: evaluate what was learnt; 2: evaluate the simulator's optimum; 3: over."""
        after = self.counts.episodes - self.half
        return 0 if after < 0 else min(3, 1 + after // max(1, self.quarter))

    def take(
        self,
        trajectory: Trajectory,
        *,
        of_baseline: bool,
        of_candidate: bool = False,
        planned: NDArray[np.int64] | None = None,
    ) -> bool:
        phase = self.phase
        super().take(trajectory, of_baseline=of_baseline, of_candidate=of_candidate, planned=planned)
        self._note(phase, trajectory.states, trajectory.actions)
        return self.phase != phase

    def count(
        self,
        states: Indices,
        actions: Indices,
        ends: NDArray[np.int64],
        *,
        of_baseline: NDArray[np.bool_] | None = None,
        of_candidate: NDArray[np.bool_] | None = None,
        at_once: bool = False,
    ) -> None:
        """One after the other, since what is learnt in between decides what the next is for."""
        for i in range(len(ends) - 1):
            phase, one = self.phase, slice(ends[i], ends[i + 1])
            part = states[ends[i] + i : ends[i + 1] + i + 1], actions[one], np.array([0, ends[i + 1] - ends[i]])
            super().count(*part, at_once=at_once)
            self._note(phase, part[0], part[1])

    def _note(self, phase: int, states: Indices, actions: Indices) -> None:
        if phase in (1, 2):
            steps = np.arange(actions.size)
            earned = self.reward[steps if len(self.reward) > 1 else 0, states[: actions.size].astype(np.int64), actions]
            self.earned[phase - 1] += float(earned.sum())
        if self.phase > 0 and len(self.tried) == 1:
            learnt = solve(empirical(self).with_constraints(0), without_steps(self.reward)).policy
            self.tried = (*self.tried, learnt)

    @property
    def better(self) -> Mixture:
        """What was learnt, unless the simulator's optimum has earned more."""
        return self.tried[1] if len(self.tried) > 1 and self.earned[0] >= self.earned[1] else self.tried[0]


@dataclass(frozen=True, eq=False, slots=True)
class ExplorationTransfer(Related):
    """Exploration policies of the simulator on the real system, for one reward. Ignores constraints.

    Attributes:
        reward: [S, A] or [H, S, A] in [0, 1].
        episodes: N, at least 4.
        ours: has no meaning here, since it has no radius.
    """

    reward: ArrayLike
    episodes: int
    ours: bool = False
    name: ClassVar[str] = "related: transfer of exploration policies"
    keeps_safe: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        system="exploration-policy transfer",
        citation="Wagenmaker, Huang, Ke, Boots, Jamieson, Gupta: Overcoming the Sim-to-Real Gap: Leveraging Simulation to "
        "Learn to Explore for Real-World RL. NeurIPS 2024",
        key="wagenmaker2024overcoming",
        fidelity=Fidelity.ADAPTED,
        safe=False,
        any_reward=False,
        uses_simulator=True,
        stops=False,
        told=("N",),
        differs="tables in place of features: the policies cover all rows of the simulator (Frank-Wolfe on the sum of the "
        "logarithms of their visits), and value iteration takes the place of regression",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward", kept_reward(self.reward))
        if positive_integer("episodes", self.episodes) < 4:
            raise InvalidInput(f"episodes is {self.episodes}; a quarter of them evaluates a policy: give at least 4")
        if self.ours:
            raise InvalidInput("ours is True; this method has no radius that another could replace: leave it out")

    def evidence(self, problem: Problem) -> TransferEvidence:
        return TransferEvidence(problem, checked_reward(problem, self.reward), self.episodes)

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        found, ended = _transferred(evidence), refuted_decision(evidence)
        if ended is not None:
            return ended
        horizon = problem.simulator.horizon
        if found.phase == 3:  # both averages are within this of the truth, by Hoeffding's inequality
            unsure = horizon * float(np.sqrt(np.log(4.0 / problem.settings.delta) / (2.0 * max(1, found.quarter))))
            return Decision(Reason.STOP, uncertainty=unsure)
        policy = covering(problem) if found.phase == 0 else found.tried[found.phase % 2]
        return as_it_is(policy, np.empty(0), float(horizon), found.phase)

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return bool(memory != _transferred(evidence).phase)

    def stops_at(self, problem: Problem) -> float:
        return 0.0

    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        """The better of the two policies; `reward` must be its own."""
        return _transferred(evidence).better


@lru_cache(maxsize=8)
def covering(problem: Problem) -> Mixture:
    """Policies that visit all rows of the simulator, each followed up to a random step and at random from there on."""
    model = problem.simulator.with_constraints(0)
    horizon = model.horizon
    table = np.full(model.shape, 1.0 / model.num_actions)
    found: list[MarkovPolicy] = []
    visits = occupancy(model, MarkovPolicy.stochastic(table)).sum(axis=0)  # [S, A]
    for _ in range(_POLICIES):
        reward = 1.0 / np.maximum(visits, 1e-6)
        best = solve(model, reward / reward.max()).policy.policies[0]
        found.append(best)
        visits = visits + (_visits(model, best) - visits) / (len(found) + 1.0)
    parts = []
    for policy in found:
        for step in range(1, horizon + 1):
            tail = policy.probabilities.copy()
            tail[step:] = table[step:]
            parts.append(MarkovPolicy.stochastic(tail))
    return Mixture.of(np.full(len(parts), 1.0 / len(parts)), parts)


def _visits(model: CMDP, policy: MarkovPolicy) -> Floats:
    return np.asarray(occupancy(model, policy).sum(axis=0))


def _transferred(evidence: Evidence) -> TransferEvidence:
    if not isinstance(evidence, TransferEvidence):
        raise InvalidInput(f"the evidence is a {type(evidence).__name__}; it goes by ExplorationTransfer.evidence")
    return evidence
