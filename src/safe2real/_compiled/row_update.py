"""The hybrid model row by row: when a row is cleared (the paper's deletion rule), and when its counts refute an assumption.

The formulas of the radii, how far a row's real distribution can be from the observed one, and their proofs are in
docs/radii.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import borrowing, compiled, inner, instead_of
from safe2real._compiled.clearing import clears
from safe2real._compiled.codes import HALFWAY, KL, LITERAL, LONG_RUN, SEQUENTIAL, SHORT_RUN, STITCHED, TABLE, UNION
from safe2real._compiled.likelihood import gather, is_near, likelihood_bound, near_size_of
from safe2real._compiled.rows import Array
from safe2real._compiled.tally import Episode, Tally, count_episode, lacks_room, record, refresh, simulator_distance

REFUTED = 1e-9  # how far beyond an assumption the data must be: more than rounding
NEVER = float(2**62)  # visits; more than any row will have
LEAST = 1e-12  # the smallest divergence: a sum of logarithms knows no less
LOOKS = 16  # the KL test of a cleared or known row is due when its visits have grown by 1 / LOOKS


class Rule(NamedTuple):
    """The constants of the radius, of the rule that clears rows, and of the bonus."""

    kind: int  # one of `codes`
    scale: float  # 1, or heuristic
    constant: Array  # [R] LITERAL: log(2 S A H / delta); the others: log(1 / the row's share of delta)
    weight: float  # LITERAL: S
    size: Array  # [R] how many successors a row can have
    profile: Array  # [R] the line of `cost` that goes with the row's size
    cost: Array  # [D, L] log of 1 / share of the row's delta that a set of k successors has
    grid: Array  # [G] TABLE: visits, rising from 1
    table: Array  # [D, L, G] TABLE: the radius after as many, by profile and successors seen (L = 1: whatever they are)
    near_profile: Array  # [R] the line of `cost` for sets of near successors; [0] where there are none
    near_begin: Array  # [R] or [0] where the near successors of the row begin: the simulator's, by any action
    near_length: Array  # [R] or [0]; 0 where all are alike
    near_successor: Array  # sorted within a row
    likelihood: Array  # [R] log(1 / the row's share of delta) of the KL balls; [0] without them
    within: Array  # [R] TV distance within which the simulator's row is right for sure; [0] where nothing is
    clearing: int  # one of `codes`: when a row is cleared
    clearing_gap: float  # what counts as sigma_s there: smaller protects rows that are off by less than was assumed
    clearing_eta: float  # what the sequential test bets on
    clearing_level: float  # log(1 / a row's share of delta) in the sequential test
    threshold: float  # (eps_s + sigma_s) / 2; negative when no row may be cleared
    suspect_bonus: float  # times the radius, inside `suspects`
    cleared_bonus: float  # outside
    cleared_gap: float  # eps_s
    mismatch_gap: float  # sigma_s
    proves: bool  # whether the radius is certified: then it holds at all times at once


class Belief(NamedTuple):
    """The hybrid model: the row that is used, its confidence set and bonus, and whether it is suspect or refuted."""

    begin: Array  # [R] the rows a planner sees
    length: Array  # [R]
    suspect: Array  # [R]
    known: Array  # [R]
    refuted: Array  # [R] the data contradict an assumption about the row; final
    low: Array  # [R] the largest distance - radius so far: the real distance to the simulator is at least that
    high: Array  # [R] the smallest distance + radius so far: it is at most that
    look_at: Array  # [R] visits before which the row cannot contradict what is known of it
    gap: Array  # [R] TV distance within which the real row lies: the radius, eps_s where cleared, 0 where known
    divergence: Array  # [R] upper bound on KL(observed row, real row); inf without a bound
    bonus: Array  # [R]


@borrowing
def mixture_square(n, run, level):
    """The square of n times the deviation that a mixture tuned for `run` visits allows at log(1 / alpha) = `level`."""
    spread, tuned = 0.25 * n, 0.25 * run
    x = level + 0.5 * np.log((spread + tuned) / tuned)
    # log(1/2 + exp(x) / 2), without overflow of exp(x)
    return 2.0 * (spread + tuned) * (x - np.log(2.0) + np.log1p(np.exp(-x)))


@borrowing
def radius_at(rule, row, n, seen, all_near):
    """The radius of a row after n visits, a float, with `seen` different successors; at most 1."""
    if rule.kind == LITERAL:
        beta = rule.constant[row] + rule.weight * np.log(8.0 * np.e * (n + 1.0))
        return min(1.0, rule.scale * np.sqrt(beta / max(2.0 * n, 1.0)))
    if n <= 0:
        return 1.0  # even for one possible successor: the model's row is still uniform
    size = rule.size[row]
    if size == 1:
        return 0.0  # only one successor is possible, so one visit determines the row
    if rule.kind == TABLE:
        # The largest tabulated number of visits that is <= n. By bisection: numba compiles NumPy's search to far more code.
        low, high = 0, rule.grid.size
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if rule.grid[middle] <= n else (low, middle)
        return rule.table[rule.profile[row], min(max(seen, 1), rule.table.shape[1]) - 1, low]
    if rule.kind == KL:
        beta = rule.constant[row] + (size - 1.0) * np.log(np.e * (1.0 + n / (size - 1.0)))
        return min(1.0, rule.scale * np.sqrt(beta / (2.0 * n)))
    level, cost = rule.constant[row], rule.cost[rule.profile[row], max(1, min(seen, size - 1))]
    if rule.near_length.size > 0 and rule.near_length[row] > 0:  # half of the share for sets of near successors
        level += np.log(2.0)
        if all_near:  # both halves hold; the smaller one, so that n radius(n) never falls when a far successor is seen
            cost = min(cost, rule.cost[rule.near_profile[row], max(1, min(seen, np.int64(rule.near_length[row])))])
    level += cost
    if rule.kind == UNION:
        return min(1.0, rule.scale * np.sqrt((level + np.log(n * (n + 1.0))) / (2.0 * n)))
    if rule.kind == STITCHED:
        return min(1.0, rule.scale * 0.85 * np.sqrt((np.log(np.log(2.0 * n)) + 0.72 * (np.log(5.2) + level)) / n))
    level += np.log(2.0)  # two mixtures, each with half of the row's share
    square = min(mixture_square(n, SHORT_RUN, level), mixture_square(n, LONG_RUN, level))
    return min(1.0, rule.scale * np.sqrt(square) / n)


@compiled
def radii(rule, visits, seen, all_near, out):
    """The radius of every row after `visits` [R] with `seen` [R] different successors, `all_near` [R] or not: `out` [R].

    Visits are floats here, because forecasts have fractions of them.
    """
    for row in range(out.size):
        out[row] = radius_at(rule, row, visits[row], seen[row], all_near[row])


@borrowing
def visits_to_rise(n, distance, radius, target):
    """Visits more within which distance - radius cannot exceed `target`, whatever follows.

    k visits move a distance d to at most (n d + k) / (n + k), and n radius(n) never falls as n grows.
    """
    return NEVER if target >= 1.0 else max(0.0, n * (target + radius - distance) / (1.0 - target))


@borrowing
def visits_to_fall(n, distance, radius, target):
    """Visits more within which distance + radius cannot fall below `target`, whatever follows.

    k visits move a distance d to at least (n d - k) / (n + k), and n radius(n) never falls as n grows.
    """
    return NEVER if target <= 0.0 else max(0.0, n * (distance + radius - target) / (1.0 + target))


@borrowing
def weigh(belief, rule, row, n, distance, radius):
    """Mark a row as refuted if its `distance` after n visits contradicts an assumption; else set when to test it again.

    The radius holds at all times at once, so the real distance lies between the largest lower and the smallest upper end of
    all intervals so far. It contradicts an assumption if this range lies beyond what a known or cleared row may have,
    strictly between the two gaps, or is empty (rows that drift, or depend on more than the state).
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
    elif rule.within.size > 0 and rule.within[row] < 1.0:
        beyond |= low > rule.within[row] + REFUTED
        wait = min(wait, visits_to_rise(n, distance, radius, rule.within[row]))
    elif rule.threshold >= 0.0:
        above, below = low > rule.cleared_gap + REFUTED, high < rule.mismatch_gap - REFUTED
        beyond |= above and below
        until_above = 0.0 if above else visits_to_rise(n, distance, radius, rule.cleared_gap)
        until_below = 0.0 if below else visits_to_fall(n, distance, radius, rule.mismatch_gap)
        wait = min(wait, max(until_above, until_below))
    if rule.kind == TABLE:
        wait = 0.0  # waiting needs n radius(n) to never fall, which a tabulated radius need not satisfy
    if beyond:
        belief.refuted[row] = True
        belief.look_at[row] = np.int64(NEVER)
    else:
        belief.look_at[row] = n + 1 + np.int64(min(wait, NEVER / 2.0))


