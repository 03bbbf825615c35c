"""The worst and the best over all kernels within TV and KL balls around the rows of a model, by backward induction.

Letters as in `transitions`. For values at their best hand in the negative of the utility, and negate what comes back.
A team shares the states of each step out: a state's value is computed by one member in an order that the team does not
change. All members are given the same arrays. `values` is [H + 1, S], or [2, S] where only those of the first step are
asked for: step h is in line h modulo its length.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner, released
from safe2real._compiled.team import alone, share_of, wait_for_all
from safe2real._compiled.transitions import dot, rows_per_step
from safe2real._compiled.worst_rows import later_of, least_of_rows, longest_row, needs_order

BLOCK = 256  # states whose rows are bounded before they are used: what is kept of them stays in the nearest cache


@inner
def follow_states(sets, utility, policy, fixed, h, later, longest, low, high, now):
    """One step of `follow` for the states `low` to `high`, into `now` [S]."""
    is_fixed = fixed.size > 0
    S, A = utility.shape[1], utility.shape[2]
    first_row = h * rows_per_step(sets.rows.begin, S, A)
    step = h if utility.shape[0] > 1 else 0
    chosen = fixed[h] if is_fixed else np.empty(0, dtype=fixed.dtype)
    shares = np.empty((0, 0)) if is_fixed else policy[h]
    room, heap = np.empty(longest), np.empty(longest, dtype=np.int64)
    least = np.empty(BLOCK * A)
    for first in range(low, high, BLOCK):
        last = min(high, first + BLOCK)
        least_of_rows(sets, first_row, later, chosen, shares, first, last, A, room, heap, least)
        for s in range(first, last):
            total = 0.0
            if is_fixed:
                total = utility[step, s, np.int64(chosen[s])] + least[s - first]
            else:
                for a in range(A):
                    if shares[s, a] > 0.0:
                        total += shares[s, a] * (utility[step, s, a] + least[(s - first) * A + a])
            now[s] = total


@inner
def cheapest_states(sets, cost, h, later, longest, low, high, now, actions):
    """One step of `cheapest` for the states `low` to `high`, into `now` [S] and, where it is not empty, `actions` [S]."""
    S, A = cost.shape[1], cost.shape[2]
    first_row = h * rows_per_step(sets.rows.begin, S, A)
    step = h if cost.shape[0] > 1 else 0
    nobody, all_of_them = np.empty(0, dtype=np.uint32), np.empty((0, 0))
    room, heap = np.empty(longest), np.empty(longest, dtype=np.int64)
    least = np.empty(BLOCK * A)
    for first in range(low, high, BLOCK):
        last = min(high, first + BLOCK)
        least_of_rows(sets, first_row, later, nobody, all_of_them, first, last, A, room, heap, least)
        for s in range(first, last):
            best, choice = np.inf, 0
            for a in range(A):
                total = cost[step, s, a] + least[(s - first) * A + a]
                if total < best:
                    best, choice = total, a
            now[s] = best
            if actions.size > 0:
                actions[s] = choice


@released
def follow(sets, utility, policy, fixed, start, values, team):
    """A lower bound on V_f of a policy over all kernels in `sets`, row by row and step by step; the minimum for TV alone.

    Follows the deterministic actions `fixed` [H, S] when that is not empty, otherwise `policy` [H, S, A]; `utility`
    is [1 or H, S, A].
    """
    H = fixed.shape[0] if fixed.size > 0 else policy.shape[0]
    longest, ordered, kept = longest_row(sets.rows), needs_order(sets), values.shape[0]
    low, high = share_of(team, start.size)
    values[H % kept, low:high] = 0.0
    wait_for_all(team)
    for h in range(H - 1, -1, -1):
        later = later_of(values[(h + 1) % kept], ordered)
        follow_states(sets, utility, policy, fixed, h, later, longest, low, high, values[h % kept])
        wait_for_all(team)
    total = dot(start, values[0])
    wait_for_all(team)  # before anybody writes to `values` again
    return total


@released
def cheapest(sets, cost, start, H, values, actions, team):
    """A lower bound over policies AND kernels in `sets` on the expected sum of `cost` [1 or H, S, A]; the policy that
    attains it into `actions` [H, S], where that is not empty. With cost = - utility it is minus the optimistic value.
    """
    longest, ordered, kept = longest_row(sets.rows), needs_order(sets), values.shape[0]
    low, high = share_of(team, start.size)
    nowhere = np.empty(0, dtype=np.uint32)
    values[H % kept, low:high] = 0.0
    wait_for_all(team)
    for h in range(H - 1, -1, -1):
        later = later_of(values[(h + 1) % kept], ordered)
        into = actions[h] if actions.size > 0 else nowhere
        cheapest_states(sets, cost, h, later, longest, low, high, values[h % kept], into)
        wait_for_all(team)
    total = dot(start, values[0])
    wait_for_all(team)  # before anybody writes to `values` again
    return total


@compiled
def worst_value(sets, utility, policy, fixed, start):
    """`follow` for compiled callers."""
    return follow(sets, utility, policy, fixed, start, np.empty((2, start.size)), alone())
