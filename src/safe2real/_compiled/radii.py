"""How far a row's real distribution can be from the observed one; the formulas and their proofs are in docs/radii.md."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.kinds import KL, LITERAL, LONG_RUN, SHORT_RUN, STITCHED, TABLE, UNION
from safe2real._compiled.rows import Array


class Rule(NamedTuple):
    """The constants of the radius, of the deletion rule and of the bonus."""

    kind: int  # one of `kinds`
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
    clearing: int  # one of `kinds`: when a row is cleared
    clearing_gap: float  # what counts as sigma_s there: smaller protects rows that are off by less than was assumed
    clearing_eta: float  # what the sequential test bets on
    clearing_level: float  # log(1 / a row's share of delta) in the sequential test
    threshold: float  # (eps_s + sigma_s) / 2; negative when nothing may be deleted
    suspect_bonus: float  # times the radius, inside `suspects`
    cleared_bonus: float  # outside
    cleared_gap: float  # eps_s
    mismatch_gap: float  # sigma_s
    proves: bool  # whether the radius is certified: then it holds at all times at once


@inner
def mixture_square(n, run, level):
    """The square of n times the deviation that a mixture tuned for `run` visits allows at log(1 / alpha) = `level`."""
    spread, tuned = 0.25 * n, 0.25 * run
    x = level + 0.5 * np.log((spread + tuned) / tuned)
    # log(1/2 + exp(x) / 2), also where exp(x) is beyond all numbers
    return 2.0 * (spread + tuned) * (x - np.log(2.0) + np.log1p(np.exp(-x)))


@inner
def radius_at(rule, row, n, seen, all_near):
    """The radius of a row after n visits with `seen` different successors; at most 1."""
    if rule.kind == LITERAL:
        beta = rule.constant[row] + rule.weight * np.log(8.0 * np.e * (n + 1.0))
        return min(1.0, rule.scale * np.sqrt(beta / max(2.0 * n, 1.0)))
    if n <= 0:
        return 1.0  # also where one successor is possible: the model's row is still uniform
    size = rule.size[row]
    if size == 1:
        return 0.0  # one successor is possible: the row is that
    if rule.kind == TABLE:
        # At as many visits, or at the next smaller number; found by halves, as numba compiles NumPy's search to much more.
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
