"""The optimum under at most one constraint: walk along the dual function to where two of its lines cross.

A deterministic policy is a line (one constraint) or a plane (several) under the dual function
    D(l) = max over policies of  V_reward + l . (V_constraints - thresholds),      l >= 0,
which is convex and piecewise linear, and D(l) is an upper bound on the constrained optimum for every l >= 0 (weak duality).
A solution is accepted only because a feasible mixture's value meets such a bound, never because a search has stalled.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled import outcomes
from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.rows import Instance, Rows
from safe2real._compiled.sweeps import sweep, sweep_lexicographic, sweep_pair
from safe2real._compiled.transitions import layout

# Two policies whose constraint values differ by less than this do not define a multiplier.
NARROWEST_BRACKET = 1e-9
# How far from the multiplier of a warm start the first one to try lies, relatively, if its policies are all on one side.
FIRST_REACH = 0.02


@compiled
def solve(
    begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """K <= 1. With one constraint walk along the dual function, which is convex and piecewise linear in one multiplier.

    Keep one policy that meets the threshold (its line rises) and one that misses it (its line falls). Their lines cross at
    a multiplier; a sweep there either shows that the crossing lies on the dual function, and then the mixture of the two
    that meets the threshold exactly is optimal, or finds a policy above the crossing, which replaces one of the two.

    While only one of the two is known, multipliers further and further from a guess are tried, and at last 0 or infinity.

    `actions` [3, H, S]: the first `warm` slots hold policies to start from, and `multipliers` the multiplier that went with
    them. Returns (status, bound, shortfall, sweeps). Bare arrays, because numba recognises them several times faster than
    a tuple when it is called from Python.
    """
    S, A = reward.shape[1], reward.shape[2]
    rows = Rows(begin, length, successor, probability)
    uniform, packed = layout(rows, S * A)
    instance = Instance(rows, start, reward, utilities, thresholds, H, uniform, packed)
    if thresholds.size == 0:
        bound = sweep(instance, reward, actions[0], np.empty((2, S)))
        lines[0, 0] = bound
        weights[:] = 0.0
        weights[0] = 1.0
        return outcomes.OPTIMAL, bound, 0.0, 1
    threshold, safety = thresholds[0], utilities[0]
    slack = outcomes.FEASIBILITY_TOLERANCE * max(1.0, H)
    parts, q = np.empty((2, 2, S)), np.empty((2, A))
    safe, unsafe, spare = np.int64(-1), np.int64(-1), 0  # of a type that does not say which number
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], parts)
        if lines[slot, 1] >= threshold - slack:
            safe = slot
        else:
            unsafe = slot
    if safe >= 0 and unsafe >= 0 and lines[safe, 1] - lines[unsafe, 1] < NARROWEST_BRACKET:
        safe, unsafe = -1, -1
    started_warm = safe >= 0 or unsafe >= 0
    guess, reach = multipliers[0], FIRST_REACH
    if not started_warm or not 0.0 < guess < np.inf:
        guess, reach = first_guess(reward, safety)
    bound = np.inf
    best_multiplier = 0.0
    sweeps = 0
    status = outcomes.INACCURATE
    while sweeps < outcomes.MAX_SWEEPS:
        spare = 0
        while spare == safe or spare == unsafe:
            spare += 1
        crossing = np.inf
        multiplier = 0.0
        if safe >= 0 and unsafe >= 0:
            rise = lines[safe, 1] - lines[unsafe, 1]
            multiplier = max(0.0, (lines[unsafe, 0] - lines[safe, 0]) / rise)
            crossing = max(
                lines[safe, 0] + multiplier * (lines[safe, 1] - threshold),
                lines[unsafe, 0] + multiplier * (lines[unsafe, 1] - threshold),
            )
        elif unsafe >= 0:
            multiplier = guess * (1.0 + reach) if reach <= 1.0 else np.inf
            reach *= 4.0
        elif safe >= 0:
            multiplier = guess * (1.0 - min(1.0, reach))
            reach *= 4.0
        if multiplier == np.inf:
            sweep_pair(instance, np.inf, actions[spare], lines[spare], parts, q)
            sweeps += 1
            safest = lines[spare, 1]
            if safest < threshold - slack:
                weights[:] = 0.0
                weights[spare] = 1.0
                multipliers[0] = np.inf
                return outcomes.INFEASIBLE, -np.inf, threshold - safest, sweeps
            if safest < threshold + NARROWEST_BRACKET:
                # Only the safest policies will do, and no finite multiplier may tell them apart by reward: of the
                # actions that are equally safe up to rounding, take the most rewarding.
                sweep_lexicographic(instance, safety, reward, 1e-15 * H, actions[spare], parts, q)
                evaluate_actions(instance, actions[spare], lines[spare], parts)
                sweeps += 1
                if lines[spare, 1] < threshold - slack:
                    sweep_pair(instance, np.inf, actions[spare], lines[spare], parts, q)
                    sweeps += 1
            safe = spare
            continue
        sweep_pair(instance, multiplier, actions[spare], lines[spare], parts, q)
        peak = lines[spare, 0] + multiplier * (lines[spare, 1] - threshold)
        sweeps += 1
        ceiling = peak + outcomes.ROUNDING * (max(1.0, abs(peak)) + H * multiplier)
        if ceiling < bound:
            bound = ceiling
            best_multiplier = multiplier
        meets = lines[spare, 1] >= threshold - slack
        if multiplier == 0.0 and meets:
            # The best policy without the constraint meets it.
            weights[:] = 0.0
            weights[spare] = 1.0
            multipliers[0] = 0.0
            return outcomes.OPTIMAL, bound, 0.0, sweeps
        if safe >= 0 and unsafe >= 0:
            value = mix_pair(lines, safe, unsafe, threshold, weights)
            scale = max(1.0, abs(value))
            rounding = outcomes.ROUNDING * (scale + H * multiplier)
            if bound - value <= outcomes.TARGET_EXCESS * scale or peak <= crossing + rounding:
                if bound - value <= outcomes.ACCEPTED_EXCESS * scale:
                    status = outcomes.OPTIMAL
                    break
                if started_warm:
                    # A poor start; forget it and begin again.
                    safe, unsafe, started_warm = -1, -1, False
                    guess, reach = first_guess(reward, safety)
                    bound = np.inf
                    continue
                break
        if meets:
            safe = spare
        else:
            unsafe = spare
    mix_pair(lines, safe, unsafe, threshold, weights)
    multipliers[0] = best_multiplier
    return status, bound, 0.0, sweeps


@inner
def first_guess(reward, safety):
    """(guess, reach) without a warm start: the first multiplier after 0, guess * (1 + reach), makes the whole range of the
    utility worth that of the reward, which is nearer to most solutions than infinity; the next one is infinity.
    """
    rate = extent(reward) / max(extent(safety), 1e-300)
    return 0.5 * rate, 1.0 if 0.0 < rate < 1e100 else np.inf


@inner
def extent(x):
    """Largest minus smallest entry of x [1 or H, S, A]."""
    low, high = x[0, 0, 0], x[0, 0, 0]
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            for a in range(x.shape[2]):
                low = min(low, x[h, s, a])
                high = max(high, x[h, s, a])
    return high - low


@inner
def mix_pair(lines, safe, unsafe, threshold, weights):
    """Weights of the best mixture of a safe and an unsafe policy that meets the threshold; returns its value."""
    weights[:] = 0.0
    if safe < 0 or unsafe < 0:
        weights[max(safe, unsafe)] = 1.0
        return lines[max(safe, unsafe), 0]
    share = (threshold - lines[unsafe, 1]) / (lines[safe, 1] - lines[unsafe, 1])
    # A safe policy that is also the more rewarding one needs no mixing.
    share = 1.0 if lines[safe, 0] >= lines[unsafe, 0] else min(1.0, share)
    weights[safe] = share
    weights[unsafe] = 1.0 - share
    return share * lines[safe, 0] + (1.0 - share) * lines[unsafe, 0]
