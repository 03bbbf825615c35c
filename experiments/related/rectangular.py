"""The best plan when nature may choose every row from a set: constrained plans over policies AND kernels.

Problem: maximise V_r over policies and kernels subject to V_c >= threshold, every row of the kernel from a set of its own,
a box |p - p_hat| <= beta for each successor or a TV ball. It is the program of optimistic methods (OptPess, DOPE), which
state it as a linear program in q(h, s, a, s'); `extended_program` has that one. Algorithm: none of it is needed. Such a
system is a CMDP whose actions are pairs of an action and a vertex of the row's set, so its Lagrangian dual costs one
backward induction, in which every row takes the vertex that suits the weighted sum best: mass goes greedily to the states
in the order of their worth. The search is that of `solve`: for one constraint from crossing to crossing of two lines under
the dual, for several column generation. Stopping rule: a feasible mixture's value meets a dual bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.related import rectangular_kernels as rectangular
from safe2real._compiled import codes, column_generation
from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats, Indices, finite_floats, frozen
from safe2real.planning.evaluate import checked_utility
from safe2real.planning.solve import Solution, Status

_NEAR = 0.02  # how far from the prices of a warm start the first ones to try lie, relatively

HalfWidth = Callable[[Floats, NDArray[np.int64]], Floats]
"""(estimated probabilities [n], rows [n] in which they stand) -> how far each real one may be from its estimate [n]."""


@dataclass(frozen=True, eq=False, slots=True)
class KernelSet:
    """All kernels whose rows lie in the sets around the rows of a model; make one with `boxes` or `balls`."""

    model: CMDP
    around: rectangular.Around


def boxes(model: CMDP, half_width: HalfWidth) -> KernelSet:
    """Every probability within `half_width` of the model's, successors that the model does not have included.

    Args:
        model: whose rows are the estimates.
        half_width: a function of the estimate and its row, asked for 0 too: what a successor that was not seen may have.

    Raises:
        InvalidInput: a half width is negative or no number.
    """
    begin, length, successor, probability = model.kernel.compiled_rows
    every, states = np.arange(length.size), model.num_states
    rows = np.repeat(every, length)
    within = np.arange(rows.size) - np.repeat(np.cumsum(length, dtype=np.int64) - length, length)
    stored = np.repeat(begin.astype(np.int64), length) + within  # places in the store, which may hold other rows too
    low, high = np.zeros(successor.size), np.zeros(successor.size)
    wide = _checked(half_width(probability[stored], rows))
    low[stored] = np.clip(probability[stored] - wide, 0.0, 1.0)
    high[stored] = np.clip(probability[stored] + wide, 0.0, 1.0)
    rest = np.minimum(1.0, _checked(half_width(np.where(length == 0, 1.0 / states, 0.0), every)))
    return KernelSet(model, rectangular.Around(model.kernel.compiled_rows, low, high, rest, np.empty(0)))


def balls(model: CMDP, gaps: ArrayLike) -> KernelSet:
    """Every row within TV distance `gaps` ([S, A], or [H, S, A] for rows that change with the step) of the model's."""
    given, expected = finite_floats("gaps", gaps), model.kernel.shape
    if given.shape != expected or (given < 0.0).any():
        raise InvalidInput(f"gaps have shape {given.shape}; give TV distances of at least 0 of shape {expected}")
    nothing = np.empty(0)
    return KernelSet(model, rectangular.Around(model.kernel.compiled_rows, nothing, nothing, nothing, given.reshape(-1)))


def _checked(wide: Floats) -> Floats:
    if not (wide >= 0.0).all():
        raise InvalidInput(f"a half width is {wide[~(wide >= 0.0)][0]}; give numbers of at least 0")
    return np.asarray(wide, dtype=np.float64)


@dataclass(slots=True)
class _Columns:
    """Policies with what they are worth under the kernels that suit the prices best."""

    sets: KernelSet
    reward: Floats  # [1 or H, S, A]
    actions: list[Indices] = field(default_factory=list)  # [H, S] each
    lines: list[Floats] = field(default_factory=list)  # [1 + K] each

    def price(self, prices: Floats) -> Floats:
        """One backward induction at `prices` [1 + K]; the policy and its line are kept, and the line is given."""
        model = self.sets.model
        actions = np.empty((model.horizon, model.num_states), dtype=np.uint32)
        line = np.empty(1 + model.num_constraints)
        start, utilities, _ = model.compiled_arrays
        rectangular.sweep(self.sets.around, self.reward, utilities, prices, start, actions, line)
        self.actions.append(actions)
        self.lines.append(line)
        return line


