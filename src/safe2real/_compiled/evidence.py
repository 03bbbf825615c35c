"""Compiled bookkeeping of what the real system has shown; nothing here checks its input.

Letters: R rows (S*A, or H*S*A for dynamics that change with the step), N stored transitions. The first part of
`successor` and `probability` holds the simulator's transitions, the rest a segment of its own for the observed successors
of each row, so that a row of the hybrid model is a pointer to one or the other and never a copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from safe2real._compiled.kinds import KL, LITERAL, LONG_RUN, SHORT_RUN, STITCHED, TABLE, UNION

Array = Any  # numba infers dtypes and dimensions


class Tally(NamedTuple):
    """Visits and successors beside the simulator's rows."""

    simulator_begin: Array  # [R]
    simulator_length: Array  # [R]
    begin: Array  # [R] first slot of the row's own segment
    length: Array  # [R] distinct successors seen
    capacity: Array  # [R] slots of the segment
    successor: Array  # [N]
    probability: Array  # [N] simulator's, then empirical
    count: Array  # [N]
    visits: Array  # [R]


class Belief(NamedTuple):
    """The hybrid model: which row is believed, and what is left open about it."""

    begin: Array  # [R] the rows a planner sees
    length: Array  # [R]
    suspect: Array  # [R]
    known: Array  # [R]
    refuted: Array  # [R] the data have contradicted what was assumed of the row; never taken back
    low: Array  # [R] the largest distance - radius so far: the real distance to the simulator is at least that
    high: Array  # [R] the smallest distance + radius so far: it is at most that
    look_at: Array  # [R] visits before which the row cannot contradict what is known of it
    gap: Array  # [R] TV distance within which the real row lies: the radius, eps_s where cleared, 0 where known
    bonus: Array  # [R]


class Rule(NamedTuple):
    """The constants of the radius, of the deletion rule and of the bonus."""

    kind: int  # one of `kinds`; the formulas and their proofs are in docs/radii.md
    scale: float  # 1, or heuristic
    constant: float  # LITERAL: log(2 S A H / delta); the others: log(R / delta)
    weight: float  # LITERAL: S
    size: Array  # [R] how many successors a row can have
    profile: Array  # [R] the line of `cost` that goes with the row's size
    cost: Array  # [D, L] log of 1 / share of the row's delta that a set of k successors has
    grid: Array  # [G] TABLE: visits, rising from 1
    table: Array  # [D, L, G] TABLE: the radius after as many, by profile and successors seen (L = 1: whatever they are)
    threshold: float  # (eps_s + sigma_s) / 2; negative when nothing may be deleted
    suspect_bonus: float  # times the radius, inside `suspects`
    cleared_bonus: float  # outside
    cleared_gap: float  # eps_s
    mismatch_gap: float  # sigma_s
    proves: bool  # whether the radius is certified: then it holds at all times at once


REFUTED = 1e-9  # how far beyond an assumption the data must be: more than rounding
NEVER = float(2**62)  # visits; more than any row will have


@njit(cache=True)
def mixture_square(n, run, level):
    """The square of n times the deviation that a mixture tuned for `run` visits allows at log(1 / alpha) = `level`."""
    spread, tuned = 0.25 * n, 0.25 * run
    x = level + 0.5 * np.log((spread + tuned) / tuned)
    # log(1/2 + exp(x) / 2), also where exp(x) is beyond all numbers
    return 2.0 * (spread + tuned) * (x - np.log(2.0) + np.log1p(np.exp(-x)))


