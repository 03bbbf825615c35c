"""Bring ONE policy in safely, by the returns of its own episodes alone.

Problem: a policy looks good in a simulator, and a baseline has a known margin. Deploy the policy on the real system as fast
as its own episodes allow, and never unsafely. Algorithm: an anytime lower bound on the policy's V_c from the returns of its
own episodes (`evidence.mean_bounds`); the policy is mixed with the baseline so that the baseline's margin pays for the part
that is not proved yet. Its share is small at first, and 1 once the bound reaches every threshold. Stopping rule: every
bound that has a target has reached it; without a target the trial never stops.

No row, no separation, no Markov property, no support and not even the list of states enters the bound: see docs/trials.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.evidence.assumptions import margin_doubts_of, trial_assumptions_of
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.mean_bounds import CandidateReturns
from safe2real.methods.base import Decision, Method, Reason, Recorded, candidate_share
from safe2real.model.cmdp import step_rewards
from safe2real.model.policy import MarkovPolicy, Mixture, Policy, fitted
from safe2real.model.serialization import array_to_json, numbers_from_json, policy_from_json, policy_to_json
from safe2real.model.validation import (
    ROUNDING,
    Declared,
    Floats,
    by_name,
    finite_floats,
    finite_number,
    frozen,
    positive_integer,
    shown,
)
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, Doubt


def share_of_delta(delta: float, number: int, bounds: int) -> float:
    """Return the probability with which each of `bounds` bounds of trial `number` (from 1) may ever be false.

    Sum over number = 1, 2, ... of 1 / (number (number + 1)) is 1, so all bounds of all trials that share `delta` hold
    together with probability 1 - delta, whatever the number of trials and however each policy was chosen.
    """
    return delta / (number * (number + 1) * max(1, bounds))


@dataclass(frozen=True, eq=False)
class Trial(Method):
    """One fixed policy, deployed as far as the returns of its own episodes allow.

    Guarantee: if the baseline has its stated margin, and episodes of the policy are independent and alike, then with
    probability at least 1 - delta every deployed mixture meets every constraint on the real system, and every floor
    (`CandidateReturns.floors`) is at most the policy's real value, at all times, over all trials that share delta.
    Reference: Ville's inequality; docs/trials.md has the proof.

    Attributes:
        policy: a Markov policy, or a mixture of some; the baseline is no part of it.
        rewards: [S, A] or [H, S, A] in [0, 1] by name; each gets a floor of its own.
        number: which trial this is among those that share delta, from 1. A policy chosen after a trial is the next number.
        target: by the name of a constraint or reward the floor at which to stop; all of them have to be reached. Of a
            constraint written as cost <= limit the target is an upper bound on the policy's cost.

    Example:
        >>> trial = s2r.methods.Trial(s2r.solve(simulator, reward).policy, rewards={"throughput": reward})
        >>> learner = s2r.Learner(problem, trial)
        >>> learner.floors()["throughput"]
    """

    policy: Policy
    rewards: Mapping[str, ArrayLike] | None = None
    number: int = 1
    target: Mapping[str, float] | None = None
    name: ClassVar[str] = "trial of one policy"
    covers_any_reward: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.policy, MarkovPolicy | Mixture):
            raise InvalidInput(f"policy is a {type(self.policy).__name__}; give a MarkovPolicy, or a Mixture of some")
        positive_integer("number", self.number)
        rewards, targets = by_name("rewards", self.rewards), by_name("target", self.target)
        kept = {key: frozen(finite_floats(f"rewards[{key!r}]", value)) for key, value in rewards.items()}
        goals = {key: finite_number(f"target[{key!r}]", value) for key, value in targets.items()}
        object.__setattr__(self, "rewards", Declared(kept) if kept else None)
        object.__setattr__(self, "target", Declared(goals) if goals else None)

    @property
    def candidate(self) -> Mixture:
        """The policy as a mixture."""
        return self.policy if isinstance(self.policy, Mixture) else Mixture.of([1.0], [self.policy])

    @property
    def tried(self) -> MarkovPolicy | None:
        """The policy on trial; None for a mixture, since a log of one part is no sample of the whole."""
        return self.candidate.policies[0] if len(self.candidate.policies) == 1 else None

    def evidence(self, problem: Problem) -> Evidence:
        """Create evidence with nothing counted yet.

        The stated margins are used and are tested by returns alone, so the bounds rest on no assumption about rows.

        Args:
            problem: the problem in which the policy is tried.

        Returns:
            Evidence that keeps the returns of the policy's episodes.

        Raises:
            InvalidInput: the policy, a reward or a target does not fit the problem.
        """
        bounds = len(self.rewards or {}) + problem.simulator.num_constraints
        returns = self.returns(problem, share_of_delta(problem.settings.delta, self.number, bounds))
        found = Evidence(problem, margin_by_sets=False)
        found.returns = returns
        return found

    def returns(self, problem: Problem, alpha: float) -> CandidateReturns:
        """Create the record of the policy's returns, empty yet.

        Args:
            problem: the problem in which the policy is tried.
            alpha: the probability with which each bound may ever be false.

        Returns:
            Lower bounds for every constraint and reward, without episodes.

        Raises:
            InvalidInput: the policy, a reward or a target does not fit the problem.
        """
        model = problem.simulator
        parts = fitted(self.candidate, model, "the policy of the trial").policies
        # Episodes belong to a policy by the identity of its object; a problem that counts its end copies the objects.
        same = model.counts_end and any(_same(one, problem.baseline) for one in parts)
        if same or any(one is problem.baseline for one in self.candidate.policies):
            raise InvalidInput(
                "the policy of the trial is the baseline, or a mixture with it; give the other policies alone: the trial "
                "mixes them with the baseline itself, and the margin says how good the baseline is (estimate_margin)"
            )
        tables = {
            key: step_rewards(model, f"rewards[{key!r}]", value, unit_interval=True)
            for key, value in (self.rewards or {}).items()
        }
        both, known = set(tables) & set(model.labels), {*tables, *model.labels}
        if both:
            raise InvalidInput(f"rewards and constraints are both called {sorted(both)}; give rewards names of their own")
        unknown = set(self.target or {}) - known
        if unknown:
            raise InvalidInput(f"target names {sorted(unknown)}; there are the constraints and rewards {sorted(known)}")
        found = CandidateReturns(model, parts, tables, alpha)
        most = {key: one.high for key, one in zip(found.names, found.bounds, strict=True)}
        costs = {one.label: one for one in model.wordings if one.is_cost}
        for key, goal in (self.target or {}).items():
            worth = costs[key].number(goal) if key in costs else goal
            if worth > 0.0 and worth >= most[key]:
                end = (
                    f"cost less than {costs[key].number(most[key]):g}"
                    if key in costs
                    else f"be worth more than {most[key]:g}"
                )
                raise InvalidInput(
                    f"target[{key!r}] is {goal:g}, and no episode can {end}, which no floor reaches; give "
                    f"{'more' if key in costs else 'less'} than that"
                )
        return found

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        """Decide one round: deploy the policy with the largest share that its lower bounds allow.

        Args:
            problem: the problem in which the policy is tried.
            evidence: the data so far, of `Trial.evidence`.
            seed: not used; the decision needs no random numbers.
            round_number: not used.
            memory: not used.

        Returns:
            MIXTURE with the policy's share, STOP once every target is reached, HALT if a margin is refuted.

        Raises:
            InvalidInput: the evidence keeps no returns.
        """
        found = _returns(evidence)
        if evidence.trust.halted:
            return Decision(Reason.HALT)
        missing = found.missing(self.target or {})
        if missing <= 0.0:
            return Decision(Reason.STOP, uncertainty=0.0)
        lower, candidate = found.lower_bounds, fitted(self.candidate, problem.simulator)
        share = candidate_share(lower, problem.simulator.thresholds, evidence.margins)
        weights = tuple(candidate.weights.tolist())
        return Decision(Reason.MIXTURE, candidate.policies, weights, share, lower, missing)

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """Return the lower bounds recomputed from the record.

        Args:
            recorded: the candidate and its claims, from the record.
            evidence: all episodes counted before the candidate was handed out.
            now: not used.

        Returns:
            [K] lower bounds on V_c of the policy.

        Raises:
            InvalidInput: another policy was handed out.
        """
        mine, theirs = fitted(self.candidate, evidence.problem.simulator), recorded.candidate
        same = len(mine.policies) == len(theirs.policies) and all(map(_same, mine.policies, theirs.policies))
        if not same or not np.allclose(mine.weights, theirs.weights, rtol=0.0, atol=ROUNDING):
            raise InvalidInput("the candidate that was handed out is not the policy of this trial")
        return _returns(evidence).lower_bounds

    def floors(self, evidence: Evidence) -> dict[str, float]:
        """Return lower bounds on the policy's real values, or upper bounds on its costs.

        Args:
            evidence: the data so far, of `Trial.evidence`.

        Returns:
            A bound for each constraint and reward by name; a cost has its upper bound.

        Raises:
            InvalidInput: the evidence keeps no returns.
        """
        return _returns(evidence).floors

    # The basis of its bounds: returns, and no assumption about rows

    def is_refuted(self, evidence: Evidence) -> bool:
        """Tell whether the returns of the baseline refute its margin.

        Args:
            evidence: the data so far.

        Returns:
            True from the refutation on.
        """
        return evidence.trust.halted

    def doubts(self, evidence: Evidence) -> tuple[Doubt, ...]:
        """List the reasons why the bounds are no guarantee.

        Args:
            evidence: the data so far.

        Returns:
            The reasons, each with a code; empty if the bounds are a guarantee.
        """
        return margin_doubts_of(evidence.problem, evidence.trust)

    def assumptions(self, evidence: Evidence) -> tuple[Assumption, ...]:
        """List the assumptions that the bounds rest on; none is about rows.

        Args:
            evidence: the data so far, of `Trial.evidence`.

        Returns:
            The assumptions, each with a code and a sentence.

        Raises:
            InvalidInput: the evidence keeps no returns.
        """
        return trial_assumptions_of(evidence.problem, evidence.stated, self.number, _returns(evidence).logged)

    # As a document

    def to_parameters(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, for a record.

        Returns:
            `policy`, `rewards`, `number` and `target`.
        """
        mixture = self.candidate
        return {
            "policy": {
                "weights": mixture.weights.tolist(),
                "policies": [policy_to_json(policy) for policy in mixture.policies],
            },
            "rewards": {key: array_to_json(np.asarray(value)) for key, value in (self.rewards or {}).items()},
            "number": self.number,
            "target": dict(self.target or {}),
        }

    @classmethod
    def from_parameters(cls, given: Mapping[str, Any], place: str) -> Trial:
        """Read and check the fields that `to_parameters` wrote.

        Args:
            given: the JSON object.
            place: its place in the document, for messages.

        Returns:
            The trial.

        Raises:
            InvalidInput: a field is of another kind or out of its range.
        """
        policy, rewards, target = given["policy"], given["rewards"], given["target"]
        if not isinstance(policy, Mapping) or not {"weights", "policies"} == set(policy):
            raise InvalidInput(f'{place}.policy is {shown(policy)}; give {{"weights": [...], "policies": [...]}}')
        if not isinstance(policy["policies"], list) or not isinstance(rewards, Mapping) or not isinstance(target, Mapping):
            raise InvalidInput(f"{place} has policies that are no list, or rewards or a target that are no objects")
        parts = [policy_from_json(one, f"{place}.policy.policies[{i}]") for i, one in enumerate(policy["policies"])]
        tables = {key: numbers_from_json(value, f"{place}.rewards.{key}") for key, value in rewards.items()}
        return cls(Mixture.of(policy["weights"], parts), tables, given["number"], target)


def _same(one: MarkovPolicy, other: MarkovPolicy) -> bool:
    return bool(np.array_equal(one.probabilities, other.probabilities))


def _returns(evidence: Evidence) -> CandidateReturns:
    if evidence.returns is None:
        raise InvalidInput("the evidence keeps no returns; a trial goes by that of Trial.evidence(problem)")
    return evidence.returns