def solve_optimistic(sets: KernelSet, reward: ArrayLike, *, warm: Solution | None = None) -> Solution:
    """The optimum of `reward` ([S, A] or [H, S, A], any finite numbers) over policies and kernels of `sets`.

    Guarantee: if the real rows lie in their sets, no policy that meets the constraints in reality is worth more than
    `bound` there. `value` and `constraint_values` are those of the mixture's policies under the kernels that suit them
    best: neither says anything about what a policy does in reality. Utilities of the model may be any finite numbers here
    (`priced`), so that a pessimistic constraint is a utility minus a bonus.

    Args:
        sets: from `boxes` or `balls`.
        reward: any finite numbers.
        warm: the solution of a similar problem, whose prices are tried first; it costs or saves time only.

    Returns:
        As from `solve`; INFEASIBLE when no policy meets the thresholds on any kernel of the sets.

    References:
        Efroni, Mannor, Pirotta 2020 (the extended program); Bura et al., NeurIPS 2022 (DOPE).
    """
    model = sets.model
    found = _Columns(sets, checked_utility(model, reward, "reward"))
    count = model.num_constraints
    largest = float(np.abs(model.compiled_arrays.utilities).max(initial=1.0))
    slack = codes.FEASIBILITY_TOLERANCE * max(1.0, model.horizon * largest)
    alone = np.concatenate([[1.0], np.zeros(count)])
    bound = float(found.price(alone)[0])
    if (found.lines[0][1:] >= model.compiled_arrays.thresholds - slack).all():
        return _solution(found, np.ones(1), Status.OPTIMAL, bound, np.zeros(count), 0.0)
    if warm is not None and warm.multipliers.size == count and np.isfinite(warm.multipliers).all():
        for factor in (1.0 + _NEAR, 1.0 - _NEAR):
            found.price(np.concatenate([[1.0], factor * warm.multipliers]))
    if count == 1:
        return _between_two(found, float(model.compiled_arrays.thresholds[0]), slack, bound)
    weights, shortfall = _least_shortfall(found, model.compiled_arrays.thresholds, slack)
    if shortfall > slack:
        return _solution(found, weights, Status.INFEASIBLE, -np.inf, np.full(count, np.inf), shortfall)
    return _best(found, weights, model.compiled_arrays.thresholds - max(0.0, shortfall), bound)


def _between_two(found: _Columns, threshold: float, slack: float, bound: float) -> Solution:
    """One constraint: between a policy that meets the threshold and one that misses it, the last of each.

    Values may differ by many orders here, since a bonus may: no tolerance is absolute but that of the threshold itself.
    """
    horizon, multiplier, status = found.sets.model.horizon, 0.0, Status.INACCURATE
    safe, unsafe = -1, -1
    for j, line in enumerate(found.lines):
        safe, unsafe = (j, unsafe) if line[1] >= threshold - slack else (safe, j)
    if safe < 0:
        line = found.price(np.array([0.0, 1.0]))
        safe = len(found.lines) - 1
        if line[1] < threshold - slack:
            alone = np.eye(len(found.lines))[safe]
            return _solution(found, alone, Status.INFEASIBLE, -np.inf, np.full(1, np.inf), threshold - float(line[1]))
    while True:
        above, below = found.lines[safe], found.lines[unsafe]
        rise = max(float(above[1] - below[1]), np.finfo(float).tiny)
        share = 1.0 if above[0] >= below[0] else min(1.0, float(threshold - below[1]) / rise)
        value = share * float(above[0]) + (1.0 - share) * float(below[0])
        scale = max(1.0, abs(value))
        if bound - value <= codes.TARGET_EXCESS * scale or len(found.lines) >= codes.MAX_SWEEPS:
            break
        price = max(0.0, float(below[0] - above[0]) / rise)
        crossing = max(float(line[0] + price * (line[1] - threshold)) for line in (above, below))
        line = found.price(np.array([1.0, price]))
        peak = float(line[0] + price * (line[1] - threshold))
        rounding = codes.ROUNDING * (max(1.0, abs(peak)) + horizon * price)
        if peak + rounding < bound:
            bound, multiplier = peak + rounding, price
        if peak <= crossing + rounding:
            break
        safe, unsafe = (len(found.lines) - 1, unsafe) if line[1] >= threshold - slack else (safe, len(found.lines) - 1)
    weights = np.zeros(len(found.lines))
    weights[safe], weights[unsafe] = share, 1.0 - share
    if bound - value <= codes.ACCEPTED_EXCESS * scale:
        status = Status.OPTIMAL
    return _solution(found, weights, status, bound, np.array([multiplier]), 0.0)