@njit(cache=True)
def radius_at(rule, row, n, seen):
    """The radius of a row after n visits with `seen` different successors; at most 1."""
    if rule.kind == LITERAL:
        beta = rule.constant + rule.weight * np.log(8.0 * np.e * (n + 1.0))
        return min(1.0, rule.scale * np.sqrt(beta / max(2.0 * n, 1.0)))
    if n <= 0:
        return 1.0  # also where one successor is possible: the model's row is still uniform
    size = rule.size[row]
    if size == 1:
        return 0.0  # one successor is possible: the row is that
    if rule.kind == TABLE:
        at = np.searchsorted(rule.grid, n, side="right") - 1  # at as many visits, or at the next smaller number
        return rule.table[rule.profile[row], min(max(seen, 1), rule.table.shape[1]) - 1, at]
    if rule.kind == KL:
        beta = rule.constant + (size - 1.0) * np.log(np.e * (1.0 + n / (size - 1.0)))
        return min(1.0, rule.scale * np.sqrt(beta / (2.0 * n)))
    level = rule.constant + rule.cost[rule.profile[row], max(1, min(seen, size - 1))]
    if rule.kind == UNION:
        return min(1.0, rule.scale * np.sqrt((level + np.log(n * (n + 1.0))) / (2.0 * n)))
    if rule.kind == STITCHED:
        return min(1.0, rule.scale * 0.85 * np.sqrt((np.log(np.log(2.0 * n)) + 0.72 * (np.log(5.2) + level)) / n))
    level += np.log(2.0)  # two mixtures, each with half of the row's share
    square = min(mixture_square(n, SHORT_RUN, level), mixture_square(n, LONG_RUN, level))
    return min(1.0, rule.scale * np.sqrt(square) / n)


@njit(cache=True)
def record(tally, row, successor):
    """One more observed transition; the caller has made sure that the segment has room."""
    tally.visits[row] += 1
    i = np.int64(tally.begin[row])
    end = i + np.int64(tally.length[row])
    while i < end and tally.successor[i] != successor:
        i += 1
    if i == end:  # not seen before; counts beyond a row's length are 0
        tally.successor[i] = successor
        tally.length[row] += np.uint32(1)
    tally.count[i] += 1


@njit(cache=True)
def simulator_probability(tally, row, successor, S):
    """P_sim(successor | row); the simulator's successors are sorted."""
    n = tally.simulator_length[row]
    if n == 0:
        return 1.0 / S
    low = np.int64(tally.simulator_begin[row])
    end = low + n
    high = end
    while low < high:
        middle = (low + high) // 2
        if tally.successor[middle] < successor:
            low = middle + 1
        else:
            high = middle
    if low < end and tally.successor[low] == successor:
        return tally.probability[low]
    return 0.0


@njit(cache=True)
def simulator_distance(tally, row, S):
    """TV distance between the empirical row and the simulator's; an unvisited row is uniform over all states."""
    n = tally.visits[row]
    if n == 0:
        stored = tally.simulator_length[row]
        if stored == 0:
            return 0.0
        total = (S - stored) / S
        first = np.int64(tally.simulator_begin[row])
        for i in range(first, first + stored):
            total += abs(tally.probability[i] - 1.0 / S)
        return 0.5 * total
    apart, shared = 0.0, 0.0
    first = np.int64(tally.begin[row])
    for i in range(first, first + tally.length[row]):
        q = simulator_probability(tally, row, tally.successor[i], S)
        apart += abs(tally.count[i] / n - q)
        shared += q
    return min(1.0, 0.5 * (apart + max(0.0, 1.0 - shared)))


@njit(cache=True)
def refresh(tally, row):
    """The empirical probabilities of a row from its counts."""
    first = np.int64(tally.begin[row])
    for i in range(first, first + tally.length[row]):
        tally.probability[i] = tally.count[i] / tally.visits[row]


@njit(cache=True)
def distances(tally, S, out):
    """TV distance of every empirical row to the simulator's, into `out` [R]."""
    for row in range(out.size):
        out[row] = simulator_distance(tally, row, S)


@njit(cache=True)
def radii(rule, visits, seen, out):
    """The radius of every row after `visits` [R] with `seen` [R] different successors, into `out` [R]."""
    for row in range(out.size):
        out[row] = radius_at(rule, row, visits[row], seen[row])


