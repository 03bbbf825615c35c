"""The search for the optimum under several constraints: column generation, whose pricing step somebody else makes.

A small master program mixes the policies found so far. Its prices say what a policy would have to be good at to improve the
mixture, and a pass over all rows at these prices finds such policies or proves that there are none. First the largest
shortfall is driven to zero, then the reward is maximised; the bound is a dual one, as in `bracket`.

A pass prices at four places: where the master program says, and on the way there from the prices of the best bound so far.
The master's own prices leap about while it knows few policies; those between are what it will say later on.

As `bracket`, the search says which weights it wants to know about (`ask`), somebody sweeps there and writes down the lines,
and it draws its conclusions (`tell`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import master, outcomes
from safe2real._compiled.bracket import GO_ON
from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Array
from safe2real._compiled.transitions import dot


class Search(NamedTuple):
    """What is known of one problem; C policies, K >= 2 constraints."""

    lines: Array  # [C, 1 + K] value of the reward and of every utility
    used: Array  # [C] slots that hold a policy
    limits: Array  # [K] the thresholds; a shortfall that is only rounding is taken off
    basis: Array  # [K + 1] of the master program
    solution: Array  # [K + 1] of the master program while it has a shortfall
    dual: Array  # [K + 1] of the master program, now
    previous: Array  # [K + 1] and when it was last asked about; NaN at first
    asked: Array  # [LANES, 1 + K] weight of the reward and of every utility
    slots: Array  # [LANES] where the policies go
    weights: Array  # [C] the best mixture so far
    multipliers: Array  # [K] where the bound is smallest
    H: int
    numbers: Array  # [NUMBERS], one for each name below


NUMBERS = 5
BOUND, SHORTFALL, PASSES, VALUE, PHASE = range(NUMBERS)
CORNERS, FEASIBILITY, OPTIMALITY = range(3)  # phases: what is asked about


@compiled
def begin(lines, weights, multipliers, thresholds, H, warm):
    """The search before its first question. The first `warm` slots hold policies whose lines are known."""
    C, K = lines.shape[0], thresholds.size
    search = Search(
        lines, np.zeros(C, dtype=np.bool_), thresholds.copy(), np.empty(K + 1, dtype=np.int64), np.zeros(K + 1),
        np.zeros(K + 1), np.empty(K + 1), np.zeros((LANES, 1 + K)), np.zeros(LANES, dtype=np.int64), weights, multipliers,
        H, np.zeros(NUMBERS),
    )  # fmt: skip
    start(search, warm)
    return search


@compiled
def start(search, warm):
    """As `begin`, for a search whose arrays are there: zeros, but for its limits and the lines of the `warm` slots."""
    search.previous[:] = np.nan
    search.numbers[BOUND], search.numbers[PHASE] = np.inf, CORNERS
    if warm == 0:
        search.multipliers[:] = 0.0
    else:
        search.used[:warm] = True
        find_basis(search)  # which ends no search: without a pass nothing is bounded


@compiled
def ask(search):
    """The weights `asked` to sweep at, with their policies into `slots`; returns how many."""
    K, asked = search.limits.size, search.asked
    if search.numbers[PHASE] == CORNERS:
        # The reward alone, and the first utilities alone: corners between which the optimum lies.
        asked[:] = 0.0
        for lane in range(LANES):
            asked[lane, min(lane, K)] = 1.0
            search.slots[lane] = lane
        if K < LANES - 1:
            asked[LANES - 1, 1:] = 1.0
    else:
        choose_slots(search)
        prices = prices_of(search)
        if search.numbers[PHASE] == FEASIBILITY:
            ask_between(search, 0.0, prices, np.full(K, prices.sum() / K))
        else:
            ask_between(search, 1.0, prices, search.multipliers if search.numbers[BOUND] < np.inf else np.zeros(K))
    for lane in range(LANES):
        search.used[search.slots[lane]] = True
    return LANES


@inner
def choose_slots(search):
    """A slot for every lane."""
    taken = np.zeros(search.used.size, dtype=np.bool_)
    for lane in range(LANES):
        slot = master.free_slot(search.lines, search.used, taken, search.limits, search.basis, search.weights, search.dual)
        search.slots[lane] = slot
        taken[slot] = True


@inner
def prices_of(search):
    """[K] what the master program would pay for more of every utility."""
    prices = np.empty(search.limits.size)
    for k in range(prices.size):
        prices[k] = max(0.0, -search.dual[k])
    return prices


@inner
def ask_between(search, reward_weight, prices, best):
    """At `prices` [K] in the first lane, and in the others on the way to them from other ones, the `best` so far."""
    share = 1.0
    for lane in range(LANES):
        search.asked[lane, 0] = reward_weight
        for k in range(prices.size):
            search.asked[lane, 1 + k] = best[k] + share * (prices[k] - best[k])
        share *= 0.4


@compiled
def tell(search):
    """Draw the conclusions from the lines of the policies asked for: a status, or GO_ON."""
    lines, limits, numbers, slack = search.lines, search.limits, search.numbers, slack_of(search)
    numbers[PASSES] += 1.0
    if numbers[PHASE] == CORNERS:
        if (lines[0, 1:] >= limits - slack).all():
            search.weights[:] = 0.0
            search.weights[0] = 1.0
            numbers[BOUND] = lines[0, 0]
            return outcomes.OPTIMAL  # the best policy without the constraints meets them
        return find_basis(search)
    if numbers[PHASE] == FEASIBILITY:
        prices = prices_of(search)
        best = dot(prices, lines[search.slots[0], 1:]) - dot(prices, limits)
        if best <= search.dual[limits.size] + slack:
            master.weights_of(search.basis, search.solution, lines.shape[0], search.weights)
            search.multipliers[:] = np.inf
            numbers[BOUND] = -np.inf
            return outcomes.INFEASIBLE
        return reduce_shortfall(search)
    return tell_bound(search)


@inner
def slack_of(search):
    """By how much a constraint may be missed and still count as met."""
    return outcomes.FEASIBILITY_TOLERANCE * max(1.0, search.H)


@inner
def find_basis(search):
    """A feasible first basis: the policy of slot 0, the slacks it leaves, and the shortfall in the row it misses most."""
    lines, limits, basis = search.lines, search.limits, search.basis
    C, K = lines.shape[0], limits.size
    worst = 0
    for k in range(K):
        basis[k] = C + k
        if lines[0, 1 + k] - limits[k] < lines[0, 1 + worst] - limits[worst]:
            worst = k
    basis[K] = 0
    search.numbers[SHORTFALL] = max(0.0, limits[worst] - lines[0, 1 + worst])
    if search.numbers[SHORTFALL] > 0.0:
        basis[worst] = C + K
    return reduce_shortfall(search)


@inner
def reduce_shortfall(search):
    """The smallest shortfall of all mixtures of the policies that are known; on to the reward where there is none."""
    lines, limits, basis, numbers = search.lines, search.limits, search.basis, search.numbers
    C, K, slack = lines.shape[0], limits.size, slack_of(search)
    if numbers[SHORTFALL] > 0.0 and numbers[PASSES] < outcomes.MAX_SWEEPS:
        search.solution[:] = master.simplex(lines, search.used, limits, basis, True, search.dual)
        numbers[SHORTFALL] = 0.0
        for i in range(K + 1):
            if basis[i] == C + K:
                numbers[SHORTFALL] = max(search.solution[i], 0.0)
        if numbers[SHORTFALL] > slack:
            numbers[PHASE] = FEASIBILITY
            return GO_ON
    if numbers[SHORTFALL] > slack:
        master.weights_of(basis, search.solution, C, search.weights)
        return outcomes.INACCURATE
    # Missing every threshold by rounding counts as meeting it; from here on the shortfall is exactly zero.
    limits -= numbers[SHORTFALL]
    right = np.zeros(K + 1)
    right[K] = 1.0
    mixed = master.solve_square(master.basis_matrix(lines, limits, basis), right)
    master.weights_of(basis, mixed, C, search.weights)
    master.expel_shortfall(lines, search.used, limits, basis)
    numbers[PHASE], numbers[SHORTFALL] = OPTIMALITY, 0.0
    numbers[VALUE] = dot(search.weights, lines[:, 0])
    return raise_value(search)


@inner
def raise_value(search):
    """The best mixture of the policies that are known; ends where it meets the bound, or has nothing new to ask."""
    lines, numbers = search.lines, search.numbers
    candidate = np.zeros(lines.shape[0])
    solution = master.simplex(lines, search.used, search.limits, search.basis, False, search.dual)
    master.weights_of(search.basis, solution, lines.shape[0], candidate)
    # A nearly singular basis can spoil the weights: keep the best mixture that met its thresholds when evaluated.
    worth = dot(candidate, lines[:, 0])
    if master.largest_miss(candidate, lines, search.limits) <= slack_of(search) and worth > numbers[VALUE]:
        search.weights[:] = candidate
        numbers[VALUE] = worth
    close = numbers[BOUND] - numbers[VALUE] <= outcomes.TARGET_EXCESS * max(1.0, abs(numbers[VALUE]))
    if close or numbers[PASSES] >= outcomes.MAX_SWEEPS or (search.dual == search.previous).all():
        return ended(search)
    search.previous[:] = search.dual
    return GO_ON


@inner
def tell_bound(search):
    """The dual bound after a pass for the reward."""
    lines, limits, numbers, H = search.lines, search.limits, search.numbers, search.H
    peak = -np.inf
    for lane in range(LANES - 1, -1, -1):
        at, line = search.asked[lane, 1:], lines[search.slots[lane]]
        peak = line[0] + dot(at, line[1:]) - dot(at, limits)
        ceiling = peak + outcomes.ROUNDING * (max(1.0, abs(peak)) + H * at.sum())
        if ceiling < numbers[BOUND]:
            numbers[BOUND] = ceiling
            search.multipliers[:] = at
    # The last peak is that at the master's own prices: if it is not above the value, no policy improves the mixture.
    scale = max(1.0, abs(numbers[VALUE]))
    if peak - numbers[VALUE] <= outcomes.ROUNDING * (scale + H * prices_of(search).sum()):
        return ended(search)
    return raise_value(search)


@inner
def ended(search):
    excess = search.numbers[BOUND] - search.numbers[VALUE]
    accepted = excess <= outcomes.ACCEPTED_EXCESS * max(1.0, abs(search.numbers[VALUE]))
    return outcomes.OPTIMAL if accepted else outcomes.INACCURATE
