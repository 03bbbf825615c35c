"""The radii written a second time, from their docstrings."""

import math
from collections.abc import Callable
from functools import cache

from safe2real import radii

TIGHT = [radii.KL(), radii.Union(), radii.Stitched(), radii.Adaptive()]


def kl_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    return math.sqrt((math.log(rows / delta) + (m - 1) * math.log(math.e * (1 + n / (m - 1)))) / (2 * n))


@cache
def log_subsets(m: int) -> float:
    """log(2^m - 2) by whole numbers of any length."""
    return math.log(2**m - 2)


def union_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    return math.sqrt((log_subsets(m) + math.log(rows / delta) + math.log(n * (n + 1))) / (2 * n))


def stitched_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    price = math.log(5.2) + log_subsets(m) + math.log(rows / delta)
    return 0.85 * math.sqrt((math.log(math.log(2 * n)) + 0.72 * price) / n)


@cache
def share_by_formula(m: int, members: int) -> float:
    """log(1 / share) of one set of so many of m successors: all alike up to ten, else 1 / (j (j + 1)) for each number j."""
    if m <= 10:
        return log_subsets(m)
    return math.log(math.comb(m, members) * members * (members + 1))


@cache
def dearest_by_formula(m: int, most: int) -> float:
    return max(share_by_formula(m, j) for j in range(1, most + 1))


def adaptive_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    """Boundary of the mean of two half-normal mixtures with variance proxies n / 4, tuned for 20 and 1000 visits.

    A mixture with prior precision rho over exponential supermartingales of variance v exceeds 1 / a while the deviation is
    above sqrt(2 (v + rho) log(1/2 + sqrt((v + rho) / rho) / (2 a))).
    """
    price = dearest_by_formula(m, min(seen, m - 1))
    level = math.log(2.0) + price + math.log(rows / delta)  # each mixture has half of the set's share
    squares = []
    for tuned in (20 / 4, 1000 / 4):
        total = n / 4 + tuned
        log_ratio = level + 0.5 * math.log(total / tuned)
        # for exponents that a float cannot hold, the 1/2 is lost in rounding
        inside = math.log(0.5 + 0.5 * math.exp(log_ratio)) if log_ratio < 700 else log_ratio - math.log(2.0)
        squares.append(2 * total * inside)
    return math.sqrt(min(squares)) / n


FORMULAS: dict[type, Callable[[int, int, int, int, float], float]] = {
    radii.KL: kl_by_formula,
    radii.Union: union_by_formula,
    radii.Stitched: stitched_by_formula,
    radii.Adaptive: adaptive_by_formula,
}