@njit(cache=True)
def visits_to_rise(n, distance, radius, target):
    """Visits more within which distance - radius cannot exceed `target`, whatever follows.

    k visits move a distance d to at most (n d + k) / (n + k), and n radius(n) never falls as n grows.
    """
    return NEVER if target >= 1.0 else max(0.0, n * (target + radius - distance) / (1.0 - target))


@njit(cache=True)
def visits_to_fall(n, distance, radius, target):
    """Visits more within which distance + radius cannot fall below `target`: both shrink to n / (n + k) of it at most."""
    return NEVER if target <= 0.0 else max(0.0, n * ((distance + radius) / target - 1.0))


@njit(cache=True)
def weigh(belief, rule, row, n, distance, radius):
    """Whether a row contradicts an assumption, after n visits that put it at `distance`; and when to look again.

    The radius holds at all times at once, so the real distance lies between the largest lower and the smallest upper end of
    all intervals so far. Beyond what a known or cleared row may have, strictly between the two gaps, or nowhere at all (rows
    that drift, or depend on more than the state): a contradiction.
    """
    low, high, wait, beyond = max(0.0, distance - radius), min(1.0, distance + radius), NEVER, False
    if rule.proves:
        low, high = max(low, belief.low[row]), min(high, belief.high[row])
        wait = min(visits_to_rise(n, distance, radius, high), visits_to_fall(n, distance, radius, low))
        beyond = low > high + REFUTED
    belief.low[row], belief.high[row] = low, high
    if not belief.suspect[row]:
        beyond |= low > belief.gap[row] + REFUTED
        wait = min(wait, visits_to_rise(n, distance, radius, belief.gap[row]))
    elif rule.threshold >= 0.0:
        above, below = low > rule.cleared_gap + REFUTED, high < rule.mismatch_gap - REFUTED
        beyond |= above and below
        until_above = 0.0 if above else visits_to_rise(n, distance, radius, rule.cleared_gap)
        until_below = 0.0 if below else visits_to_fall(n, distance, radius, rule.mismatch_gap)
        wait = min(wait, max(until_above, until_below))
    if rule.kind == TABLE:
        wait = 0.0  # what the waiting rests on, that n radius(n) never falls, is not asked of a radius from elsewhere
    if beyond:
        belief.refuted[row] = True
        belief.look_at[row] = np.int64(NEVER)
    else:
        belief.look_at[row] = n + 1 + np.int64(min(wait, NEVER / 2.0))


@njit(cache=True)
def look(tally, belief, rule, row, S):
    """`weigh` a row as it is, without touching its place in the model."""
    n = tally.visits[row]
    radius = radius_at(rule, row, n, np.int64(tally.length[row]))
    weigh(belief, rule, row, n, simulator_distance(tally, row, S), radius)


@njit(cache=True)
def update_row(tally, belief, rule, row, S):
    """Everything that follows from a row's counts: its empirical probabilities, the deletion rule, its place in the model.

    Deletion (paper, eq. deletetion-rule) is permanent; counts of a deleted row are still kept.
    """
    n = tally.visits[row]
    if belief.suspect[row]:
        refresh(tally, row)
        radius = radius_at(rule, row, n, np.int64(tally.length[row]))
        distance = simulator_distance(tally, row, S)
        belief.suspect[row] = distance + radius > rule.threshold
        if belief.suspect[row]:
            belief.begin[row], belief.length[row] = tally.begin[row], tally.length[row]
            belief.gap[row] = radius
            belief.bonus[row] = rule.suspect_bonus * radius
            if n > 0:
                weigh(belief, rule, row, n, distance, radius)
            return
        belief.look_at[row] = 1  # another rule holds for it from now on
    belief.begin[row], belief.length[row] = tally.simulator_begin[row], tally.simulator_length[row]
    belief.gap[row] = 0.0 if belief.known[row] else rule.cleared_gap
    belief.bonus[row] = 0.0 if belief.known[row] else rule.cleared_bonus
    if n >= belief.look_at[row]:
        look(tally, belief, rule, row, S)