@borrowing
def only_near(tally, rule, row):
    """Return whether all observed successors of a row are near ones; true for a row without near successors."""
    if rule.near_length.size > 0 and rule.near_length[row] > 0:
        first = np.int64(tally.begin[row])
        for i in range(first, first + np.int64(tally.length[row])):
            if not is_near(rule, row, tally.successor[i]):
                return False
    return True


@borrowing
def observed_radius(tally, rule, row):
    """Return the TV radius of a row at its present counts."""
    visits, seen = np.float64(tally.visits[row]), np.int64(tally.length[row])
    return radius_at(rule, row, visits, seen, only_near(tally, rule, row))


@inner
def observed_divergence(tally, rule, row, S):
    """(bound on n KL(observed, real), n KL(observed, simulator's)) of a row as it is, which has been visited."""
    k, n = np.int64(tally.length[row]), np.float64(tally.visits[row])
    counts, right, near = np.empty(k), np.empty(k), np.empty(k, dtype=np.bool_)
    all_near = gather(tally, rule, row, S, counts, right, near)
    away = 0.0
    for i in range(k):
        away += counts[i] * np.log(counts[i] / (n * right[i])) if right[i] > 0.0 else np.inf
    level = rule.likelihood[row]
    bound = likelihood_bound(counts, right, near, n, rule.size[row], near_size_of(rule, row), all_near, level)
    return bound, away


