"""The optimum under several constraints: the search of `pricing`, with sweeps over the rows of a known model."""

from __future__ import annotations

import numpy as np

from safe2real._compiled import pricing
from safe2real._compiled.bracket import GO_ON
from safe2real._compiled.cache import compiled, inner, released
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Instance, Rows
from safe2real._compiled.sweeps import room_for, sweep_lanes
from safe2real._compiled.team import alone
from safe2real._compiled.transitions import layout


@compiled
def solve(
    like, begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """K >= 2: column generation. `actions` [C, H, S]: the first `warm` slots hold policies to start from. Returns (status,
    bound, shortfall, sweeps). `like` is a tuple of 1 + K zeros, so that their number is known when this is compiled.
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
def search_over(like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, room, team):
    uniform, packed = layout(rows, reward.shape[1] * reward.shape[2])
    instance = Instance(rows, start, reward, utilities, thresholds, H, uniform, packed)
    S, V = start.size, len(like)
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], room[: 2 * V * S].reshape((2, V, S)), team)
    search = pricing.begin(lines, weights, multipliers, thresholds, H, warm)
    status, factors = GO_ON, np.empty(V * LANES)
    while status == GO_ON:
        pricing.ask(search)
        for lane in range(LANES):
            for k in range(V):
                factors[k * LANES + lane] = search.asked[lane, k]
        sweep_lanes(instance, like, factors, search.slots, actions, lines, room, team)
        status = pricing.tell(search)
    numbers = search.numbers
    return status, numbers[pricing.BOUND], numbers[pricing.SHORTFALL], int(numbers[pricing.PASSES])
