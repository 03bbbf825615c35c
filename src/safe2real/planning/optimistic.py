"""What any safe policy could earn on any system that the data allow: an upper bound, and the policy that attains it.

Problem: min over lambda >= 0 of D(lambda) = max over policies and kernels of the sets of V of r + sum_k lambda_k c_k, minus
sum_k lambda_k threshold_k. Every D(lambda) is an upper bound on V_r of every policy that meets the thresholds in reality,
if the real rows lie in their sets (weak duality), so a search that ends early costs accuracy and nothing else. Algorithm: D
is convex; in one coordinate after the other the lines through its neighbours bound it from below around the smallest
point, and the next point is where they cross. Stopping rule: the bound from below is near, or the evaluations are used up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from safe2real._compiled import robust
from safe2real.model.checks import Floats, frozen
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.robust import RowSets

_EVALUATIONS = 14  # of D along one coordinate
_NEAR = 1e-3  # of the bound: as near as it is sought
_SPREAD = 4.0  # by which a bracket is widened or narrowed


@dataclass(frozen=True, eq=False, slots=True)
class Ceiling:
    """An upper bound on V_r of every policy that is feasible in reality."""

    value: float
    prices: Floats  # [K] at which it was found


def ceiling(balls: RowSets, reward: Floats, prices: Floats, *, near: float = _NEAR) -> Ceiling:
    """The smallest D that was found, from `prices` [K] on; at most the horizon."""
    model = balls.model

    def bound(weights: Floats) -> float:
        total = reward + np.tensordot(weights, model.utilities, axes=1) if weights.size else reward
        return balls.best(total) - float(weights @ model.thresholds)

    weights = np.where(np.isfinite(prices), prices, 0.0)  # a problem without a solution has no prices
    best = np.inf if weights.size else bound(weights)
    for k in list(range(weights.size)) * (1 if weights.size < 2 else 2):

        def along(value: float, k: int = k) -> float:
            moved = weights.copy()
            moved[k] = value
            return bound(moved)

        best, weights[k] = _lowest(along, float(weights[k]), near)
    return Ceiling(min(float(model.horizon), best), weights)


def _lowest(function: Callable[[float], float], guess: float, near: float) -> tuple[float, float]:
    """(the smallest value found, where) of a convex function on [0, inf), from `guess` on."""
    guess = guess if guess > 0.0 else 0.1
    points = {0.0: function(0.0), guess: function(guess)}
    for _ in range(_EVALUATIONS - 2):
        xs = np.array(sorted(points))
        ys = np.array([points[x] for x in xs])
        at = int(np.argmin(ys))
        if at == len(xs) - 1:
            following, lowest = _SPREAD * float(xs[-1]), -np.inf  # it still falls there
        else:
            following, lowest = _crossing(xs, ys, at)
        if ys[at] - lowest <= near * max(abs(float(ys[at])), 1e-6) or following in points or following > 1e6:
            break
        points[following] = function(following)
    where = min(points, key=lambda x: points[x])
    return points[where], where


def _crossing(xs: Floats, ys: Floats, at: int) -> tuple[float, float]:
    """(where to look next, a lower bound on the convex function) beside its smallest point, which is not the last."""
    slopes = np.diff(ys) / np.diff(xs)
    best = (float(xs[at]), float(ys[at]))
    for left in (at - 1, at):  # the interval from `left` to `left` + 1
        if left < 0:
            continue
        width, drop = xs[left + 1] - xs[left], ys[left + 1] - ys[left]
        before = slopes[left - 1] if left > 0 else -np.inf
        after = slopes[left + 1] if left + 1 < len(slopes) else np.inf
        if np.isfinite(before) and np.isfinite(after):
            step = float(np.clip((drop - after * width) / min(before - after, -1e-300), 0.0, width))
            low = ys[left] + before * step
        elif np.isfinite(before):
            step, low = 0.5 * width, ys[left] + before * width
        elif np.isfinite(after):
            step, low = (0.5 if left else 1.0 / _SPREAD) * width, ys[left + 1] - after * width
        else:
            step, low = width / _SPREAD, -np.inf
        if low < best[1]:
            best = (float(xs[left] + np.clip(step, 0.05 * width, 0.95 * width)), float(low))
    return best


def optimistic_policy(balls: RowSets, utility: Floats) -> tuple[MarkovPolicy, Floats]:
    """The policy that attains the best value of a utility [1 or H, S, A] over policies and kernels, with its values.

    The values [H + 1, S] are upper bounds on what ANY policy earns of the utility from a step and state on.
    """
    model = balls.model
    actions = np.empty((model.horizon, model.num_states), dtype=np.uint32)
    values = np.empty((model.horizon + 1, model.num_states))
    given = balls.arrays, -utility, model._arrays.start, model.horizon, values, actions
    balls.together(lambda team: robust.cheapest(*given, team))
    return MarkovPolicy(*model.shape, frozen(actions), None), -values


def worst_values(balls: RowSets, policy: MarkovPolicy, utility: Floats) -> Floats:
    """Lower bounds [H + 1, S] on the real values of a policy from every step and state on; utility [1 or H, S, A]."""
    values = np.empty((balls.model.horizon + 1, balls.model.num_states))
    balls.follow(policy, utility, values)
    return values


def best_values(balls: RowSets, policy: MarkovPolicy, utility: Floats) -> Floats:
    """Upper bounds [H + 1, S] on the same."""
    return -worst_values(balls, policy, -utility)
