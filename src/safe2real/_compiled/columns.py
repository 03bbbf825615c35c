"""The optimum under several constraints: column generation, with a pass over all rows as the pricing step.

A pass prices at four places: where the master program says, and on the way there from the prices of the best bound so far.
The master's own prices leap about while it knows few policies; those between are what it will say later on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import master, outcomes
from safe2real._compiled.cache import compiled, inner, released
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Array, Instance, Rows
from safe2real._compiled.sweeps import room_for, sweep_lanes
from safe2real._compiled.team import Team, alone
from safe2real._compiled.transitions import dot, layout


class Pricing(NamedTuple):
    """What a pass is asked and answers; C policies."""

    factors: Array  # [LANES, 1 + K] weight of the reward and of every utility
    flat: Array  # [(1 + K) * LANES] the same, as a pass reads them
    slots: Array  # [LANES] where the policies go
    taken: Array  # [C] slots of this pass
    used: Array  # [C] slots that hold a policy
    actions: Array  # [C, H, S]
    lines: Array  # [C, 1 + K]
    room: Array
    team: Team


@compiled
def solve(
    like, begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """K >= 2: column generation. A small master program mixes the policies found so far; a pass at its prices either
    proves the mixture optimal or finds policies that improve it. First the largest shortfall is driven to zero, then
    the reward is maximised. `actions` [C, H, S]: the first `warm` slots hold policies to start from. `like` is a tuple of
    1 + K zeros, so that their number is known when this is compiled.
    """
    rows = Rows(begin, length, successor, probability)
    room = np.empty(room_for(start.size, len(like)))
    return search_over(
        like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, room, alone()
    )


@released
def solve_together(
    like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, room, team
):  # fmt: skip
    """As `solve`, by a team: every member calls it, with `lines`, `weights` and `multipliers` of its own and the same
    otherwise.
    """
    return search_over(
        like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, room, team
    )


@inner
def price(instance, like, pricing):
    """One pass: the policies that maximise factors . (reward, utilities), and their lines."""
    for lane in range(LANES):
        for k in range(len(like)):
            pricing.flat[k * LANES + lane] = pricing.factors[lane, k]
        pricing.used[pricing.slots[lane]] = True
    sweep_lanes(instance, like, pricing.flat, pricing.slots, pricing.actions, pricing.lines, pricing.room, pricing.team)


@inner
def choose_slots(pricing, limits, basis, weights, dual):
    """A slot for every lane."""
    pricing.taken[:] = False
    for lane in range(LANES):
        slot = master.free_slot(pricing.lines, pricing.used, pricing.taken, limits, basis, weights, dual)
        pricing.slots[lane] = slot
        pricing.taken[slot] = True


@inner
def ask_between(pricing, reward_weight, prices, best):
    """At `prices` [K] in the first lane, and in the others on the way to them from other ones, the `best` so far."""
    share = 1.0
    for lane in range(LANES):
        pricing.factors[lane, 0] = reward_weight
        for k in range(prices.size):
            pricing.factors[lane, 1 + k] = best[k] + share * (prices[k] - best[k])
        share *= 0.4


@inner
def search_over(like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, room, team):
    uniform, packed = layout(rows, reward.shape[1] * reward.shape[2])
    instance = Instance(rows, start, reward, utilities, thresholds, H, uniform, packed)
    S, K, C = start.size, thresholds.size, actions.shape[0]
    slack = outcomes.FEASIBILITY_TOLERANCE * max(1.0, H)
    used, taken = np.zeros(C, dtype=np.bool_), np.zeros(C, dtype=np.bool_)
    factors, slots = np.zeros((LANES, 1 + K)), np.arange(LANES)
    pricing = Pricing(factors, np.empty(LANES * (1 + K)), slots, taken, used, actions, lines, room, team)
    limits = thresholds.copy()
    dual = np.zeros(K + 1)
    basis = np.empty(K + 1, dtype=np.int64)
    sweeps = 0
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], room[: 2 * (1 + K) * S].reshape((2, 1 + K, S)), team)
        used[slot] = True
    if warm == 0:
        # The reward alone, and the first utilities alone: corners between which the optimum lies.
        multipliers[:] = 0.0
        for lane in range(LANES):
            factors[lane, min(lane, K)] = 1.0
        if K < LANES - 1:
            factors[LANES - 1, 1:] = 1.0
        price(instance, like, pricing)
        sweeps += 1
        if (lines[0, 1:] >= limits - slack).all():
            weights[:] = 0.0
            weights[0] = 1.0
            return outcomes.OPTIMAL, lines[0, 0], 0.0, sweeps
    # A feasible first basis: the policy of slot 0, the slacks it leaves, and the shortfall in the row it misses most.
    worst = 0
    for k in range(K):
        basis[k] = C + k
        if lines[0, 1 + k] - limits[k] < lines[0, 1 + worst] - limits[worst]:
            worst = k
    basis[K] = 0
    shortfall = max(0.0, limits[worst] - lines[0, 1 + worst])
    if shortfall > 0.0:
        basis[worst] = C + K

    prices, equal, nothing = np.zeros(K), np.zeros(K), np.zeros(K)
    while shortfall > 0.0 and sweeps < outcomes.MAX_SWEEPS:
        solution = master.simplex(lines, used, limits, basis, True, dual)
        shortfall = 0.0
        for i in range(K + 1):
            if basis[i] == C + K:
                shortfall = max(solution[i], 0.0)
        if shortfall <= slack:
            break
        for k in range(K):
            prices[k] = max(0.0, -dual[k])
        choose_slots(pricing, limits, basis, weights, dual)
        equal[:] = prices.sum() / K
        ask_between(pricing, 0.0, prices, equal)
        price(instance, like, pricing)
        sweeps += 1
        best = dot(prices, lines[slots[0], 1:]) - dot(prices, limits)
        if best <= dual[K] + slack:
            master.weights_of(basis, solution, C, weights)
            multipliers[:] = np.inf
            return outcomes.INFEASIBLE, -np.inf, shortfall, sweeps
    if shortfall > slack:
        master.weights_of(basis, solution, C, weights)
        return outcomes.INACCURATE, np.inf, shortfall, sweeps
    # Missing every threshold by rounding counts as meeting it; from here on the shortfall is exactly zero.
    limits -= shortfall
    solution = np.zeros(K + 1)
    solution[K] = 1.0
    master.weights_of(basis, master.solve_square(master.basis_matrix(lines, limits, basis), solution), C, weights)
    master.expel_shortfall(lines, used, limits, basis)

    bound, value = np.inf, dot(weights, lines[:, 0])
    previous = np.full(K + 1, np.nan)
    candidate = np.zeros(C)
    while True:
        solution = master.simplex(lines, used, limits, basis, False, dual)
        master.weights_of(basis, solution, C, candidate)
        # A nearly singular basis can spoil the weights: keep the best mixture that met its thresholds when evaluated.
        if master.largest_miss(candidate, lines, limits) <= slack and dot(candidate, lines[:, 0]) > value:
            weights[:] = candidate
            value = dot(candidate, lines[:, 0])
        scale = max(1.0, abs(value))
        if bound - value <= outcomes.TARGET_EXCESS * scale or sweeps >= outcomes.MAX_SWEEPS or (dual == previous).all():
            break
        previous[:] = dual
        for k in range(K):
            prices[k] = max(0.0, -dual[k])
        choose_slots(pricing, limits, basis, weights, dual)
        ask_between(pricing, 1.0, prices, multipliers if bound < np.inf else nothing)
        price(instance, like, pricing)
        sweeps += 1
        peak = -np.inf
        for lane in range(LANES - 1, -1, -1):
            at = factors[lane, 1:]
            peak = lines[slots[lane], 0] + dot(at, lines[slots[lane], 1:]) - dot(at, limits)
            ceiling = peak + outcomes.ROUNDING * (max(1.0, abs(peak)) + H * at.sum())
            if ceiling < bound:
                bound = ceiling
                multipliers[:] = at
        if peak - value <= outcomes.ROUNDING * (scale + H * prices.sum()):
            break
    accepted = bound - value <= outcomes.ACCEPTED_EXCESS * max(1.0, abs(value))
    return outcomes.OPTIMAL if accepted else outcomes.INACCURATE, bound, 0.0, sweeps
