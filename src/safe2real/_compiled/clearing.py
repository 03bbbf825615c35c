"""The sequential test that clears a row: every set of successors on its own, no union over them (docs/samples.md).

A row that is wrong has ONE set A* with p(A*) >= q(A*) + sigma. For each set A the likelihood ratio of "p(A) = q(A) + eta"
against "p(A) = q(A) + sigma" is exp(n g(x, y)) after n visits, x the observed share of A and y = q(A). For A* it is a
nonnegative supermartingale, so a row that is cleared when n g >= log(1 / level) for EVERY set is wrong with probability
`level` at most, over all visits.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import borrowing, compiled, inner
from safe2real._compiled.tally import simulator_probability

CELLS = 8  # parts of each piece of the curve, for the bound from below
MOST_ENUMERATED = 10  # seen successors of which all sets are looked at
ROUNDING = 1e-9


@borrowing
def growth(x, y, eta, sigma):
    """g(x, y): falls as x rises, rises with y. Sets with y + sigma > 1 cannot have gained sigma: left out by the caller."""
    found = x * np.log((y + eta) / (y + sigma))
    if x >= 1.0 - 1e-12:
        return found
    if 1.0 - y - sigma <= 1e-12:
        return np.inf  # all of the mass would have to be in the set, and something was seen outside
    return found + (1.0 - x) * np.log((1.0 - y - eta) / (1.0 - y - sigma))


@borrowing
def sorted_by_gain(shares, right):
    """Sort both in place by shares / right, the largest first; insertion, as rows have few successors."""
    for i in range(1, shares.size):
        x, y = shares[i], right[i]
        j = i - 1
        while j >= 0 and x * right[j] > shares[j] * y:
            shares[j + 1], right[j + 1] = shares[j], right[j]
            j -= 1
        shares[j + 1], right[j + 1] = x, y


@borrowing
def every_set_passes(shares, right, eta, sigma, needed):
    """Return whether g >= `needed` for every subset of a few successors, by enumeration."""
    k = shares.size
    for chosen in range(1, 1 << k):
        x, y = 0.0, 0.0
        for i in range(k):
            if chosen >> i & 1:
                x += shares[i]
                y += right[i]
        if y + sigma <= 1.0 + ROUNDING and growth(min(x, 1.0), y, eta, sigma) < needed:
            return False
    return True


@inner
def clears(tally, row, S, eps, eta, sigma, level):
    """Return whether the sequential test clears a row; `level` is log(1 / its share of delta), eps < eta < sigma.

    The decisive sets lie on the curve of the largest x for each y: successors in the order of x_i / q_i. Its corners are
    real sets: if g is too small at one, the row is not cleared. Over small pieces of the curve, g(largest x, smallest y) is
    a lower bound: if it is large enough on all, the row is cleared. In between, all sets are enumerated if the row has few
    observed successors; otherwise it stays suspect.
    """
    n, k = tally.visits[row], np.int64(tally.length[row])
    if n == 0:
        return False
    needed = level / n
    if growth(0.0, 0.0, eta, sigma) < needed:
        return False
    first = np.int64(tally.begin[row])
    shares, right = np.empty(k), np.empty(k)
    for i in range(k):
        shares[i] = tally.count[first + i] / n
        right[i] = simulator_probability(tally, row, tally.successor[first + i], S)
        if right[i] <= 0.0 and eps <= 0.0:
            return False  # the simulator rules it out: the row is not right
    sorted_by_gain(shares, right)
    x, y = 0.0, 0.0
    for i in range(k):
        x, y = min(1.0, x + shares[i]), y + right[i]
        if y + sigma <= 1.0 + ROUNDING and growth(x, y, eta, sigma) < needed:
            return False
    x, y, bounded = 0.0, 0.0, True
    for i in range(k):
        for part in range(CELLS):
            left = y + right[i] * part / CELLS
            most = min(1.0, x + shares[i] * (part + 1) / CELLS)
            if left + sigma <= 1.0 + ROUNDING and growth(most, left, eta, sigma) < needed:
                bounded = False
        x, y = x + shares[i], y + right[i]
    if bounded:
        return True
    return k <= MOST_ENUMERATED and every_set_passes(shares, right, eta, sigma, needed)


@borrowing
def growth_if_right(tally, row, eta, sigma):
    """Return the growth per visit of the slowest set if the row is right, ignoring random fluctuation.

    Of the sets with x = y, those of one of the simulator's successors, of all others, and of the first few.
    """
    least = growth(0.0, 0.0, eta, sigma)
    n, first = np.int64(tally.simulator_length[row]), np.int64(tally.simulator_begin[row])
    total = 0.0
    for i in range(n):
        one = tally.probability[first + i]
        total += one
        for y in (one, total, 1.0 - one):
            if y + sigma <= 1.0:
                least = min(least, growth(y, y, eta, sigma))
    if n == 0 and 0.5 + sigma <= 1.0:
        least = min(least, growth(0.5, 0.5, eta, sigma))
    return least


@inner
def growth_as_seen(tally, row, S, eps, eta, sigma):
    """Return the growth per visit of the slowest set at the observed shares; minus infinity if the row is never cleared."""
    n, k, first = tally.visits[row], np.int64(tally.length[row]), np.int64(tally.begin[row])
    shares, right = np.empty(k), np.empty(k)
    for i in range(k):
        shares[i] = tally.count[first + i] / n
        right[i] = simulator_probability(tally, row, tally.successor[first + i], S)
        if right[i] <= 0.0 and eps <= 0.0:
            return -np.inf
    sorted_by_gain(shares, right)
    least, x, y = growth(0.0, 0.0, eta, sigma), 0.0, 0.0
    for i in range(k):
        x, y = min(1.0, x + shares[i]), y + right[i]
        if y + sigma <= 1.0 + ROUNDING:
            least = min(least, growth(x, y, eta, sigma))
    return least


@compiled
def visits_to_clear(tally, S, eps, eta, sigma, level, as_seen, out):
    """About how many visits in all clear each row, if it is right or, `as_seen`, if it stays as it is: `out` [R]."""
    for row in range(out.size):
        if as_seen and tally.visits[row] > 0:
            least = growth_as_seen(tally, row, S, eps, eta, sigma)
        else:
            least = growth_if_right(tally, row, eta, sigma)
        out[row] = level / least if least > 0.0 else np.inf


@compiled
def test_rows(tally, S, eps, eta, sigma, level, out):
    """`clears` of every row, into `out` [R]."""
    for row in range(out.size):
        out[row] = clears(tally, row, S, eps, eta, sigma, level)
