"""Inner compiled functions that tests call from Python."""

from typing import Any

import numpy as np
from numba import njit

from safe2real._compiled import chain, clearing, likelihood, radii, worst_rows


def radius_at(rule: radii.Rule, row: int, visits: int, seen: int, all_near: bool = True) -> float:
    out = np.empty(rule.size.size)
    radii.radii(rule, np.full(out.size, float(visits)), np.full(out.size, seen), np.full(out.size, all_near), out)
    return float(out[row])


@njit
def worst_expectation(sets: Any, row: Any, values: Any) -> Any:
    """The least expectation of one row."""
    longest, out = worst_rows.longest_row(sets.rows), np.empty(1)
    room, heap = np.empty(longest), np.empty(longest, dtype=np.int64)
    later = worst_rows.later_of(values, worst_rows.needs_order(sets))
    everybody, nobody = np.empty((0, 0)), np.empty(0, dtype=np.uint32)
    worst_rows.least_of_rows(sets, row, later, nobody, everybody, 0, 1, 1, room, heap, out)
    return out[0]


@njit
def clears(tally: Any, row: Any, S: Any, eps: Any, eta: Any, sigma: Any, level: Any) -> Any:
    return clearing.clears(tally, row, S, eps, eta, sigma, level)


@njit
def growth(x: Any, y: Any, eta: Any, sigma: Any) -> Any:
    return clearing.growth(x, y, eta, sigma)


@njit
def likelihood_bound(
    counts: Any, right: Any, near: Any, n: Any, size: Any, near_size: Any, all_near: Any, level: Any
) -> Any:
    return likelihood.likelihood_bound(counts, right, near, n, size, near_size, all_near, level)


@njit
def local_bound(counts: Any, n: Any, near: Any, size: Any, run: Any, level: Any) -> Any:
    return likelihood.local_bound(counts, n, near, size, run, level)


@njit
def chain_bonus(sets: Any, scales: Any, H: Any, S: Any, A: Any) -> Any:
    return chain.chain_bonus(sets, chain.tails_of(scales), H, S, A)


@njit
def follow(sets: Any, start: Any, actions: Any, weights: Any, tails: Any, least: Any, scales: Any, A: Any) -> Any:
    return chain.follow(sets, start, actions, weights, tails, least, scales, A)
