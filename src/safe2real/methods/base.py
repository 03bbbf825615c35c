"""The contract of a method: the next deployment as a function of the assumptions and of the data.

A method proposes from (problem, evidence, seed, round) alone and changes nothing. Its bounds cover every proposal, and it
stops only with a claim. `recheck` recomputes its claims from a record. A method without `recheck` can explore, but a
campaign does not deploy it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real._compiled import codes, rounds
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence, evidence_for
from safe2real.evidence.moments import Bounds
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import ROUNDING, Floats, bare
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, Doubt
from safe2real.tables import Row


class Reason(Enum):
    """The reason for the decision of a round."""

    BASELINE = codes.BASELINE
    """The data do not allow more than the baseline alone (Line 5 of the paper's algorithm)."""
    MIXTURE = codes.MIXTURE
    """Deploy a candidate mixed with the baseline, whose margin pays for the candidate's uncertainty (Line 13)."""
    STOP = codes.STOP
    """The method has reached its goal; there is nothing more to deploy (Line 10)."""
    HALT = codes.HALT
    """The data refute the margin of the baseline itself: nothing is trusted any more. Stop the machine."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Interval:
    """Bounds on the best safe value of one declared reward, and a certified `policy` that is worth at least `lower`."""

    name: str
    reward: Floats  # [1 or H, S, A]
    lower: float
    upper: float
    policy: Mixture  # certified feasible, and worth at least `lower` in reality
    lower_bounds: Floats  # [K] on V_c of `policy`
    allowed: float  # upper - lower that is accurate enough

    def __repr__(self) -> str:
        met = "met" if self.is_accurate else "not met"
        ends = f"at least {rounded_down(self.lower)}, at most {rounded_up(self.upper)}"
        return f"Interval({self.name!r}: {ends}; accuracy {rounded_down(self.allowed)} {met})"

    @property
    def bounds(self) -> Bounds:
        """The two ends alone, without the reward and the policy."""
        return Bounds(self.name, self.lower, self.upper, self.allowed)

    @property
    def is_accurate(self) -> bool:
        return self.bounds.is_accurate

    def is_about(self, reward: ArrayLike) -> bool:
        """Tell whether this is the interval of a given reward.

        Args:
            reward: [S, A] or [H, S, A].

        Returns:
            Whether it equals `self.reward`.
        """
        given = np.asarray(reward, dtype=np.float64)
        return np.array_equal(self.reward, given[None] if given.ndim == 2 else given)

    def to_row(self) -> Row:
        """Return the interval as one line of a table; see `tables.to_table`."""
        return {"reward": self.name, "lower": self.lower, "upper": self.upper, "allowed": self.allowed,
                "accurate": self.is_accurate}  # fmt: skip

    @property
    def gap(self) -> float:
        """upper - lower, as a multiple of `allowed`: at most 1 if the interval is accurate."""
        return (self.upper - self.lower) / self.allowed if self.allowed > 0.0 else float(self.upper > self.lower)


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """The deployment of one round: a candidate (`policies` with `weights`), mixed with the baseline."""

    reason: Reason
    policies: tuple[MarkovPolicy, ...] = ()  # the candidate is their mixture; empty unless the reason is MIXTURE
    weights: tuple[float, ...] = ()  # of the policies; they sum to 1
    exploration_weight: float = 0.0  # alpha: the candidate's share; the rest is the baseline's
    lower_bounds: Floats = field(default_factory=lambda: np.empty(0))  # [K] on the real V_c of the candidate
    uncertainty: float = np.inf  # Delta, or whatever the method stops by; inf where it was not computed
    memory: Any = None  # given back in the next round, to begin the search from: it may save time, it decides nothing
    intervals: tuple[Interval, ...] = ()  # of declared rewards, when it was made: to look at
    notice: str = ""  # a message to the user about the run, for example that it will not stop

    def __post_init__(self) -> None:
        mixes, weights = self.reason is Reason.MIXTURE, np.asarray(self.weights, dtype=np.float64)
        if bool(self.policies) != mixes or len(self.policies) != weights.size or (self.exploration_weight != 0.0) > mixes:
            raise InvalidInput(
                f"a decision of reason {self.reason.name} has {len(self.policies)} policies, {weights.size} weights and the "
                f"share {self.exploration_weight:g}; a candidate goes with MIXTURE alone, with one weight for each policy"
            )
        if mixes and not ((weights >= 0.0).all() and abs(weights.sum() - 1.0) <= ROUNDING):
            raise InvalidInput(f"the weights of a candidate are {self.weights}; give shares of at least 0 that sum to 1")
        if not 0.0 <= self.exploration_weight <= 1.0 or np.ndim(self.lower_bounds) != 1 or np.isnan(self.lower_bounds).any():
            raise InvalidInput(
                f"the candidate's share is {self.exploration_weight} and its bounds are {self.lower_bounds}; give a share "
                "from 0 to 1, and one lower bound for each constraint"
            )

    def mixture(self, baseline: MarkovPolicy) -> Mixture | None:
        """Return the mixture to deploy, from which one policy is drawn for each episode.

        Args:
            baseline: the problem's trusted policy, of the shape of the candidate's policies.

        Returns:
            Candidate and baseline with their weights; None if the decision is to stop or to halt.
        """
        if self.reason in (Reason.STOP, Reason.HALT):
            return None
        weights = [self.exploration_weight * weight for weight in self.weights]
        return Mixture.of([*weights, max(0.0, 1.0 - sum(weights))], [*self.policies, baseline])


@dataclass(frozen=True, eq=False, slots=True)
class Recorded:
    """A candidate as recorded, with the claims made when its mixture with the baseline was handed out."""

    candidate: Mixture
    exploration_weight: float  # alpha
    uncertainty: float  # inf where none is recorded


class Method(ABC):
    """Decides what to deploy. Subclass it as a frozen dataclass, whose fields are its parameters; nothing is registered.

    `safe2real.testing.MethodContract` tests this contract.
    """

    name: ClassVar[str]
    """Names it in records: words that no other method has."""
    revision: ClassVar[int] = 1
    """Changes whenever the same evidence leads to other proposals."""
    reuses_simulator: ClassVar[bool] = True
    """Whether rows that are shown to be close to the simulator's are taken from it."""
    keeps_safe: ClassVar[bool] = True
    """Whether every proposal meets the constraints; if not, certificates say so."""
    covers_any_reward: ClassVar[bool] = True
    """Whether its stop means that plans for ANY reward are accurate (Theorem 1); if not, each has its own bound alone."""
    has_compiled_rounds: ClassVar[bool] = False
    """Whether `simulate` may run its rounds in compiled code, which then continues from `memory`."""

    def evidence(self, problem: Problem) -> Evidence:
        """Create the evidence that this method uses, with nothing counted yet.

        Args:
            problem: the problem to explore.

        Returns:
            Evidence without episodes.
        """
        return evidence_for(problem, reuses_simulator=self.reuses_simulator, keeps_safe=self.keeps_safe)

    @abstractmethod
    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        """Decide the deployment of one round; the caller draws the policy of each episode.

        Args:
            problem: the fixed inputs and assumptions.
            evidence: the data so far.
            seed: of the run; for methods that need random numbers.
            round_number: the round, from 1.
            memory: of the previous decision, to start the search from; it must not affect the bounds.

        Returns:
            The decision, a function of these arguments alone.
        """

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """Recompute the bounds of a recorded candidate from the evidence alone.

        Args:
            recorded: the candidate and its claims, from the record.
            evidence: all episodes counted before the candidate was handed out, with no assumption refuted.
            now: this method's decision on that evidence, computed again.

        Returns:
            [K] lower bounds on V_c of the candidate.

        Raises:
            InvalidInput: the data did not allow a candidate, or not with that uncertainty; or the method has no recheck.
        """
        raise InvalidInput(f"the method {self.name!r} brings no recheck, so a record of it proves nothing")

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        """Tell whether a new proposal is due after an episode; a decision that stands stays certified.

        Without an override, `Settings.replan_growth` decides. The answer sets only how often a learner plans, and never a
        bound; a campaign plans at every `ask`.

        Args:
            evidence: with the episode counted.
            planned: [R] visits of each row when the standing decision was made.
            memory: of that decision.

        Returns:
            Whether to call `propose` again.
        """
        return True

    @property
    def schedules(self) -> bool:
        """Whether it says itself when it is due."""
        return type(self).is_due is not Method.is_due

    def stops_at(self, problem: Problem) -> float:
        """Return the uncertainty at or below which the method stops.

        Args:
            problem: the problem that is explored.

        Returns:
            The threshold on `Decision.uncertainty`.
        """
        return float(problem.settings.tolerance)

    def intervals(self, problem: Problem, evidence: Evidence) -> tuple[Interval, ...]:
        """Return the interval of each declared reward.

        Args:
            problem: the problem that is explored.
            evidence: the data so far.

        Returns:
            One interval for each declared reward; empty for a method without declared rewards.
        """
        return ()

    def check(self, problem: Problem) -> None:  # noqa: B027, most methods have nothing to check
        """Refuse a problem that the method's parameters do not fit.

        Args:
            problem: the problem to explore.

        Raises:
            InvalidInput: a parameter does not fit; with the place, the value and the fix.
        """

    # The basis of its bounds. A method that does not use the rows overrides these, and certificates list only its answers.

    def assumptions(self, evidence: Evidence) -> tuple[Assumption, ...]:
        """List the assumptions that the candidates' bounds rest on.

        Args:
            evidence: the data so far.

        Returns:
            The assumptions, each with a code and a sentence.
        """
        return evidence.assumptions()

    def doubts(self, evidence: Evidence) -> tuple[Doubt, ...]:
        """List the reasons why the bounds are no guarantee.

        Args:
            evidence: the data so far.

        Returns:
            The reasons, each with a code; empty if the bounds are a guarantee.
        """
        return evidence.doubts()

    def is_refuted(self, evidence: Evidence) -> bool:
        """Tell whether the data contradict an assumption behind the bounds.

        Args:
            evidence: the data so far.

        Returns:
            True from the first contradiction on; from then on at most the baseline is deployed.
        """
        return evidence.is_refuted

    def floors(self, evidence: Evidence) -> dict[str, float]:
        """Return lower bounds on the real values of the candidate alone.

        Args:
            evidence: the data so far.

        Returns:
            A bound for each constraint or reward by name; empty by default.
        """
        return {}

    @property
    def tried(self) -> MarkovPolicy | None:
        """The one policy whose own episodes its bounds come from, if there is one: a log of it counts for them too."""
        return None

    @property
    def can_be_rechecked(self) -> bool:
        """Whether a record of it can be verified; a campaign deploys nothing else."""
        return type(self).recheck is not Method.recheck

    def __str__(self) -> str:
        return self.name


def refuted_decision(evidence: Evidence) -> Decision | None:
    """Return the decision that every method must make once the data refute an assumption.

    Args:
        evidence: the data so far.

    Returns:
        HALT if a margin is refuted, BASELINE if another assumption is, None if nothing is refuted.
    """
    if evidence.trust.halted:
        return Decision(Reason.HALT)
    return Decision(Reason.BASELINE) if evidence.is_refuted else None


def candidate_share(lower_bounds: Floats, thresholds: Floats, margins: Floats) -> float:
    """Return alpha, the largest share of a candidate that satisfies every threshold in the mixture (paper, Line 13).

    The compiled rounds call the same function.

    Args:
        lower_bounds: [K] on V_c of the candidate.
        thresholds: [K] of the constraints.
        margins: [K]; V_c of the baseline is at least `thresholds` + `margins`.

    Returns:
        alpha, from 0 to 1.
    """
    return float(rounds.candidate_share(bare(lower_bounds), bare(thresholds), bare(margins)))
