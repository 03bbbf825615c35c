"""The worst a policy can do on any system that the data allow: exact minima over the rectangular TV balls.

Problem: min over all kernels P with TV(P_h(. | s, a), model row) <= gap(row), every P a distribution on its support, of V_f
of a policy. Algorithm: backward induction; in each row the mass `gap` moves from the successors of the highest value to the
lowest one that can be reached, which is the exact minimum of a linear function over a TV ball in the simplex. The real
kernel is one of those minimised over (if the radius holds), so the minimum is a lower bound on the real value, far tighter
than the value on the model minus a bonus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from safe2real._compiled import worst_rows
from safe2real._compiled.rows import Reach, Rows, Sets
from safe2real._compiled.team import Team
from safe2real._compiled.transitions import longest_of
from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy, Mixture, Policy
from safe2real.model.validation import Floats, Indices, bare, frozen
from safe2real.planning.threads import threads_for


class RowSets:
    """A model and where the real rows lie around it: reality at its worst and at its best."""

    def __init__(
        self, model: CMDP, gaps: Floats, reach: Reach, divergences: Floats | None = None, *, threads: int | None = None
    ) -> None:
        """`gaps` [R] are TV distances, `divergences` [R] bound KL(model row, real row) where they are not inf.

        `threads` threads share the states; None chooses their number, which changes no result.
        """
        self.model, self.gaps, self.reach = model, gaps, reach
        self.threads = threads_for(model.kernel, model.horizon, threads)
        self.divergences = np.full(gaps.shape, np.inf) if divergences is None else divergences
        self.arrays = Sets(model.kernel.compiled_rows, reach, gaps, self.divergences)
        self._longest = longest_of(model.kernel.compiled_rows)

    def worst(self, policy: Policy, utility: Floats) -> float:
        """The minimum of V_f, f = `utility` [1 or H, S, A], over the kernels of the sets.

        For a mixture the sum of its parts' minima is returned, which is a lower bound on the minimum, because the parts may
        be met by different kernels.
        """
        if isinstance(policy, Mixture):
            parts = zip(policy.weights, policy.policies, strict=True)
            return float(sum(weight * self.worst(part, utility) for weight, part in parts))
        return self.follow(policy, utility, np.empty((2, self.model.num_states)))

    def follow(self, policy: MarkovPolicy, utility: Floats, values: Floats) -> float:
        """Return the least value of one Markov policy; write the worst values of all steps into `values` [H + 1, S].

        With `values` [2, S] only those of the first step are kept.
        """
        fixed = np.empty((0, 0), dtype=np.uint32) if policy.actions is None else bare(policy.actions)
        table = np.empty((0, 0, 0)) if policy.table is None else bare(policy.table)
        given = self.arrays, bare(utility), table, fixed, self.model.compiled_arrays.start, values
        return float(worst_rows.follow(*given, self.threads))

    def least(self, team: Team, h: int, values: Floats) -> Floats:
        """The least expectation [S, A] of every row of step h, of the `values` [S] one step later."""
        return _least(self.arrays, team, h, values, self.model, self._longest, worst_rows.EVERY_ROW)

    def cheapest(self, cost: Floats, values: Floats) -> Indices:
        """The policy [H, S] of the least expected sum of `cost` [1 or H, S, A] over policies and kernels.

        The cost from every step and state on goes into `values` [H + 1, S]; each is a lower bound.
        """
        H, S, _ = self.model.shape
        actions = np.empty((H, S), dtype=np.uint32)
        values[H] = 0.0
        with Team(self.threads, S) as team:
            for h in range(H - 1, -1, -1):
                total = cost[h if len(cost) > 1 else 0] + self.least(team, h, values[h + 1])
                actions[h] = total.argmin(axis=1)
                values[h] = total.min(axis=1)
        return actions

    def worst_constraints(self, policy: Policy) -> Floats:
        """[K] the worst value of every constraint."""
        return np.array([self.worst(policy, utility) for utility in self.model.compiled_arrays.utilities])

    def best(self, utility: Floats) -> float:
        """The maximum of V_f, f = `utility` [1 or H, S, A], over all policies and all kernels of the sets."""
        values = np.empty((self.model.horizon + 1, self.model.num_states))
        self.cheapest(-utility, values)
        return -summed(self.model.compiled_arrays.start, values[0])


def summed(weights: Floats, values: Floats) -> float:
    """Sum weights[s] * values[s] sequentially, as compiled code does, because BLAS rounding depends on the processor."""
    return float(np.add.accumulate(weights * values)[-1])


def greedy(balls: RowSets, reward_balls: RowSets, reward: Floats, prices: Floats) -> tuple[Indices, Floats]:
    """The policy [H, S] that is greedy for prices[0] L_r + sum_k prices[1 + k] L_ck, and its worst values [1 + K].

    Every L is carried under its own worst kernel: that of the `reward` [1 or H, S, A] over `reward_balls`, those of the
    constraints over `balls`. Whatever was chosen, the numbers are the policy's own worst values.
    """
    model, states = balls.model, np.arange(balls.model.num_states)
    H, S, _ = model.shape
    tables = [(reward_balls, bare(reward)), *((balls, utility) for utility in model.compiled_arrays.utilities)]
    values, actions = np.zeros((len(tables), S)), np.empty((H, S), dtype=np.uint32)
    with Team(balls.threads, S) as team:
        for h in range(H - 1, -1, -1):
            worth = [
                table[h if len(table) > 1 else 0] + over.least(team, h, later)
                for (over, table), later in zip(tables, values, strict=True)
            ]
            total = prices[0] * worth[0]
            for price, one in zip(prices[1:], worth[1:], strict=True):
                total = total + price * one
            actions[h] = chosen = total.argmax(axis=1)
            values = np.stack([one[states, chosen] for one in worth])
    return actions, np.array([summed(model.compiled_arrays.start, line) for line in values])


def add_open(balls: RowSets, guess: Rows, values: Floats, visits: Floats, weight: float, out: Floats) -> None:
    """Add to `out` [R], for every row, `weight` times its visits times what its set leaves open about `values` [H + 1, S].

    `visits` [H, S, A] are expected on the rows `guess`; the open part of a step is the distance between the guess's
    expectation and the least over the row's set.
    """
    model, sets, nothing = balls.model, balls.arrays, np.empty(0, dtype=np.uint32)
    exact = Sets(guess, Reach(nothing, nothing, nothing), np.zeros_like(sets.gap), np.full_like(sets.gap, np.inf))
    shape, longest = model.kernel.shape, max(longest_of(guess), longest_of(sets.rows))
    stakes, is_open = out.reshape(shape), (sets.gap > 0.0).reshape(shape)
    with Team(balls.threads, model.num_states) as team:
        for h in range(model.horizon):
            guessed, least = (_least(one, team, h, values[h + 1], model, longest, visits[h]) for one in (exact, sets))
            step = ... if model.kernel.is_stationary else h
            stakes[step] += np.where(is_open[step], weight * visits[h] * np.abs(guessed - least), 0.0)


def _least(sets: Sets, team: Team, h: int, values: Floats, model: CMDP, longest: int, shares: Floats) -> Floats:
    """[S, A] the least expectation of the rows of step h; 0 where `shares` [S, A] are 0, if there are any."""
    _, S, A = model.shape
    out = np.zeros(S * A)
    first = 0 if model.kernel.is_stationary else h * S * A
    team.share(worst_rows.least_of_step, sets, first, values, worst_rows.EVERY_ACTION, shares, A, longest, out)
    return out.reshape(S, A)


def reach_of(support: Kernel | None, simulator: Kernel) -> Reach:
    if support is None:
        nothing = np.empty(0, dtype=np.uint32)
        return Reach(nothing, nothing, nothing)
    if isinstance(support, np.ndarray):
        raise InvalidInput("support is an array; give Kernel.uniform_over(array), of booleans (S, A, S) or (H, S, A, S)")
    shapes = [(k.horizon, k.num_states, k.num_actions) if isinstance(k, Kernel) else None for k in (support, simulator)]
    if shapes[0] != shapes[1]:
        raise InvalidInput(
            f"support is for (H, S, A) = {shapes[0]} and the simulator for {shapes[1]}; give a kernel of the "
            "simulator's shape whose successors are the possible ones"
        )
    return Reach(*support.compiled_rows[:3])


# What any safe policy could earn on any system that the data allow: an upper bound, and the policy that attains it.
#
# Problem: min over lambda >= 0 of D(lambda) = max over policies and kernels of the sets of V of r + sum_k lambda_k c_k,
# minus sum_k lambda_k threshold_k. Every D(lambda) is an upper bound on V_r of every policy that meets the thresholds in
# reality, if the real rows lie in their sets (weak duality), so a search that ends early costs accuracy and nothing else.
# Algorithm: D is convex; in one coordinate after the other the lines through its neighbours bound it from below around the
# smallest point, and the next point is where they cross. Stopping rule: the bound from below is near, or the evaluations
# are used up.

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
    values = np.empty((model.horizon + 1, model.num_states))
    actions = balls.cheapest(-utility, values)
    return MarkovPolicy(*model.shape, frozen(actions), None), -values


def worst_values(balls: RowSets, policy: MarkovPolicy, utility: Floats) -> Floats:
    """Lower bounds [H + 1, S] on the real values of a policy from every step and state on; utility [1 or H, S, A]."""
    values = np.empty((balls.model.horizon + 1, balls.model.num_states))
    balls.follow(policy, utility, values)
    return values
