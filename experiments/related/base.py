"""What related systems share: the contract beside `Method`, the empirical model, and the levels of their bounds.

They are here to be compared with, not to be deployed: none brings a `recheck`, so no campaign takes one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related.facts import Facts, Fidelity
from safe2real._compiled.rows import Rows
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Method, Reason
from safe2real.model.cmdp import CMDP, step_rewards
from safe2real.model.kernel import Kernel
from safe2real.model.policy import Mixture, Policy
from safe2real.model.validation import Floats, finite_floats, finite_number, frozen
from safe2real.planning.evaluate import occupancy
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, AssumptionCode

GROWTH = 0.02  # a plan stands until a row has this fraction of visits more


class Related(Method):
    """A published method to compare with, for one problem or for one reward of it.

    Its `name` is for records. What tables print is `label`, which never calls something adapted by its bare name.
    """

    facts: ClassVar[Facts]
    covers_any_reward: ClassVar[bool] = False  # by Theorem 1, that is; `facts.any_reward` is what its own paper says
    ours: bool
    """Whether the radius of the problem's settings takes the place of its own constants: then it is only its structure."""

    @property
    def label(self) -> str:
        return self.facts.structure if self.ours else self.facts.label

    @abstractmethod
    def output(self, problem: Problem, evidence: Evidence, reward: ArrayLike) -> Mixture:
        """What it would have you use for `reward` ([S, A] or [H, S, A]); nothing is promised of it here."""

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return bool((evidence.counts.tally.visits > (1.0 + GROWTH) * planned).any())

    def assumptions(self, evidence: Evidence) -> tuple[Assumption, ...]:
        if self.ours or not self.keeps_safe:
            return evidence.assumptions()
        facts = self.facts
        changed = "" if facts.fidelity is Fidelity.EXACT else f"; {facts.fidelity}: {facts.differs}"
        text = f"the bounds of {facts.system} cover as they are proved ({facts.citation}{changed})"
        return (*evidence.assumptions(), Assumption(AssumptionCode.EXTENSION, text, self.name))


def empirical(evidence: Evidence, wrong: NDArray[np.bool_] | None = None) -> CMDP:
    """The problem on what was counted alone, until the next episode is: rows that nobody visited are uniform.

    With `wrong` [R], empirical rows there and the simulator's elsewhere.
    """
    tally, simulator = evidence.counts.tally, evidence.counts.simulator
    length = tally.length.astype(np.int64)
    rows = np.repeat(np.arange(length.size), length)
    within = np.arange(rows.size) - np.repeat(np.cumsum(length) - length, length)
    at = tally.begin.astype(np.int64)[rows] + within
    probability = tally.probability.copy()  # those of rows that the evidence has cleared are not kept up to date
    probability[at] = tally.count[at] / tally.visits[rows]
    begin, lengths = tally.begin, tally.length
    if wrong is not None:
        begin, lengths = np.where(wrong, begin, tally.simulator_begin), np.where(wrong, lengths, tally.simulator_length)
    held = Rows(begin, lengths, tally.successor, probability)
    kernel = Kernel(simulator.num_states, simulator.num_actions, simulator.horizon, held)
    return evidence.problem.simulator.with_kernel(kernel)


def visits_of(evidence: Evidence) -> Floats:
    """[S, A], or [H, S, A] per step."""
    return evidence.counts.visits.astype(np.float64)


def over(numerator: ArrayLike, visits: Floats) -> Floats:
    """numerator / visits, inf where there are none."""
    return np.where(visits > 0.0, np.asarray(numerator) / np.maximum(visits, 1.0), np.inf)


def level_of(model: CMDP, visits: Floats, delta: float, *, events: float, successors: float) -> Floats:
    """log(events S A H / delta) + successors log(8 e (n + 1)): the levels of Menard et al. and Qu et al."""
    horizon, states, actions = model.shape
    level = np.log(events * states * actions * horizon / delta) + successors * np.log(8.0 * math.e * (visits + 1.0))
    return np.asarray(level)


def span_radii(evidence: Evidence) -> Floats:
    """[H, S, A]: (H - 1 - h) times our TV radius of the row, what the rest of an episode can differ by at most."""
    horizon = evidence.problem.simulator.horizon
    spans = (horizon - 1.0 - np.arange(horizon))[:, None, None]
    return np.asarray(spans * evidence.radii)


def own_bounds(model: CMDP, policy: Policy, penalty: Floats) -> Floats:
    """[K] V_c of a policy on `model`, each utility less the `penalty` ([S, A] or [H, S, A])."""
    visits = occupancy(model, policy)
    return np.array([(visits * (utility - penalty)).sum() for utility in model.utilities])


def checked_reward(problem: Problem, reward: ArrayLike) -> Floats:
    """[1 or H, S, A] in [0, 1]"""
    return step_rewards(problem.simulator, "reward", reward, unit_interval=True)


def kept_reward(reward: ArrayLike) -> Floats:
    """What a frozen method keeps of a reward that it is given; whether it fits is seen with the problem."""
    given = frozen(finite_floats("reward", reward))
    if given.ndim not in (2, 3) or not ((given >= 0.0) & (given <= 1.0)).all():
        raise InvalidInput(f"reward has shape {given.shape}; give [S, A] or [H, S, A] in [0, 1]")
    return given


def positive(name: str, value: Any) -> float:
    number = finite_number(name, value)
    if number <= 0.0:
        raise InvalidInput(f"{name} is {number:g}; it must be positive")
    return number


def as_it_is(policy: Mixture, lower: Floats, uncertainty: float, memory: Any = None) -> Decision:
    """Deploy a mixture without any of the baseline."""
    weights = tuple(policy.weights.tolist())
    return Decision(Reason.MIXTURE, policy.policies, weights, 1.0, lower, uncertainty, memory)


def plan_on(model: CMDP, baseline: Policy, reward: ArrayLike) -> Mixture:
    """The constrained plan on a model, not tightened; the baseline where the model has no feasible policy."""
    solution = solve(model, np.asarray(reward))
    if solution.is_feasible:
        return solution.policy
    return baseline if isinstance(baseline, Mixture) else Mixture.of([1.0], [baseline])
