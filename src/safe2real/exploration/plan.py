"""A policy for one reward, now: certified feasible, with a computed bound on what it may miss.

At any round the data allow every kernel within the TV balls. Feasible: a policy is certified when its worst V_c over those
kernels reaches the threshold; one that does not is mixed with the baseline, whose margin pays for the rest, and the
baseline alone is always allowed. Good: its worst reward over those kernels is a lower bound on what it earns, and
Lagrangian duality over the optimistic kernels is an upper bound on what any feasible policy earns. The difference bounds
the suboptimality; both sides close in as data arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from safe2real.evidence.evidence import Evidence
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.certify import certify
from safe2real.methods.mixing import candidate_share
from safe2real.model.checks import Floats, finite_floats, step_utilities
from safe2real.model.cmdp import without_steps
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.planning.optimistic import ceiling
from safe2real.planning.pessimistic import best_mixture, column_of, trusted_column
from safe2real.planning.robust import RowSets
from safe2real.planning.solve import Solution, solve
from safe2real.standing import Doubt, DoubtCode
from safe2real.theory.conditions import accuracy_of

_TRIES = 6  # tightenings tried; the right one is found in two or three


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Plan:
    """A policy for one reward, with what is promised about it on the real system."""

    solution: Solution | None  # on the learnt model, with tightened thresholds; None for the baseline alone
    policy: Mixture
    value: float  # lower bound on its real reward
    bound: float  # upper bound on the real reward of every feasible policy
    suboptimality: float  # at most this far from the best feasible policy
    certificate: Certificate

    def __repr__(self) -> str:
        worth = f"worth {self.value:.6g} or more, at most {self.suboptimality:.6g} below the best"
        return f"Plan({worth})\n  {self.certificate}\n  {str(self.policy).splitlines()[0]}"


@dataclass(frozen=True, eq=False, slots=True)
class CertifiedPolicy:
    """A policy that is certified feasible on the real system."""

    solution: Solution | None  # None for the baseline alone
    policy: Mixture
    value: float  # worst reward over the balls
    lower_bounds: Floats  # [K] on V_c


def plan(evidence: Evidence, reward: ArrayLike, *, stopped: bool) -> Plan:
    """A policy for `reward` in [0, 1], certified feasible, with a bound on what it may miss: at any round.

    A function of the evidence, which it leaves as it is. Once a run with the paper's settings has `stopped` it is pi^out:
    thresholds raised by tau (Line 17), within 2 H tau / xi + 2 tau of the best. Otherwise it is the best of several by its
    worst case (`best_certified`).

    Args:
        evidence: what the data say; with episodes that its model does not know of yet, those are taken into account.
        reward: [S] or [S, A], or [H, S, A] where it changes with the step.
        stopped: whether the method that collected the data has stopped.
    """
    rewards = checked_reward(evidence, reward)
    settings, evidence = evidence.problem.settings, evidence.settled()
    if evidence.is_refuted:
        return baseline_plan(evidence)
    if stopped and not settings.robust_safety:
        return _paper_plan(evidence, rewards)
    best, upper = best_certified(
        evidence.sets, rewards, baseline=evidence.problem.baseline, margins=evidence.margins, tolerance=settings.tolerance
    )
    return Plan(
        solution=best.solution,
        policy=best.policy,
        value=best.value,
        bound=max(upper, best.value),
        suboptimality=max(0.0, upper - best.value),
        certificate=certify(evidence, best.lower_bounds),
    )


def checked_reward(evidence: Evidence, reward: ArrayLike) -> Floats:
    """[1 or H, S, A]"""
    model = evidence.problem.simulator
    return step_utilities(
        "reward",
        finite_floats("reward", reward),
        horizon=model.horizon,
        num_states=model.num_states,
        num_actions=model.num_actions,
        unit_interval=True,
    )


def baseline_plan(evidence: Evidence) -> Plan:
    """When an assumption is refuted the sets are worth nothing; the baseline rests on its margin alone."""
    horizon = float(evidence.problem.simulator.horizon)
    return Plan(
        solution=None,
        policy=Mixture.of([1.0], [evidence.problem.baseline]),
        value=0.0,
        bound=horizon,
        suboptimality=horizon,
        certificate=certify(evidence, evidence.trusted),
    )


def _paper_plan(evidence: Evidence, rewards: Floats) -> Plan:
    model, tau = evidence.problem.simulator, evidence.problem.settings.tolerance
    horizon = model.horizon
    objective = without_steps(rewards)
    tightened = np.minimum(model.thresholds + tau, horizon)
    solution = solve(model.with_kernel(evidence.to_kernel()).with_thresholds(tightened), objective)
    margin = float(evidence.stated.min(initial=float(horizon)))
    feasible = solution.is_feasible
    text = "no policy keeps the tightened constraints on the learnt model"
    doubts = [] if feasible else [Doubt(DoubtCode.NO_FEASIBLE_PLAN, text)]
    bounded = feasible and tau <= margin / 4.0
    missed = accuracy_of(tau, horizon, margin) + max(0.0, solution.bound - solution.value) if bounded else np.inf
    value = max(0.0, solution.value - tau)
    return Plan(
        solution=solution,
        policy=solution.policy,
        value=value,
        bound=min(float(horizon), value + missed),
        suboptimality=missed,
        certificate=certify(evidence, solution.constraint_values - tau, doubts),
    )


def best_certified(
    balls: RowSets, reward: Floats, *, baseline: MarkovPolicy, margins: Floats, tolerance: float
) -> tuple[CertifiedPolicy, float]:
    """(the policy with the best worst-case reward among those tried, upper bound on the best feasible reward).

    The best certified mixture of the baseline, of every policy that `tightened` tried, and of policies found by robust
    backward induction (`planning.pessimistic`); so it is never below what tightening alone gives.
    """
    thresholds = balls.model.thresholds
    best, tried, optimum = tightened(balls, reward, baseline=baseline, margins=margins, tolerance=tolerance)
    first = trusted_column(balls, baseline, reward, thresholds + margins)
    others = {id(part): part for solution in tried for part in solution.policy.policies}
    columns = [first, *(column_of(balls, part, reward) for part in others.values())]
    multipliers = optimum.multipliers if optimum.is_feasible else np.zeros(thresholds.shape)
    found = best_mixture(balls, reward, columns, prices=multipliers)
    if found.value > best.value:
        solution = best.solution if best.solution is not None or len(found.used) == 1 else optimum
        best = CertifiedPolicy(solution, found.policy, found.value, found.lower_bounds)
    return best, ceiling(balls, reward, multipliers).value


def tightened(
    balls: RowSets, reward: Floats, *, baseline: MarkovPolicy, margins: Floats, tolerance: float
) -> tuple[CertifiedPolicy, list[Solution], Solution]:
    """(the best of the model's own solutions by its worst case, all feasible ones that were tried, the model's optimum).

    Thresholds are tightened on the model until the solution's worst V_c reaches them in reality: first not at all, then by
    the paper's tolerance, then by what was missing. Whatever is still missing is paid for by mixing with the baseline.
    """
    model = balls.model
    thresholds, horizon = model.thresholds, float(model.horizon)
    trusted = thresholds + margins
    baseline_value = balls.worst(baseline, reward)
    objective = without_steps(reward)
    optimum = solve(model, objective)
    tightening = np.zeros(thresholds.shape)
    missing = np.full(thresholds.shape, tolerance)
    best: CertifiedPolicy | None = None
    tried: list[Solution] = []
    solution = optimum
    for _ in range(_TRIES):
        if solution.is_feasible:
            tried.append(solution)
            lower = balls.worst_constraints(solution.policy)
            share = candidate_share(lower, thresholds, margins)
            value = share * balls.worst(solution.policy, reward) + (1.0 - share) * baseline_value
            if best is None or value > best.value:
                mixed = Mixture.of([*(share * solution.policy.weights), 1.0 - share], [*solution.policy.policies, baseline])
                best = CertifiedPolicy(solution, mixed, value, share * lower + (1.0 - share) * trusted)
            if tightening.any():
                missing = thresholds - lower
            if tightening.any() and (np.abs(missing) <= 1e-6).all():
                break
        tightening = np.clip(tightening + missing if solution.is_feasible else 0.5 * tightening, 0.0, horizon - thresholds)
        solution = solve(model.with_thresholds(thresholds + tightening), objective, warm=solution)
    if best is None or best.value < baseline_value:
        alone = Mixture.of([1.0], [baseline])
        best = CertifiedPolicy(None, alone, baseline_value, trusted)
    return best, tried, optimum
