"""Algorithms 1, 2 and 3 of the paper, each line with its number in the paper.

Problem: choose, episode after episode, a policy that meets every constraint on a real system that differs from the
simulator in an unknown region, and stop when a near-optimal plan for any reward is possible. Algorithm: keep a hybrid
model; if the baseline does not look safe on it, deploy the baseline (Line 5); otherwise find the policy that would be
most uncertain among those feasible on the model (Line 8), and deploy it mixed with the baseline so that the baseline's
margin pays for the uncertainty (Line 13). Stopping rule: that largest uncertainty, Delta, is at most the tolerance (Line
10).

| Algorithm 1 | 2 | 3 | what it does | where |
| --- | --- | --- | --- | --- |
| Line 1 | 1 | 1 | nothing is counted, every row is a suspect | `Method.evidence` |
| Lines 2, 16 | 2, 15 | 2, 11 | the loop over rounds | `explore`, or `simulate` in compiled code |
| Line 3 | | 3 | the estimated mismatch region: the suspects | `update_rows` of `_compiled/row_update.py` |
| Line 4 | 3 | 4 | the hybrid model | the same, as an episode is counted |
| Lines 5, 6 | 4, 5 | | the baseline alone, unless safe on the model | `SimToReal.propose`; compiled: `rounds.propose` |
| Line 8 | 7 | 5 | the candidate | the same |
| Line 9 | 8 | 6 | its uncertainty Delta | the same |
| Lines 10, 11 | 9, 10 | 7, 8 | the stop | the same |
| Line 13 | 12 | | the mixture with the baseline | the same |
| Line 15 | 14 | 10 | the rollout | `explore`, `Learner.observe` |
| Line 17 | 16 | 12 | the plan for any reward | `Learner.plan` |

The other lines are `else` and `end`. `update_rows` decides whether a row is a suspect, and points the row of the hybrid
model at its observed successors or at the simulator's; `HybridModel` calls it for the rows of the counted episodes.

In a simulated run `propose` of `_compiled/rounds.py` computes Lines 5 to 13, with the same bits as `SimToReal.propose`.
Algorithm 4 is elsewhere: its Lines 1 to 3, the episodes, are `collect` in `exploration/simulate.py`, and its Lines 4 to 8
are `estimate_mismatch_gap` in `systems/measure.py`.

Line 5 uses the stated margin xi, because it only asks whether the hybrid model leaves the planner the paper's room of xi /
2; a larger margin would make it stricter and deploy the baseline more often. Line 13 uses the margin in use, xi or more
where the data prove more (docs/evidence.md), because any lower bound on the baseline's real V_c pays for the candidate, and
a larger one allows a larger share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from safe2real._compiled import rounds
from safe2real._compiled.codes import INFEASIBLE
from safe2real._compiled.search import like_of
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Decision, Method, Reason, Recorded, candidate_share, refuted_decision
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import ROUNDING, Floats
from safe2real.planning.sweeper import slots_for
from safe2real.problem.problem import Problem
from safe2real.refinements import Chain, find


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
        """Decide one round by Lines 5 to 13 of Algorithm 1; `simulate` compiles the same lines, with the same bits.

        Args:
            problem: the fixed inputs and assumptions.
            evidence: the data so far.
            seed: not used; the decision needs no random numbers.
            round_number: not used.
            memory: of the previous decision, to start the search from.

        Returns:
            The decision; its uncertainty is Delta.
        """
        model = HybridRound(problem, evidence, memory)  # Lines 3 and 4: counting has brought the hybrid model up to date
        thresholds, stated = model.terms.thresholds, model.terms.margins  # l and xi, [K]
        margins = evidence.trust.compiled.margins  # [K] xi, or more where the data prove it
        refuted = refuted_decision(evidence)
        if refuted is not None:  # not in the paper, which assumes that no assumption is false
            return replace(refuted, memory=model.memory)

        if (model.baseline_values() < thresholds + stated / 2.0).any():  # Line 5
            return Decision(Reason.BASELINE, memory=model.memory)  # Line 6

        bound = model.most_uncertain()  # Line 8: finds the candidate, and bounds its bonus from ABOVE
        if bound is None:  # infeasible, and only by rounding, since the baseline is feasible here
            return Decision(Reason.BASELINE, memory=model.forgotten)
        delta = min(float(problem.simulator.horizon), bound)  # Line 9: rounding can only delay the stop
        delta = model.chained(delta)  # the refinement `Chain` bounds the same more tightly; docs/samples.md
        if delta <= problem.settings.tolerance:  # Line 10
            return Decision(Reason.STOP, uncertainty=delta, memory=model.memory)  # Line 11: Learner.plan is Line 17

        lower = model.lower_bounds(delta)  # on V_c of the candidate (Lemma 3)
        alpha = candidate_share(lower, thresholds, margins)  # Line 13
        mixed = alpha * lower + (1.0 - alpha) * (thresholds + margins)
        if not (mixed >= thresholds - ROUNDING).all():  # the last check before deployment; it also catches NaN
            return Decision(Reason.BASELINE, memory=model.forgotten)
        return mixture_of(delta, alpha, model.memory, problem.simulator.num_actions)

    def recheck(self, recorded: Recorded, evidence: Evidence, now: Decision) -> Floats:
        """Return the bounds of the recorded candidate, evaluated on the model with a recomputed Delta (Lemma 3).

        The planner may break a tie differently on another machine, so the recorded policies need not be those of `now`; they
        only need to be certified.

        Args:
            recorded: the candidate and its claims, from the record.
            evidence: all episodes counted before the candidate was handed out.
            now: this method's decision on that evidence, computed again.

        Returns:
            [K] lower bounds on V_c of the candidate.

        Raises:
            InvalidInput: the data did not allow a mixture, or the recorded Delta is missing or below the recomputed one.
        """
        if now.reason is Reason.BASELINE or recorded.uncertainty == np.inf:
            raise InvalidInput(f"the data did not allow a mixture here: the answer was {now.reason.name}")
        if recorded.uncertainty < now.uncertainty - ROUNDING:
            raise InvalidInput(f"the uncertainty is {now.uncertainty:.12g} on these data, not {recorded.uncertainty:.12g}")
        # A Delta that claims less than could be claimed is as good: it bounds the same thing.
        return evidence.lower_bounds(recorded.candidate, now.uncertainty)


@dataclass(frozen=True, slots=True)
class RewardFree(SimToReal):
    """Algorithm 2: the lines of Algorithm 1 on a model in which no row is ever cleared, so its Line 3 is left out.

    The paper's version stops at tau / 2; here it stops at `Settings.tolerance`, as Algorithm 1 does.
    """

    name: ClassVar[str] = "reward-free safe RL"
    reuses_simulator: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Unconstrained(SimToReal):
    """Algorithm 3: the lines of Algorithm 1 without constraints, so its Lines 5, 6 and 13 are void. Compare with it only.

    The paper's version stops at tau / 2; here it stops at `Settings.tolerance`, as Algorithm 1 does.
    """

    name: ClassVar[str] = "unconstrained sim-to-real RL"
    keeps_safe: ClassVar[bool] = False

    @property
    def can_be_rechecked(self) -> bool:
        """Never: it certifies no deployment."""
        return False


# The functions of the lines, which compiled rounds call too, and the memory from which the next round continues.


class Memory(NamedTuple):
    """The candidate of the last round, from which the next search starts."""

    candidate: rounds.Candidate
    warm: int  # how many of its policies to start from


class HybridRound:
    """The hybrid model as it is in one round, and the candidate that is found on it.

    Its methods are called in the order of the lines. They call what compiled rounds call, so that both give the same bits.
    """

    def __init__(self, problem: Problem, evidence: Evidence, memory: Any) -> None:
        """Read the evidence; it must not change until the round is decided.

        Args:
            problem: the fixed inputs and assumptions.
            evidence: the data so far.
            memory: the `Memory` of an earlier round, which stays as it is, or anything else for none.
        """
        self.terms = terms_of(problem, evidence.kept)
        self.memory = copy_of(memory) if isinstance(memory, Memory) else empty_memory(problem, evidence.kept)
        self._sets, self._bonus = evidence.row_sets, evidence.belief.bonus

    @property
    def forgotten(self) -> Memory:
        """The memory, but the next search starts from nothing."""
        return self.memory._replace(warm=0)

    def baseline_values(self) -> Floats:
        """[K] V_c of the baseline on the hybrid model."""
        values: Floats = self.memory.candidate.baseline_values
        rounds.baseline_values(self._sets.rows, self.terms, values)
        return values

    def most_uncertain(self) -> float | None:
        """Find the candidate, the policy of the largest bonus that is feasible on the model.

        Returns:
            An upper bound on the bonus of EVERY feasible policy; None where none is feasible.
        """
        memory, terms = self.memory, self.terms
        status, bound, used = rounds.most_uncertain(self._sets.rows, terms, self._bonus, memory.warm, memory.candidate)
        if status == INFEASIBLE:
            return None
        self.memory = memory._replace(warm=int(used))
        return float(bound)

    def chained(self, delta: float) -> float:
        """Return the smaller of `delta` and the bound by a chain of divergences, where it is used and could end the run."""
        candidate, terms = self.memory.candidate, self.terms
        if not terms.chained or delta <= terms.tolerance:
            return delta
        used = np.int64(self.memory.warm)
        return min(delta, float(rounds.chained_uncertainty(self._sets, terms, candidate, used)))

    def lower_bounds(self, delta: float) -> Floats:
        """[K] lower bounds on the candidate's V_c on the real system, where feasible policies are off by at most `delta`."""
        lower: Floats = self.memory.candidate.lower
        rounds.lower_bounds(self._sets, self.terms, self.memory.candidate, self.memory.warm, delta)
        return lower


