"""Inner compiled functions that tests call from Python."""

from typing import Any

import numpy as np
from numba import njit

from safe2real._compiled import clearing, likelihood, rounds, row_update, worst_rows
from safe2real._compiled.rows import Sets
from safe2real._compiled.transitions import longest_of


def radius_at(rule: row_update.Rule, row: int, visits: int, seen: int, all_near: bool = True) -> float:
    out = np.empty(rule.size.size)
    row_update.radii(rule, np.full(out.size, float(visits)), np.full(out.size, seen), np.full(out.size, all_near), out)
    return float(out[row])


def worst_expectation(sets: Sets, row: int, values: np.ndarray) -> float:
    """The least expectation of one row."""
    out, longest = np.empty(1), longest_of(sets.rows)
    worst_rows.least_of_step(sets, row, values, worst_rows.EVERY_ACTION, worst_rows.EVERY_ROW, 1, longest, out, 0, 1)
    return float(out[0])


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
    return rounds.chain_bonus(sets, rounds.tails_of(scales), H, S, A)


@njit
def follow(sets: Any, start: Any, actions: Any, weights: Any, tails: Any, least: Any, scales: Any, A: Any) -> Any:
    return rounds.chain_follow(sets, start, actions, weights, tails, least, scales, A)
