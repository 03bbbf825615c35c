"""Algorithms 1, 2 and 3 of the paper, with its line numbers in the comments of `SimToReal.propose`.

Problem: choose, episode after episode, a policy that meets every constraint on a real system that differs from the
simulator in an unknown region, and stop when a near-optimal plan for any reward is possible. Algorithm: keep a hybrid
model; if the baseline does not look safe on it, deploy the baseline (Line 5); otherwise find the policy that would be
most uncertain among those feasible on the model (Line 8), and deploy it mixed with the baseline so that the baseline's
margin pays for the uncertainty (Line 13). Stopping rule: that largest uncertainty, Delta, is at most the tolerance (Line
10).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from safe2real._compiled import rounds
from safe2real._compiled.outcomes import INFEASIBLE
from safe2real._compiled.search import like_of
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Method, Reason, Recorded, refuted_decision
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import ROUNDING, Floats
from safe2real.planning.sweeper import slots_for
from safe2real.problem.problem import Problem
from safe2real.refinements import Chain, find


class Memory(NamedTuple):
    """What the compiled rounds continue from."""

    candidate: rounds.Candidate
    warm: int  # how many of its policies to start from


@dataclass(frozen=True, slots=True)
class SimToReal(Method):
    """Reuse the simulator where it is right, keep safe, stop when a plan for ANY reward is possible (Algorithm 1).

    Guarantee (Theorem 1): under Slater's condition with `margin` and the separation condition with the two gaps, with
    probability at least 1 - delta every proposed mixture meets every constraint on the real system, and after the stop every
    plan is feasible and within 2 H tau / xi + 2 tau of the optimum, for every reward.
    """

    name: ClassVar[str] = "sim-to-real safe RL"
    has_compiled_rounds: ClassVar[bool] = True

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        """Lines 3 to 13 of Algorithm 1; Algorithms 2 and 3 are the subclasses below. `simulate` compiles the same lines.

        Counting an episode (Line 14) has brought the suspects (Line 3) and the hybrid model (Line 4) up to date.
        """
        model, terms = evidence.row_sets, terms_of(problem, evidence.kept)
        memory = copy_of(memory) if isinstance(memory, Memory) else empty_memory(problem, evidence.kept)
        candidate, margins = memory.candidate, evidence.trust.compiled.margins  # data may have raised the stated margins
        refuted = refuted_decision(evidence)
        if refuted is not None:  # not in the paper, which assumes that no assumption is false
            return replace(refuted, memory=memory)

        rounds.baseline_values(model.rows, terms, candidate.baseline_values)  # V_c of the baseline on the hybrid model
        if (candidate.baseline_values < terms.thresholds + 0.5 * terms.margins).any():  # Line 5
            return Decision(Reason.BASELINE, memory=memory)  # Line 6

        status, uncertainty, used = rounds.most_uncertain(  # Line 8
            model.rows, terms, evidence.belief.bonus, memory.warm, candidate
        )
        if status == INFEASIBLE:  # only by rounding, since the baseline is feasible here
            return Decision(Reason.BASELINE, memory=memory._replace(warm=0))
        delta = min(float(terms.H), uncertainty)  # Line 9, by a dual UPPER bound: rounding can only delay the stop
        if terms.chained and delta > terms.tolerance:  # the refinement `Chain`; docs/samples.md
            delta = min(delta, rounds.chained_uncertainty(model, terms, candidate, used))
        memory = memory._replace(warm=int(used))
        if delta <= terms.tolerance:  # Line 10
            return Decision(Reason.STOP, uncertainty=delta, memory=memory)  # Line 11

        rounds.lower_bounds(model, terms, candidate, used, delta)
        alpha = rounds.candidate_share(candidate.lower, terms.thresholds, margins)  # Line 13
        mixed = alpha * candidate.lower + (1.0 - alpha) * (terms.thresholds + margins)
        if not (mixed >= terms.thresholds - ROUNDING).all():  # the last check before deployment; it also catches NaN
            return Decision(Reason.BASELINE, memory=memory._replace(warm=0))
        return mixture_of(delta, alpha, memory, problem.simulator.num_actions)

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """Delta was computed again, and the recorded policies are evaluated on the model (paper, Lemma 3).

        The planner may break a tie differently on another machine: the policies need not be the ones that would be proposed
        here and now, they need to be certified.
        """
        if now.reason is Reason.BASELINE or recorded.uncertainty == np.inf:
            raise InvalidInput(f"the data did not allow a mixture here: the answer was {now.reason.name}")
        if recorded.uncertainty < now.uncertainty - ROUNDING:
            raise InvalidInput(f"the uncertainty is {now.uncertainty:.12g} on these data, not {recorded.uncertainty:.12g}")
        # A Delta that claims less than could be claimed is as good: it bounds the same thing.
        return evidence.lower_bounds(recorded.candidate, now.uncertainty)


def spans_of(problem: Problem) -> Floats:
    """[H], or [1] where it is the same at every step: what a row's distance is multiplied by in each step.

    What can still follow, H - 1 - h, or the paper's H. Where the last step only collects nothing follows it and nobody
    visits its rows: a bonus there would pay for data that never come, and a run would not stop.
    """
    model = problem.simulator
    left: Floats = model.horizon - 1.0 - np.arange(model.horizon, dtype=np.float64)
    if problem.settings.span_bonus:
        return left
    return np.where(left > 0.0, float(model.horizon), 0.0) if model.counts_end else np.full(1, float(model.horizon))


@lru_cache(maxsize=8)
def terms_of(problem: Problem, kept: int) -> rounds.Terms:
    """What has to hold in every round, for compiled code; `kept` constraints are kept to."""
    settings, model = problem.settings, problem.simulator
    horizon = model.horizon
    return rounds.Terms(
        start=model.start.copy(),
        utilities=model.utilities[:kept].copy(),
        thresholds=model.thresholds[:kept].copy(),
        margins=problem.margins[:kept].copy(),
        baseline=problem.baseline.probabilities.copy(),
        tolerance=float(settings.tolerance),
        spans=spans_of(problem) / horizon,
        chained=find(settings.refinements, Chain) is not None and settings.span_bonus,
        robust=settings.robust_safety,
        certified=settings.certified,
        H=horizon,
        like=like_of(kept),
        steps=model.steps,
    )


def empty_memory(problem: Problem, kept: int) -> Memory:
    slots, model = slots_for(kept), problem.simulator
    candidate = rounds.Candidate(
        actions=np.zeros((slots, model.horizon, model.num_states), dtype=np.uint32),
        lines=np.zeros((slots, 1 + kept)),
        weights=np.zeros(slots),
        multipliers=np.zeros(kept),
        lower=np.zeros(kept),
        baseline_values=np.zeros(kept),
    )
    return Memory(candidate, 0)


def copy_of(memory: Memory) -> Memory:
    return Memory(rounds.Candidate(*(array.copy() for array in memory.candidate)), memory.warm)


def decision_of(reason: int, uncertainty: float, alpha: float, memory: Memory, num_actions: int) -> Decision:
    """What compiled rounds have decided, with the policies that they left in `memory`."""
    if reason != Reason.MIXTURE.value:
        return Decision(Reason(reason), uncertainty=uncertainty, memory=memory)
    return mixture_of(uncertainty, alpha, memory, num_actions)


def mixture_of(uncertainty: float, alpha: float, memory: Memory, num_actions: int) -> Decision:
    """The share `alpha` of the candidate in `memory`; the rest is the baseline's."""
    candidate = memory.candidate
    used = np.flatnonzero(candidate.weights > 0.0)
    return Decision(
        reason=Reason.MIXTURE,
        policies=tuple(MarkovPolicy.deterministic(candidate.actions[j], num_actions=num_actions) for j in used),
        weights=tuple(float(candidate.weights[j]) for j in used),
        exploration_weight=alpha,
        lower_bounds=candidate.lower.copy(),
        uncertainty=uncertainty,
        memory=memory,
    )


@dataclass(frozen=True, slots=True)
class RewardFree(SimToReal):
    """Algorithm 2: the lines of `SimToReal` on a model in which no row is ever cleared (Line 3 is left out)."""

    name: ClassVar[str] = "reward-free safe RL"
    reuses_simulator: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Unconstrained(SimToReal):
    """Algorithm 3: the lines of `SimToReal` without constraints, so Lines 5, 6 and 13 are void. Compare with it only."""

    name: ClassVar[str] = "unconstrained sim-to-real RL"
    keeps_safe: ClassVar[bool] = False

    @property
    def can_be_rechecked(self) -> bool:
        """Never: it claims nothing of what it deploys."""
        return False  # nothing is claimed of what it deploys