def spans_of(problem: Problem) -> Floats:
    """Return the factor of a row's distance in the bonus of each step: [H], or [1] if it is the same at every step.

    The factor is the number of steps that follow, H - 1 - h, or the paper's H. With `counts_end` the last step
    has no action, so its factor is 0: its rows are never visited, and a positive bonus there would never shrink.
    """
    model = problem.simulator
    left: Floats = model.horizon - 1.0 - np.arange(model.horizon, dtype=np.float64)
    if problem.settings.span_bonus:
        return left
    return np.where(left > 0.0, float(model.horizon), 0.0) if model.counts_end else np.full(1, float(model.horizon))


@lru_cache(maxsize=8)
def terms_of(problem: Problem, kept: int) -> rounds.Terms:
    """Return the constants of all rounds for compiled code; the first `kept` constraints must be satisfied."""
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
    """Return the decision of compiled rounds, with the policies that they left in `memory`."""
    if reason != Reason.MIXTURE.value:
        return Decision(Reason(reason), uncertainty=uncertainty, memory=memory)
    return mixture_of(uncertainty, alpha, memory, num_actions)


def mixture_of(uncertainty: float, alpha: float, memory: Memory, num_actions: int) -> Decision:
    """Return the decision to deploy the candidate in `memory` with share `alpha`; the rest is the baseline's."""
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
