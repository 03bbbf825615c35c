"""The innermost loops: a row's expectation, and where a row's mass goes. Nothing compiled checks its input.

Letters used throughout:
  H, S, A, K     horizon, states, actions, constraints
  rows           `Rows`; row (h * S + s) * A + a, without h for stationary dynamics
  start          [S] distribution of the first state
  reward         [1 or H, S, A]
  utilities      [K, 1 or H, S, A], thresholds [K]
  actions        [C, H, S] deterministic policies in C slots
  lines          [C, 1 + K] value of the reward and of every constraint for the policy of each slot
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import borrowing, instead_of, shared, shared_borrowing
from safe2real._compiled.rows import Array, Rows


@shared_borrowing
def dot(x, y):
    """Sum sequentially, as all sums here do: NumPy's own sums and BLAS round differently, by processor."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@shared_borrowing
def total_of(x):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


@shared_borrowing
def mean_of(values):
    """Return the expectation of `values` [S] in a uniform row."""
    return total_of(values) / values.size


@shared
def alike(n, value):
    """Return an array [n] of one value; numba compiles `np.full` to far more code."""
    out = np.empty(n)
    for i in range(n):
        out[i] = value
    return out


@shared_borrowing
def rows_per_step(begin, S, A):
    """Return the offset from the rows of a step to those of the next: 0 for stationary dynamics."""
    return 0 if begin.size == S * A else S * A


@borrowing
def expectation(rows, row, values, mean):
    """Sum of P(s' | row) values[s']. Unsigned indices and a single exit keep this loop inlined: 13 times faster."""
    n = rows.length[row]
    k = np.uint64(rows.begin[row])
    end = k + n
    total = mean if n == 0 else 0.0
    while k < end:
        total += rows.probability[k] * values[rows.successor[k]]
        k += np.uint64(1)
    return total


@borrowing
def spread(rows, row, mass, arrived):
    """Add mass * P(. | row) to `arrived`; returns the mass of a uniform row, which the caller spreads at the end."""
    n = rows.length[row]
    k = np.uint64(rows.begin[row])
    end = k + n
    while k < end:
        arrived[rows.successor[k]] += mass * rows.probability[k]
        k += np.uint64(1)
    return mass if n == 0 else 0.0


def any_of(flags: Array) -> bool:
    """Return whether any flag is true; numba compiles NumPy's own function to far more code."""
    return bool(flags.any())


@instead_of(any_of, borrowing=True)
def compiled_any_of(flags):
    for i in range(flags.size):
        if flags[i]:
            return True
    return False


def longest_of(rows: Rows) -> int:
    """Most transitions of a row, at least 1."""
    return max(1, int(rows.length.max()))


@instead_of(longest_of, borrowing=True)
def compiled_longest_of(rows):
    longest = 1
    for row in range(rows.length.size):
        n = np.int64(rows.length[row])
        longest = n if n > longest else longest
    return longest


def any_uniform(rows: Rows) -> bool:
    return int(rows.length.min()) == 0


@instead_of(any_uniform, borrowing=True)
def compiled_any_uniform(rows):
    for row in range(rows.length.size):
        if rows.length[row] == 0:
            return True
    return False
