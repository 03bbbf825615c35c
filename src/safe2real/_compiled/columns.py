"""The optimum under several constraints: column generation, with a sweep as the pricing step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import master, outcomes
from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.rows import Array, Instance, Rows
from safe2real._compiled.sweeps import sweep
from safe2real._compiled.team import Team, alone
from safe2real._compiled.transitions import dot, layout


class Work(NamedTuple):
    """Working space of the sweeps, made once per solve."""

    weighted: Array  # [1 or H, S, A]
    values: Array  # [2, S]
    parts: Array  # [2, 1 + K, S]
    team: Team


@inner
def make_work(instance):
    K, utility_steps, S, A = instance.utilities.shape
    weighted = np.empty((max(instance.reward.shape[0], utility_steps), S, A))
    return Work(weighted, np.empty((2, S)), np.empty((2, 1 + K, S)), alone())


@inner
def combine(reward, utilities, multipliers, weighted):
    """weighted = reward + multipliers . utilities, on [1 or H, S, A]."""
    K = utilities.shape[0]
    for h in range(weighted.shape[0]):
        r = reward[h if reward.shape[0] > 1 else 0]
        for s in range(weighted.shape[1]):
            for a in range(weighted.shape[2]):
                total = r[s, a]
                for k in range(K):
                    total += multipliers[k] * utilities[k, h if utilities.shape[1] > 1 else 0, s, a]
                weighted[h, s, a] = total


@inner
def price(instance, objective, multipliers, actions, line, work):
    """One sweep: the policy that maximises objective + multipliers . utilities, its line, and (returned) that maximum."""
    combine(objective, instance.utilities, multipliers, work.weighted)
    best = sweep(instance, work.weighted, actions, work.values, work.team)
    evaluate_actions(instance, actions, line, work.parts, work.team)
    return best


@compiled
def solve(
    begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """K >= 2: column generation. A small master program mixes the policies found so far; a sweep at its prices either
    proves the mixture optimal or finds a policy that improves it. First the largest shortfall is driven to zero, then
    the reward is maximised. `actions` [C, H, S]: the first `warm` slots hold policies to start from.
    """
    rows = Rows(begin, length, successor, probability)
    uniform, packed = layout(rows, reward.shape[1] * reward.shape[2])
    instance = Instance(rows, start, reward, utilities, thresholds, H, uniform, packed)
    K, C = thresholds.size, actions.shape[0]
    slack = outcomes.FEASIBILITY_TOLERANCE * max(1.0, H)
    nothing = np.zeros((1, reward.shape[1], reward.shape[2]))
    work = make_work(instance)
    used = np.zeros(C, dtype=np.bool_)
    limits = thresholds.copy()
    dual = np.zeros(K + 1)
    basis = np.empty(K + 1, dtype=np.int64)
    sweeps = 0
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], work.parts, work.team)
        used[slot] = True
    if warm == 0:
        multipliers[:] = 0.0
        bound = price(instance, reward, multipliers, actions[0], lines[0], work)
        sweeps += 1
        used[0] = True
        if (lines[0, 1:] >= limits - slack).all():
            weights[:] = 0.0
            weights[0] = 1.0
            return outcomes.OPTIMAL, bound, 0.0, sweeps
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

    while shortfall > 0.0 and sweeps < outcomes.MAX_SWEEPS:
        solution = master.simplex(lines, used, limits, basis, True, dual)
        shortfall = 0.0
        for i in range(K + 1):
            if basis[i] == C + K:
                shortfall = max(solution[i], 0.0)
        if shortfall <= slack:
            break
        for k in range(K):
            multipliers[k] = max(0.0, -dual[k])
        slot = master.free_slot(lines, used, limits, basis, weights, dual)
        best = price(instance, nothing, multipliers, actions[slot], lines[slot], work) - dot(multipliers, limits)
        sweeps += 1
        used[slot] = True
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
    prices, previous = np.zeros(K), np.full(K + 1, np.nan)
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
        slot = master.free_slot(lines, used, limits, basis, weights, dual)
        peak = price(instance, reward, prices, actions[slot], lines[slot], work) - dot(prices, limits)
        sweeps += 1
        used[slot] = True
        ceiling = peak + outcomes.ROUNDING * (max(1.0, abs(peak)) + H * prices.sum())
        if ceiling < bound:
            bound = ceiling
            multipliers[:] = prices
        if peak - value <= outcomes.ROUNDING * (scale + H * prices.sum()):
            break
    accepted = bound - value <= outcomes.ACCEPTED_EXCESS * max(1.0, abs(value))
    return outcomes.OPTIMAL if accepted else outcomes.INACCURATE, bound, 0.0, sweeps
