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

from safe2real.exploration.certificate import Certificate
from safe2real.model.checks import Floats
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.planning.robust import TVBalls
from safe2real.planning.solve import Solution, solve

_TRIES = 6  # tightenings tried; the right one is found in two or three


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """A policy for one reward, with what is promised about it on the real system."""

    solution: Solution | None  # on the learnt model, with tightened thresholds; None for the baseline alone
    policy: Mixture
    value: float  # lower bound on its real reward
    bound: float  # upper bound on the real reward of every feasible policy
    suboptimality: float  # at most this far from the best feasible policy
    certificate: Certificate


@dataclass(frozen=True, eq=False, slots=True)
class CertifiedPolicy:
    """A policy that is certified feasible on the real system."""

    solution: Solution | None  # None for the baseline alone
    policy: Mixture
    value: float  # worst reward over the balls
    lower_bounds: Floats  # [K] on V_c


def best_certified(
    balls: TVBalls, reward: Floats, *, baseline: MarkovPolicy, margins: Floats, tolerance: float
) -> tuple[CertifiedPolicy, float]:
    """(the policy with the best worst-case reward among those tried, upper bound on the best feasible reward).

    Thresholds are tightened on the model until the solution's worst V_c reaches them in reality: first not at all, then by
    the paper's tolerance, then by what was missing. Whatever is still missing is paid for by mixing with the baseline.
    """
    model = balls.model
    thresholds, horizon = model.thresholds, float(model.horizon)
    trusted = thresholds + margins
    baseline_value = balls.worst(baseline, reward)
    objective = reward[0] if len(reward) == 1 else reward  # [S, A] where it does not change with the step
    optimum = solve(model, objective)
    tightening = np.zeros(thresholds.shape)
    missing = np.full(thresholds.shape, tolerance)
    best: CertifiedPolicy | None = None
    solution = optimum
    for _ in range(_TRIES):
        if solution.is_feasible:
            lower = balls.worst_constraints(solution.policy)
            excess = np.maximum(0.0, thresholds - lower)
            share = float(np.min(margins / (margins + excess), initial=1.0))
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
    largest = horizon / float(margins.min(initial=horizon)) + 1.0
    multipliers = optimum.multipliers if optimum.is_feasible else np.zeros(thresholds.shape)
    upper = min(horizon, balls.best_feasible(reward, multipliers, largest))
    return best, upper
