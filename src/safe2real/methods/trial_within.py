"""One policy on trial within a campaign of another method, on the same data.

While the trial runs, its policy is deployed, mixed with the baseline as far as the returns of its own episodes allow. Every
episode is counted for the rows as well, so nothing is lost for the method that goes on afterwards. What was learnt before
says nothing in the trial's bounds: only episodes that were handed out for the trial count for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.assumptions import INDEPENDENT
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.mean_bounds import CandidateReturns
from safe2real.methods.base import Decision, Method, Reason, Recorded, refuted_decision
from safe2real.methods.intervals import Interval
from safe2real.methods.trial import Trial
from safe2real.model.policy import MarkovPolicy, Mixture, Policy
from safe2real.model.validation import Floats, probability_of_failure
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, Doubt


@dataclass(frozen=True, eq=False)
class TrialWithin(Method):
    """`trial` first, until its targets are reached; then `base` again. Made by `Learner.begin_trial`.

    Guarantee: that of `base`, and the floors of the trial, together with probability at least 1 - delta of the problem
    - `delta`. A refutation of what `base` assumes ends both: only the baseline is proposed then. Reference: docs/trials.md.

    Attributes:
        base: what the campaign goes on with.
        trial: the policy, its rewards and targets; its number is its place among the trials of this campaign.
        delta: how likely any of this trial's bounds may ever be false, in addition to the problem's delta.
    """

    base: Method
    trial: Trial
    delta: float
    name: ClassVar[str] = "trial within a campaign"

    def __post_init__(self) -> None:
        if isinstance(self.base, Trial | TrialWithin) or not self.base.keeps_safe:
            raise InvalidInput(
                f"the method is {self.base.name!r}; a trial can run within a campaign that keeps to its constraints and is "
                "no trial itself: end the one that runs, or start a campaign with Trial(policy, number=2)"
            )
        probability_of_failure("delta of the trial", self.delta)
        for fact in ("reuses_simulator", "covers_any_reward"):  # what the class says of others is the base's here
            object.__setattr__(self, fact, getattr(self.base, fact))

    def evidence(self, problem: Problem) -> Evidence:
        found = self.base.evidence(problem)
        found.returns = self.returns(problem)
        return found

    def returns(self, problem: Problem) -> CandidateReturns:
        """Nothing yet; `delta` is shared by the bounds of all constraints and rewards."""
        bounds = len(self.trial.rewards or {}) + problem.simulator.num_constraints
        return self.trial.returns(problem, self.delta / max(1, bounds))

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        over = refuted_decision(evidence)
        if over is not None:
            return over
        tried = self.trial.propose(problem, evidence, seed=seed, round_number=round_number)
        if tried.reason is not Reason.STOP:
            return replace(tried, uncertainty=np.inf)  # what the trial misses says nothing of the model's values
        return self.base.propose(problem, evidence, seed=seed, round_number=round_number, memory=memory)

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """By the trial if the policy was handed out for it; else by the base, once the trial has what it was after."""
        if recorded.tries == self.trial.number:
            return self.trial.recheck(recorded, evidence, now)
        if recorded.tries or now.tries:
            raise InvalidInput(
                f"the policy that was handed out is not the one of trial {self.trial.number}, which is running"
            )
        return self.base.recheck(recorded, evidence, now)

    def floors(self, evidence: Evidence) -> dict[str, float]:
        return self.trial.floors(evidence)

    def assumptions(self, evidence: Evidence) -> tuple[Assumption, ...]:
        return (*self.base.assumptions(evidence), INDEPENDENT)

    # Everything else is the base's

    def is_due(self, evidence: Evidence, planned: NDArray[np.int64], memory: Any) -> bool:
        return not self.base.schedules or memory is None or self.base.is_due(evidence, planned, memory)

    @property
    def schedules(self) -> bool:
        return self.base.schedules

    def check(self, problem: Problem) -> None:
        self.base.check(problem)
        self.returns(problem)

    def stops_at(self, problem: Problem) -> float:
        return self.base.stops_at(problem)

    def intervals(self, problem: Problem, evidence: Evidence) -> tuple[Interval, ...]:
        return self.base.intervals(problem, evidence)

    def doubts(self, evidence: Evidence) -> tuple[Doubt, ...]:
        return self.base.doubts(evidence)

    def is_refuted(self, evidence: Evidence) -> bool:
        return self.base.is_refuted(evidence)

    @property
    def can_be_rechecked(self) -> bool:
        return self.base.can_be_rechecked


def running_trial(method: Method) -> int | None:
    """The number of the trial that a method is, or has within; None where there is none."""
    running = method.trial if isinstance(method, TrialWithin) else method
    return running.number if isinstance(running, Trial) else None


def refuse_within_trial(method: Method) -> None:
    """Refuse to direct a run elsewhere while a trial runs within it: its base is what would be directed."""
    if isinstance(method, TrialWithin):
        raise InvalidInput("a trial is running within this run; end it first (end_trial)")


def base_of(method: Method) -> Method:
    """The method that goes on when a trial within its run is over; another one is itself."""
    return method.base if isinstance(method, TrialWithin) else method


@dataclass(frozen=True, eq=False, slots=True)
class PastTrial:
    """A trial within a run, over or not, and what the returns of its policy have shown."""

    within: TrialWithin
    returns: CandidateReturns

    @property
    def number(self) -> int:
        return self.within.trial.number


def without_baseline(policy: Policy, baseline: MarkovPolicy) -> Policy:
    """What is on trial of a plan: its policies but for the baseline, which the trial mixes in itself."""
    if not isinstance(policy, Mixture):
        return policy
    others = [
        (weight, part)
        for weight, part in zip(policy.weights, policy.policies, strict=True)
        if part is not baseline and not np.array_equal(part.probabilities, baseline.probabilities)
    ]
    if not others:
        raise InvalidInput("the policy is the baseline alone; there is nothing to try: its worth is its margin")
    weights = np.array([weight for weight, _ in others])
    return Mixture.of(weights / weights.sum(), [part for _, part in others])
