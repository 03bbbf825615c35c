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

from safe2real._compiled.cache import inner


@inner
def dot(x, y):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@inner
def mean_of(values):
    """What a uniform row expects of `values` [S]."""
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total / values.size


@inner
def rows_per_step(begin, S, A):
    """How many rows further the rows of the next step are: 0 for stationary dynamics."""
    return 0 if begin.size == S * A else S * A


@inner
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


@inner
def spread(rows, row, mass, arrived):
    """Add mass * P(. | row) to `arrived`; returns the mass of a uniform row, which the caller spreads at the end."""
    n = rows.length[row]
    k = np.uint64(rows.begin[row])
    end = k + n
    while k < end:
        arrived[rows.successor[k]] += mass * rows.probability[k]
        k += np.uint64(1)
    return mass if n == 0 else 0.0


@inner
def layout(rows, pairs):
    """(whether any row is uniform, whether within every step of `pairs` rows each is stored right after the one before)."""
    uniform, packed = rows.length[0] == 0, True
    step_end = pairs
    for row in range(1, rows.length.size):
        uniform |= rows.length[row] == 0
        if row == step_end:
            step_end += pairs
        else:
            packed &= rows.begin[row] == rows.begin[row - 1] + rows.length[row - 1]
    return uniform, packed