@njit(cache=True)
def update_all(tally, belief, rule, S):
    for row in range(belief.suspect.size):
        update_row(tally, belief, rule, row, S)


@njit(cache=True)
def record_episode(tally, states, actions, A, rows_per_step):
    """Count every transition of an episode."""
    for h in range(actions.size):
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        record(tally, row, states[h + 1])


@njit(cache=True)
def record_watching(tally, belief, rule, planned, growth, states, actions, H, S, A, rows_per_step):
    """`record_episode` in one pass with two questions: is a plan due, and does a row lack room for the next episode?

    A plan is due when a suspect row of the episode has been visited the fraction `growth` more than at the last, `planned`
    [R], and at once when a row of any kind contradicts an assumption.
    """
    new = 1 if rows_per_step > 0 else H
    due, full = False, False
    h, n = 0, actions.size
    while h < n:
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        record(tally, row, states[h + 1])
        due |= belief.suspect[row] and tally.visits[row] > (1.0 + growth) * planned[row]
        if tally.visits[row] >= belief.look_at[row]:
            look(tally, belief, rule, row, S)
            due |= rule.proves and belief.refuted[row]
        full |= tally.capacity[row] < min(S, np.int64(tally.length[row]) + new)
        h += 1
    return due, full


@njit(cache=True)
def observe_episode(tally, belief, rule, states, actions, S, A, rows_per_step):
    """Count an episode, then apply Lines 3 and 4 of Algorithm 1 to the rows it changed (no other row can change)."""
    record_episode(tally, states, actions, A, rows_per_step)
    for h in range(actions.size):
        update_row(tally, belief, rule, h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h]), S)


@njit(cache=True)
def observe_episodes(tally, belief, rule, states, actions, ends, H, S, A, rows_per_step):
    """`observe_episode` for episodes laid end to end, until a row needs more room; returns how many were counted.

    Episode i has actions[ends[i] : ends[i + 1]] and one state more, its states beginning at ends[i] + i.
    """
    for i in range(ends.size - 1):
        here = actions[ends[i] : ends[i + 1]]
        visited = states[ends[i] + i : ends[i + 1] + i + 1]
        observe_episode(tally, belief, rule, visited, here, S, A, rows_per_step)
        if lacks_room(tally, visited, here, H, S, A, rows_per_step):
            return i + 1
    return ends.size - 1


@njit(cache=True)
def lacks_room(tally, states, actions, H, S, A, rows_per_step):
    """Whether a row of the episode could overflow its segment in the next one, which may be longer than this one."""
    new = 1 if rows_per_step > 0 else H
    for h in range(actions.size):
        row = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
        if tally.capacity[row] < min(S, np.int64(tally.length[row]) + new):
            return True
    return False


class Reach(NamedTuple):
    """Where a row's mass could go besides the successors it has: a declared support, or everywhere (empty arrays)."""

    begin: Array  # [R] or [0]
    length: Array  # [R]; 0 means everywhere
    successor: Array


@njit(cache=True)
def worst_expectation(begin, length, successor, probability, reach, row, gap, values, lowest, left):
    """min of P . values over the rows P within TV distance `gap` of a row, on its support.

    Mass moves from the successors of the highest value to the lowest that can be reached, `lowest` where that is everywhere;
    this is the exact minimum over the ball intersected with the simplex. `left` [>= S] is working space.
    """
    S = values.size
    first, n = np.int64(begin[row]), np.int64(length[row])
    bottom = lowest
    if reach.begin.size > 0 and reach.length[row] > 0:
        start = np.int64(reach.begin[row])
        bottom = values[reach.successor[start]]
        for i in range(start, start + np.int64(reach.length[row])):
            bottom = min(bottom, values[reach.successor[i]])
    if gap >= 1.0:
        return bottom
    total = 0.0
    if n == 0:
        for s in range(S):
            total += values[s]
        total /= S
    else:
        for i in range(first, first + n):
            total += probability[i] * values[successor[i]]
    if gap <= 0.0:
        return total
    count = S if n == 0 else n
    for i in range(count):
        left[i] = 1.0 / S if n == 0 else probability[first + i]
    remaining = gap
    while remaining > 0.0:
        best, at = bottom, -1
        for i in range(count):
            value = values[i] if n == 0 else values[successor[first + i]]
            if left[i] > 0.0 and value > best:
                best, at = value, i
        if at < 0:
            break
        moved = min(remaining, left[at])
        total -= moved * (best - bottom)
        left[at] -= moved
        remaining -= moved
    return total


