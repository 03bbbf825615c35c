"""The optimum under at most one constraint: the search of `bracket`, with sweeps over the rows of a known model."""

from __future__ import annotations

import numpy as np

from safe2real._compiled import bracket, outcomes
from safe2real._compiled.cache import compiled, inner, released
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Instance, Rows
from safe2real._compiled.sweeps import prepare_between, room_for, sweep, sweep_between, sweep_lanes, sweep_lexicographic
from safe2real._compiled.team import alone
from safe2real._compiled.transitions import layout

MOST_BETWEEN = 40  # passes over the actions of two policies before all are asked again


@compiled
def solve(
    begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """K <= 1. `actions` [SLOTS, H, S]: the first `warm` slots hold policies to start from, and `multipliers` the multiplier
    that went with them. Returns (status, bound, shortfall, sweeps). Bare arrays, because numba recognises them several
    times faster than a tuple when it is called from Python.
    """
    instance = instance_of(Rows(begin, length, successor, probability), start, reward, utilities, thresholds, H)
    room = np.empty(room_for(start.size, 1 + thresholds.size))
    return search_over(instance, warm, actions, lines, weights, multipliers, room, alone())


@released
def solve_together(
    rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, room, team
):  # fmt: skip
    """As `solve`, by a team: every member calls it, with `lines`, `weights` and `multipliers` of its own and the same
    otherwise.
    """
    instance = instance_of(rows, start, reward, utilities, thresholds, H)
    return search_over(instance, warm, actions, lines, weights, multipliers, room, team)


@inner
def instance_of(rows, start, reward, utilities, thresholds, H):
    uniform, packed = layout(rows, reward.shape[1] * reward.shape[2])
    return Instance(rows, start, reward, utilities, thresholds, H, uniform, packed)


@inner
def search_over(instance, warm, actions, lines, weights, multipliers, room, team):
    reward, utilities, H = instance.reward, instance.utilities, instance.H
    S = reward.shape[1]
    if instance.thresholds.size == 0:
        bound = sweep(instance, reward, actions[0], room[: 2 * S].reshape((2, S)), team)
        lines[0, 0] = bound
        weights[:] = 0.0
        weights[0] = 1.0
        return outcomes.OPTIMAL, bound, 0.0, 1
    parts = room[: 4 * S].reshape((2, 2, S))
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], parts, team)
    rate = extent(reward) / max(extent(utilities[0]), 1e-300)
    search = bracket.begin(lines, weights, multipliers, instance.thresholds, H, warm, rate)
    status, factors = bracket.GO_ON, np.empty(2 * LANES)
    while status == bracket.GO_ON:
        count = bracket.ask(search)
        if count == bracket.BREAK_TIES:
            slot = search.slots[0]
            sweep_lexicographic(instance, utilities[0], reward, bracket.TIE * H, actions[slot], parts, team)
            evaluate_actions(instance, actions[slot], lines[slot], parts, team)
        else:
            fill(search, count, factors)
            sweep_lanes(instance, (0, 0), factors, search.slots, actions, lines, room, team)
        status = bracket.tell(search, count)
        if status == bracket.GO_ON and bracket.narrow(search, actions):
            search_between(instance, search, factors, actions, room, team)
    return status, search.numbers[bracket.BOUND], search.numbers[bracket.SHORTFALL], int(search.numbers[bracket.PASSES])


@inner
def search_between(instance, search, factors, actions, room, team):
    """Go on with the actions of the two policies that are held alone: most of the way, for a fraction of the rows."""
    bracket.begin_between(search)
    one, other = search.held[2], search.held[3]
    prepare_between(one, other, actions, team)
    status, left = bracket.GO_ON, MOST_BETWEEN
    while status == bracket.GO_ON and left > 0:
        count = bracket.ask(search)
        fill(search, count, factors)
        sweep_between(instance, (0, 0), one, other, factors, search.slots, actions, search.lines, room, team)
        status = bracket.tell(search, count)
        left -= 1
    bracket.end_between(search)


@inner
def fill(search, count, factors):
    """Weights [2, LANES], flat, of reward and utility for the multipliers asked for."""
    for j in range(LANES):
        if j >= count:  # nothing is asked of this lane: it does what the first does
            search.asked[j], search.slots[j] = search.asked[0], search.slots[0]
        last = search.asked[j] == np.inf  # the utility alone
        factors[j], factors[LANES + j] = 0.0 if last else 1.0, 1.0 if last else search.asked[j]


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