@borrowing
def look(tally, belief, rule, row, S):
    """Test a row at its present counts by `weigh`, without changing its place in the model.

    A row that is assumed to equal the simulator's is also refuted if its counts are too unlikely under the simulator's row.
    """
    n = tally.visits[row]
    weigh(belief, rule, row, n, simulator_distance(tally, row, S), observed_radius(tally, rule, row))
    if n > 0 and rule.likelihood.size > 0 and not belief.suspect[row] and belief.gap[row] == 0.0 and rule.size[row] > 1:
        bound, away = observed_divergence(tally, rule, row, S)
        if away > bound * (1.0 + REFUTED) + REFUTED:
            belief.refuted[row] = True
            belief.look_at[row] = np.int64(NEVER)
        elif not belief.refuted[row]:
            belief.look_at[row] = min(belief.look_at[row], n + 1 + n // LOOKS)


@borrowing
def is_cleared(tally, rule, row, S, distance, radius):
    """Return whether the counts clear a suspect row: the paper's deletion rule (HALFWAY), or a refinement of it."""
    if rule.clearing == HALFWAY or rule.threshold < 0.0:
        return distance + radius <= rule.threshold
    if distance + radius < rule.clearing_gap - REFUTED:
        return True
    return rule.clearing == SEQUENTIAL and clears(
        tally, row, S, rule.cleared_gap, rule.clearing_eta, rule.clearing_gap, rule.clearing_level
    )


@borrowing
def update_rows(tally, belief, rule, rows, S):
    """Update rows from their counts: empirical probabilities, whether each is cleared, and its place in the model.

    A cleared row (paper, eq. deletetion-rule) stays cleared; its visits are still counted. The loop is in here because the
    tuples hold some 300 words, and a call for each row would copy them all.
    """
    for i in range(rows.size):
        row = rows[i]
        n = tally.visits[row]
        if belief.suspect[row]:
            refresh(tally, row)
            radius = observed_radius(tally, rule, row)
            distance = simulator_distance(tally, row, S)
            within = rule.within[row] if rule.within.size > 0 else 1.0
            belief.suspect[row] = within < 1.0 or not is_cleared(tally, rule, row, S, distance, radius)
            if belief.suspect[row]:
                if within < radius:  # both balls hold: around what was seen and around the simulator's row
                    belief.begin[row], belief.length[row] = tally.simulator_begin[row], tally.simulator_length[row]
                    belief.gap[row], belief.divergence[row] = within, np.inf
                else:
                    belief.begin[row], belief.length[row] = tally.begin[row], tally.length[row]
                    belief.gap[row] = radius
                    if n > 0 and rule.likelihood.size > 0 and rule.size[row] > 1:
                        bound, _ = observed_divergence(tally, rule, row, S)
                        belief.divergence[row] = max(LEAST, bound / n)
                belief.bonus[row] = rule.suspect_bonus * belief.gap[row]
                if n > 0:
                    weigh(belief, rule, row, n, distance, radius)
                continue
            belief.look_at[row] = 1  # it is cleared now, so another test applies
        belief.begin[row], belief.length[row] = tally.simulator_begin[row], tally.simulator_length[row]
        belief.gap[row] = 0.0 if belief.known[row] else rule.cleared_gap
        belief.divergence[row] = np.inf
        belief.bonus[row] = 0.0 if belief.known[row] else rule.cleared_bonus
        if n >= belief.look_at[row]:
            look(tally, belief, rule, row, S)


@compiled
def near_rows(tally, rule, out):
    """`only_near` of every row, into `out` [R]."""
    for row in range(out.size):
        out[row] = only_near(tally, rule, row)


def update_all(tally: Tally, belief: Belief, rule: Rule, S: int) -> None:
    """`update_rows` of every row."""
    nothing, ends, rows = np.empty(0, dtype=np.uint32), np.zeros(1, dtype=np.int64), np.arange(belief.suspect.size)
    observe_episodes(tally, belief, rule, nothing, nothing, ends, rows, 0, S, 1, 0)


@instead_of(update_all)
def compiled_update_all(tally, belief, rule, S):
    rows = np.empty(belief.suspect.size, dtype=np.int64)
    for row in range(rows.size):
        rows[row] = row
    update_rows(tally, belief, rule, rows, S)


@compiled
def record_watching(tally, belief, rule, planned, growth, states, actions, H, S, A, rows_per_step):
    """Count an episode as `record_episode` does; return whether a plan is due, and whether a row lacks room for the next.

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


@borrowing
def observe_episode(tally, belief, rule, episode, S, A, rows_per_step):
    """Count an episode, then apply Lines 3 and 4 of Algorithm 1 to the rows it changed (no other row can change)."""
    states, actions, rows = episode
    count_episode(tally, states, actions, A, rows_per_step)
    for h in range(actions.size):
        rows[h] = h * rows_per_step + np.int64(states[h]) * A + np.int64(actions[h])
    update_rows(tally, belief, rule, rows[: actions.size], S)


@compiled
def observe_episodes(tally, belief, rule, states, actions, ends, rows, H, S, A, rows_per_step):
    """Call `observe_episode` for concatenated episodes until a row needs more room; return the number counted.

    First, `rows` are updated. With H = 0 there is room for all episodes.
    Episode i has actions[ends[i] : ends[i + 1]] and one state more, its states beginning at ends[i] + i.
    """
    update_rows(tally, belief, rule, rows, S)
    visited_rows = np.empty(actions.size, dtype=np.int64)
    for i in range(ends.size - 1):
        here = actions[ends[i] : ends[i + 1]]
        visited = states[ends[i] + i : ends[i + 1] + i + 1]
        observe_episode(tally, belief, rule, Episode(visited, here, visited_rows), S, A, rows_per_step)
        if H > 0 and lacks_room(tally, visited, here, H, S, A, rows_per_step):
            return i + 1
    return ends.size - 1