@njit(cache=True)
def worst_value(begin, length, successor, probability, reach, gap, utility, policy, fixed, start):
    """min over all kernels within `gap` [R] of the model, row by row and step by step, of V_f of a policy.

    Follows the deterministic actions `fixed` [H, S] when that is not empty, otherwise `policy` [H, S, A]; `utility`
    is [1 or H, S, A].
    """
    H, S, A = policy.shape
    if fixed.size > 0:
        H, S = fixed.shape
        A = utility.shape[2]
    rows_per_step = 0 if begin.size == S * A else S * A
    per_step = utility.shape[0] > 1
    after, now, left = np.zeros(S), np.zeros(S), np.empty(S)
    for h in range(H - 1, -1, -1):
        lowest = after.min()
        worth = utility[h if per_step else 0]
        for s in range(S):
            total = 0.0
            if fixed.size > 0:
                a = np.int64(fixed[h, s])
                row = h * rows_per_step + s * A + a
                total = worth[s, a] + worst_expectation(
                    begin, length, successor, probability, reach, row, gap[row], after, lowest, left
                )
            else:
                for a in range(A):
                    if policy[h, s, a] > 0.0:
                        row = h * rows_per_step + s * A + a
                        total += policy[h, s, a] * (
                            worth[s, a]
                            + worst_expectation(
                                begin, length, successor, probability, reach, row, gap[row], after, lowest, left
                            )
                        )
            now[s] = total
        after[:] = now
    total = 0.0
    for s in range(S):
        total += start[s] * after[s]
    return total


@njit(cache=True)
def least_cost(begin, length, successor, probability, reach, gap, cost, start, H):
    """min over policies AND kernels within `gap` of the expected sum of `cost` [1 or H, S, A].

    With cost = - utility it is minus the optimistic value.
    """
    S, A = cost.shape[1], cost.shape[2]
    rows_per_step = 0 if begin.size == S * A else S * A
    per_step = cost.shape[0] > 1
    after, now, left = np.zeros(S), np.zeros(S), np.empty(S)
    for h in range(H - 1, -1, -1):
        lowest = after.min()
        here = cost[h if per_step else 0]
        for s in range(S):
            best = np.inf
            for a in range(A):
                row = h * rows_per_step + s * A + a
                value = here[s, a] + worst_expectation(
                    begin, length, successor, probability, reach, row, gap[row], after, lowest, left
                )
                best = min(best, value)
            now[s] = best
        after[:] = now
    total = 0.0
    for s in range(S):
        total += start[s] * after[s]
    return total


@njit(cache=True)
def outside_support(belief, reach, states, actions, ends, A, rows_per_step):
    """How many transitions of episodes laid end to end leave the declared support; their rows are refuted."""
    found = 0
    for i in range(ends.size - 1):
        for j in range(ends[i], ends[i + 1]):
            h = j - ends[i]
            row = h * rows_per_step + np.int64(states[j + i]) * A + np.int64(actions[j])
            n = np.int64(reach.length[row])
            if n == 0:
                continue
            first = np.int64(reach.begin[row])
            allowed = False
            for m in range(first, first + n):
                if reach.successor[m] == states[j + i + 1]:
                    allowed = True
            if not allowed:
                belief.refuted[row] = True
                found += 1
    return found