def _least_shortfall(found: _Columns, thresholds: Floats, slack: float) -> tuple[Floats, float]:
    """(weights [C] of a mixture whose largest miss is as small as any, that miss; it ends early when nothing is missed).

    Beside the columns stands one that exceeds every threshold by `far` and costs 1, while the others cost nothing: its
    share t leaves a miss of far t / (1 - t), so that the least share is the least miss.
    """
    far = 1.0 + float(max((thresholds - line[1:]).max() for line in found.lines))
    aside = np.concatenate([[-1.0], thresholds + far])
    while True:
        lines = np.array([aside, *([0.0, *line[1:]] for line in found.lines)])
        shares, dual = _mixed(lines, thresholds)
        kept = shares[1:] / shares[1:].sum() if shares[1:].sum() > 0.0 else np.eye(len(lines) - 1)[0]
        miss = float((thresholds - kept @ lines[1:, 1:]).max())
        if miss <= slack or len(found.lines) >= codes.MAX_SWEEPS:
            return kept, miss
        prices = np.maximum(-dual[:-1], 0.0)
        line = found.price(np.concatenate([[0.0], prices]))
        if float(prices @ (line[1:] - thresholds)) <= dual[-1] + slack * max(1.0, float(prices.sum())):
            return np.append(kept, 0.0), miss


def _best(found: _Columns, feasible: Floats, limits: Floats, bound: float) -> Solution:
    """The best mixture, from one that meets `limits` [K] and has the weights `feasible` [C]."""
    horizon, begun = found.sets.model.horizon, feasible.size
    base = feasible @ np.array(found.lines[:begun])
    multipliers, value, previous = np.zeros(limits.size), -np.inf, np.empty(0)
    while True:
        lines = np.array([base, *found.lines])
        shares, dual = _mixed(lines, limits)
        prices = np.maximum(-dual[:-1], 0.0)
        value = float(shares @ lines[:, 0])
        scale, rounding = max(1.0, abs(value)), horizon * float(prices.sum())
        ended = bound - value <= codes.TARGET_EXCESS * scale or np.array_equal(dual, previous)
        if ended or len(found.lines) >= codes.MAX_SWEEPS:
            break
        previous = dual
        line = found.price(np.concatenate([[1.0], prices]))
        peak = float(line[0] + prices @ (line[1:] - limits))
        ceiling = peak + codes.ROUNDING * (max(1.0, abs(peak)) + rounding)
        if ceiling < bound:
            bound, multipliers = ceiling, prices
        if peak - value <= codes.ROUNDING * (scale + rounding):
            break
    weights = np.zeros(len(found.lines))
    weights[: shares.size - 1] = shares[1:]
    weights[:begun] += shares[0] * feasible
    status = Status.OPTIMAL if bound - value <= codes.ACCEPTED_EXCESS * scale else Status.INACCURATE
    return _solution(found, weights, status, bound, multipliers, 0.0)


def _mixed(lines: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
    """(weights [C], dual [K + 1]) of the best mixture of `lines` [C, 1 + K], the first of which meets every threshold."""
    weights, dual = np.zeros(len(lines)), np.zeros(thresholds.size + 1)
    scale = np.maximum(1.0, np.abs(lines[:, 1:] - thresholds).max(axis=0))  # [K]; the simplex's tolerances are absolute
    small = np.hstack([lines[:, :1], (lines[:, 1:] - thresholds) / scale])
    column_generation.best_mixture(small, np.zeros(thresholds.size), weights, dual)
    dual[:-1] /= scale
    return weights, dual


def _solution(
    found: _Columns, weights: Floats, status: Status, bound: float, multipliers: Floats, shortfall: float
) -> Solution:
    horizon, states, actions = found.sets.model.shape
    used = [j for j, weight in enumerate(weights) if weight > 0.0]
    parts = tuple(MarkovPolicy(horizon, states, actions, frozen(found.actions[j]), None) for j in used)
    totals = frozen(weights @ np.array(found.lines[: weights.size]))
    share = frozen(weights[used] / weights[used].sum())
    return Solution(
        status,
        Mixture(share, parts),
        float(totals[0]),
        bound,
        totals[1:],
        multipliers=frozen(multipliers),
        shortfall=shortfall,
        sweeps=len(found.lines),
        wordings=found.sets.model.wordings,
    )


def priced(model: CMDP, utilities: ArrayLike, thresholds: ArrayLike | None = None) -> CMDP:
    """The model with other constraints to PLAN with: `utilities` ([K, S, A] or [K, H, S, A]) may be any finite numbers."""
    given = finite_floats("utilities", utilities)
    given = given[:, None] if given.ndim == 3 else given
    horizon, states, actions = model.shape
    count = model.num_constraints
    limits = model.compiled_arrays.thresholds if thresholds is None else finite_floats("thresholds", thresholds)
    fits = given.shape in ((count, 1, states, actions), (count, horizon, states, actions)) and limits.shape == (count,)
    if not fits:
        raise InvalidInput(
            f"utilities have shape {given.shape} and thresholds {limits.shape}; give one of each for each of {count} "
            f"constraints, utilities as [K, S, A] or [K, H, S, A] = [{count}, {horizon}, {states}, {actions}]"
        )
    return replace(model, compiled_arrays=model.compiled_arrays._replace(utilities=given, thresholds=limits))
