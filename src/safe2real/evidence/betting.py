"""The mean of bounded values, however often one looks: confidence sequences by betting.

Problem: independent values X_1, X_2, ... in [0, 1] with mean mu. Find bounds on mu from the first n of them that hold for
EVERY n at once with probability 1 - alpha: whoever looks after each value and stops when the answer pleases is covered too.

Algorithm: for a guess m of the mean and a fraction f in [0, 1], a gambler who begins with 1 and stakes f / m on every value
against m has the capital

    C_n(m, f) = product over i <= n of (1 - f + f X_i / m).

The gambler here splits the money over the fractions 1, 1/2, 1/4, ...: C_n(m) is the weighted mean over them. At m = mu it is
a nonnegative martingale that begins at 1 (each factor has mean 1 and is never negative), so by Ville's inequality it EVER
reaches 1 / alpha with probability at most alpha. Every factor falls as m rises, so the m with C_n(m) >= 1 / alpha are those
below some number, the lower bound, which bisection finds; while C_n(mu) < 1 / alpha it lies below mu. The upper bound is
one minus the lower bound of the 1 - X_i.

Nothing depends on the order of the values: sorting a log gains nothing. Bets that follow the variance seen so far (Waudby-
Smith and Ramdas, Journal of the Royal Statistical Society B 86, 2024, where the theory is) do not have that; they are
tighter for a hundred values and wider for ten thousand (docs/radii.md).
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, finite_floats, finite_number, probability_of_failure

# Halving the fraction loses at most 17 % of the growth of the best bet between two of them; sixteen reach to where a
# deviation of a few millionths of the range is seen. The weights favour large bets, which few values need.
_FRACTIONS: Floats = np.exp2(-np.arange(16.0))
_SHARES: Floats = 1.0 / np.arange(2.0, 18.0)
_LOG_WEIGHTS: Floats = np.log(_SHARES / _SHARES.sum())
_BISECTIONS = 60
_ROUNDING = 1e-9  # of a logarithm of capital, on the safe side
_MOST = 2**39


def mean_bounds(values: ArrayLike, alpha: float, *, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
    """(lower, upper) bounds on the mean of independent values in [low, high].

    EACH of them holds for all numbers of values at once with probability at least 1 - `alpha`; both together with 1 - 2
    alpha. Without a value they are `low` and `high`.
    """
    given = _units(values, low, high)
    scale = high - low
    if scale == 0.0:
        return low, high
    alpha = probability_of_failure("alpha", alpha)
    return low + scale * _lower(given, alpha), high - scale * _lower(1.0 - given, alpha)


def values_needed(
    mean: float, spread: float, target: float, alpha: float, *, low: float = 0.0, high: float = 1.0
) -> int | None:
    """About how many values of this mean and standard deviation put the lower bound of `mean_bounds` at `target`.

    An expectation, not a bound: the capital is taken to grow by its mean logarithm. None where no number of values does,
    because the mean is not above the target by more than the smallest bet sees.
    """
    alpha = probability_of_failure("alpha", alpha)
    ends = (finite_number("low", low), finite_number("high", high))
    scale = ends[1] - ends[0]
    if target <= ends[0]:
        return 1
    if mean <= target or scale <= 0.0:
        return None
    points, weights = _two_points((mean - ends[0]) / scale, spread / scale)
    goal = (target - ends[0]) / scale
    growth = weights @ np.log(np.maximum(_factors(points, goal), np.finfo(float).tiny))
    if growth.max() <= 0.0:
        return None
    needed = 1 + bisect_left(range(1, _MOST + 1), -math.log(alpha), key=lambda n: _log_sum(_LOG_WEIGHTS + n * growth))
    return needed if needed <= _MOST else None


def log_growth(units: Floats | float, m: float) -> Floats:
    """[n, fractions], or [fractions] of one value: logarithms of what values in [0, 1] multiply each bet against m by."""
    with np.errstate(divide="ignore"):  # a bet of everything is lost at the first 0
        growth = np.log(_factors(units, m))
    return growth if np.ndim(units) else np.asarray(growth[0])


def capital_reaches(growth: Floats, alpha: float) -> bool:
    """Whether the gambler whose bets have grown by `growth` [fractions] (logarithms) has 1 / alpha."""
    return _log_sum(_LOG_WEIGHTS + growth) >= _ROUNDING - math.log(alpha)


def _lower(units: Floats, alpha: float) -> float:
    """The largest m at which the capital has reached 1 / alpha; 0 where there is none."""
    different, times = np.unique(units, return_counts=True)
    below, above = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2.0
        growth = times @ log_growth(different, middle) if different.size else np.zeros(_FRACTIONS.size)
        below, above = (middle, above) if capital_reaches(growth, alpha) else (below, middle)
    return below


def _factors(units: Floats | float, m: float) -> Floats:
    """[n, fractions] what each value multiplies each bet by."""
    return np.asarray(1.0 - _FRACTIONS + np.outer(np.divide(units, m), _FRACTIONS))


def _two_points(mean: float, spread: float) -> tuple[Floats, Floats]:
    """Values in [0, 1] and their probabilities with this mean and deviation: evenly about the mean, or up to the end."""
    spread = min(spread, math.sqrt(max(0.0, mean * (1.0 - mean))))
    if spread <= min(mean, 1.0 - mean):
        return np.array([mean - spread, mean + spread]), np.array([0.5, 0.5])
    end = 1.0 if mean > 0.5 else 0.0
    other = mean + spread**2 / (mean - end)
    share = (mean - end) / (other - end)
    return np.array([other, end]), np.array([share, 1.0 - share])


def _log_sum(logarithms: Floats) -> float:
    largest = float(logarithms.max())
    return largest + math.log(float(np.exp(logarithms - largest).sum()))


def _units(values: ArrayLike, low: float, high: float) -> Floats:
    given = finite_floats("values", values)
    low, high = finite_number("low", low), finite_number("high", high)
    if given.ndim != 1 or low > high:
        raise InvalidInput(f"values have shape {given.shape}, in [{low:g}, {high:g}]; give numbers [n], and low <= high")
    outside = (given < low - 1e-9) | (given > high + 1e-9)
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidInput(
            f"values[{first}] is {given[first]:g}, outside [{low:g}, {high:g}]; give bounds that no value can leave"
        )
    return np.clip((given - low) / (high - low), 0.0, 1.0) if high > low else np.zeros(given.shape)
