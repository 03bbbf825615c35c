"""The contract of a method: what to deploy next, as a function of what is assumed and of what the data say.

A method proposes from (problem, evidence, seed, round) alone and changes nothing. It never proposes what its bounds do not
cover, and it stops only with a claim. What it claims can be computed again from a record: `recheck`. A method without one
can explore, and a campaign does not deploy it.
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
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import ROUNDING, Floats, bare
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, Doubt
from safe2real.tables import Row


class Reason(Enum):
    """Why a round proposes what it does."""

    BASELINE = codes.BASELINE
    """The data do not allow more than the baseline alone (Line 5 of the paper's algorithm)."""
    MIXTURE = codes.MIXTURE
    """Deploy a candidate mixed with the baseline, whose margin pays for what is uncertain about it (Line 13)."""
    STOP = codes.STOP
    """The method has what it was after; nothing more to deploy (Line 10)."""
    HALT = codes.HALT
    """The data refute the margin of the baseline itself: nothing is trusted any more. Stop the machine."""


@dataclass(frozen=True, eq=False, slots=True)
class Interval:
    """One declared reward: the best safe policy is worth something in [lower, upper], and `policy` at least `lower`."""

    name: str
    reward: Floats  # [1 or H, S, A]
    lower: float
    upper: float
    policy: Mixture  # certified feasible, and worth at least `lower` in reality
    lower_bounds: Floats  # [K] on V_c of `policy`
    allowed: float  # upper - lower that is accurate enough

    @property
    def is_accurate(self) -> bool:
        return self.upper - self.lower <= self.allowed

    def is_about(self, reward: ArrayLike) -> bool:
        """Whether this is the interval of `reward` ([S, A] or [H, S, A])."""
        given = np.asarray(reward, dtype=np.float64)
        return np.array_equal(self.reward, given[None] if given.ndim == 2 else given)

    def to_row(self) -> Row:
        """One line of a table; see `tables.to_table`."""
        return {"reward": self.name, "lower": self.lower, "upper": self.upper, "allowed": self.allowed,
                "accurate": self.is_accurate}  # fmt: skip

    @property
    def gap(self) -> float:
        """upper - lower, as a multiple of what is allowed: at most 1 where it is accurate."""
        return (self.upper - self.lower) / self.allowed if self.allowed > 0.0 else float(self.upper > self.lower)


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """What a method wants to be deployed in one round: `policies` with `weights`, mixed with the baseline."""

    reason: Reason
    policies: tuple[MarkovPolicy, ...] = ()  # the candidate is their mixture; empty unless the reason is MIXTURE
    weights: tuple[float, ...] = ()  # of the policies; they sum to 1
    exploration_weight: float = 0.0  # alpha: the candidate's share; the rest is the baseline's
    lower_bounds: Floats = field(default_factory=lambda: np.empty(0))  # [K] on the real V_c of the candidate
    uncertainty: float = np.inf  # Delta, or whatever the method stops by; inf where it was not computed
    memory: Any = None  # given back in the next round, to begin the search from: it may save time, it decides nothing
    intervals: tuple[Interval, ...] = ()  # of declared rewards, when it was made: to look at
    notice: str = ""  # what a user has to know of the run, in words: say, that it will not stop

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
        """What is deployed: one policy of it is drawn for each episode. None when nothing is."""
        if self.reason in (Reason.STOP, Reason.HALT):
            return None
        weights = [self.exploration_weight * weight for weight in self.weights]
        return Mixture.of([*weights, max(0.0, 1.0 - sum(weights))], [*self.policies, baseline])


@dataclass(frozen=True, eq=False, slots=True)
class Recorded:
    """A candidate as a record has it, with what was claimed when it was mixed with the baseline and handed out."""

    candidate: Mixture
    exploration_weight: float  # alpha
    uncertainty: float  # inf where none is recorded


class Method(ABC):
    """Decides what to deploy. Subclass it as a frozen dataclass, whose fields are its parameters; nothing is registered.

    `safe2real.testing.MethodContract` checks what is promised here.
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
    """Whether `simulate` may run its rounds in compiled code; `memory` is then what that code continues from."""

    def evidence(self, problem: Problem) -> Evidence:
        """Nothing counted yet."""
        return evidence_for(problem, reuses_simulator=self.reuses_simulator, keeps_safe=self.keeps_safe)

    @abstractmethod
    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        """What to deploy in this round. A function of its arguments; the coin of the mixture is drawn by the caller."""

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """What is provable about a recorded candidate from the `evidence` that there was; the record is not believed.

        Args:
            recorded: from the record.
            evidence: all that was counted before it was handed out, and nothing that refutes an assumption.
            now: what this method decides on that evidence, here and now.

        Returns:
            [K] lower bounds on V_c of the candidate.

        Raises:
            InvalidInput: if the data did not allow a candidate at all, or not with that uncertainty; says why.
        """
        raise InvalidInput(f"the method {self.name!r} brings no recheck, so a record of it proves nothing")

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        """Whether another proposal is due after an episode; a decision that stands stays certified.

        Without one of its own a method is asked as `Settings.replan_growth` says. It decides how often a learner asks, and
        nothing about what is certified; a campaign asks whenever it hands something out.

        Args:
            evidence: with the episode counted.
            planned: [R] visits when the decision that stands was made.
            memory: of that decision.
        """
        return True

    @property
    def schedules(self) -> bool:
        """Whether it says itself when it is due."""
        return type(self).is_due is not Method.is_due

    def stops_at(self, problem: Problem) -> float:
        """The uncertainty at which it stops."""
        return float(problem.settings.tolerance)

    def intervals(self, problem: Problem, evidence: Evidence) -> tuple[Interval, ...]:
        """What is certain of each reward that the method explores for; empty where there are none in particular."""
        return ()

    def check(self, problem: Problem) -> None:  # noqa: B027, most methods have nothing to check
        """Refuse a problem that its parameters do not fit; InvalidInput with the place, the value and the cure."""

    # What its bounds rest on. A method that does not go by the rows says so here, and certificates list only that.

    def assumptions(self, evidence: Evidence) -> tuple[Assumption, ...]:
        """All that the bounds of its candidates rest on."""
        return evidence.assumptions()

    def doubts(self, evidence: Evidence) -> tuple[Doubt, ...]:
        """Why these bounds are no guarantee; empty when they are one."""
        return evidence.doubts()

    def is_refuted(self, evidence: Evidence) -> bool:
        """Whether the data contradict what the bounds rest on: final; at most the baseline is deployed from then on."""
        return evidence.is_refuted

    def floors(self, evidence: Evidence) -> dict[str, float]:
        """What is certain of its candidate alone, by the name of a constraint or reward; nothing by default."""
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
    """What every method has to answer once the data refute an assumption: nothing at all, or the baseline alone."""
    if evidence.trust.halted:
        return Decision(Reason.HALT)
    return Decision(Reason.BASELINE) if evidence.is_refuted else None


def candidate_share(lower_bounds: Floats, thresholds: Floats, margins: Floats) -> float:
    """alpha, the largest share of a candidate in a mixture with the baseline that keeps every threshold (paper, Line 13).

    `lower_bounds` [K] are on V_c of the candidate; the baseline has `thresholds` + `margins` [K]. The compiled
    rounds call the same function.
    """
    return float(rounds.candidate_share(bare(lower_bounds), bare(thresholds), bare(margins)))
