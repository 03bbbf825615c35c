"""KL balls: each part of the mixture by brute force, and their coverage at all times."""

import math
from typing import Any

import numpy as np
import pytest
from numba import njit
from scipy.optimize import minimize
from scipy.special import gammaln

from safe2real._compiled import likelihood
from tests.compiled.calling import likelihood_bound, local_bound

Array = np.ndarray[Any, Any]


def local_test(p: Array, counts: Array, near: Array, size: int, run: float) -> float:
    """log of Dirichlet(run p + prior) likelihood over p's own, for counts > 0; p may leave mass for others."""
    n, b = counts.sum(), run * p + np.where(near, 0.5, 0.0)
    total = run + 0.5 * size
    numerator = gammaln(total) - gammaln(total + n) + (gammaln(b + counts) - gammaln(b)).sum()
    return float(numerator - counts @ np.log(p))


def farthest(counts: Array, near: Array, size: int, run: float, level: float) -> float:
    """The largest sum of counts log(observed / p) over the p that the local test does not reject, by search."""
    observed = counts / counts.sum()

    def unpack(z: Array) -> Array:
        with_rest = np.exp(np.clip(np.append(z, 0.0), -60.0, 60.0))  # the last: mass for successors not seen
        return np.asarray(with_rest[:-1] / with_rest.sum())

    best = 0.0
    for start in range(6):
        rng = np.random.default_rng(start)
        z = np.log(observed) + 3.0 + rng.normal(scale=0.3 * start, size=counts.size)
        answer = minimize(
            lambda z: -counts @ np.log(observed / unpack(z)),
            z,
            constraints={"type": "ineq", "fun": lambda z: level - local_test(unpack(z), counts, near, size, run)},
            method="SLSQP",
            options={"maxiter": 300},
        )
        if local_test(unpack(answer.x), counts, near, size, run) <= level + 1e-6:
            best = max(best, float(-answer.fun))
    return best


def test_the_local_part_bounds_everything_that_its_test_allows() -> None:
    rng = np.random.default_rng(1)
    close = 0
    for case in range(40):
        k, size = int(rng.integers(1, 5)), int(rng.integers(5, 9))
        counts = rng.integers(1, 10 ** int(rng.integers(1, 4)), size=k).astype(float)
        near = rng.random(k) < 0.8
        run, level = float(rng.choice([30.0, 300.0, 5000.0])), float(rng.uniform(2.0, 12.0))
        bound = local_bound(counts, counts.sum(), near, size, run, level)
        reached = farthest(counts, near, size, run, level)
        assert reached <= bound + 1e-4 * max(1.0, bound), case
        close += reached >= 0.7 * bound
    assert close >= 10  # and it is not a loose one where the run fits the counts


def test_the_other_parts_are_the_definition() -> None:
    counts, right = np.array([3.0, 1.0]), np.array([0.5, 0.25])
    n, level, all_near = 4.0, 3.0, True
    observed = 3 * math.log(0.75) + math.log(0.25)
    simulated = 3 * math.log(0.5) + math.log(0.25)
    dirichlet = sum(math.lgamma(c + 0.5) - math.lgamma(0.5) for c in (3, 1)) + math.lgamma(1.5) - math.lgamma(5.5)
    expected = min(
        level + math.log(4.0) + observed - simulated,
        level + math.log(4.0) + observed - dirichlet,
        *(local_bound(counts, n, np.ones(2, dtype=bool), 3, run, level - math.log(w)) for run, w in local_parts()),
    )
    found = likelihood_bound(counts, right, np.ones(2, dtype=bool), n, 3, 0, all_near, level)
    assert found == expected
    # a successor that the simulator rules out leaves the other parts
    without = likelihood_bound(counts, np.array([1.0, 0.0]), np.ones(2, dtype=bool), n, 3, 0, all_near, level)
    assert without >= found
    assert math.isfinite(without)


def local_parts() -> list[tuple[float, float]]:
    weights = [*likelihood.LOCAL, likelihood.SIMULATOR, likelihood.DIRICHLET]
    assert sum(weights) == 1.0
    return [(float(run), float(weight)) for run, weight in zip(likelihood.RUNS, likelihood.LOCAL, strict=True)]


@njit
def ever_outside(seed, laws, right, near, size, near_size, level, visits):  # type: ignore[no-untyped-def]
    """How many rows with `laws` [rows, m] ever have n KL(observed, real) above the bound; looked at while visits double
    32 times over, and at each of the first 64.
    """
    np.random.seed(seed)
    rows, m = laws.shape
    found = 0
    for row in range(rows):
        counts = np.zeros(m)
        look = 1
        for n in range(1, visits + 1):
            u, drawn = np.random.random(), 0
            while drawn < m - 1 and u >= laws[row, drawn]:
                u -= laws[row, drawn]
                drawn += 1
            counts[drawn] += 1.0
            if n < look:
                continue
            look = n + 1 + n // 64
            seen = counts > 0.0
            away = 0.0
            for i in range(m):
                if counts[i] > 0.0:
                    away += counts[i] * np.log(counts[i] / (n * laws[row, i]))
            all_near = True
            for i in range(m):
                all_near = all_near and (near[i] or counts[i] == 0.0)
            bound = likelihood.likelihood_bound(
                counts[seen], right[row][seen], near[seen], float(n), size, near_size, all_near, level
            )
            if away > bound:
                found += 1
                break
    return found


@pytest.mark.parametrize("rows", [60, pytest.param(1_000, marks=pytest.mark.slow)])
def test_rows_hardly_ever_leave_their_kl_ball(rows: int) -> None:
    """At level 0.1, a row each: the share EVER outside must be at most that, with and without near successors."""
    rng, alpha = np.random.default_rng(11), 0.1
    ever, followed = 0, 0
    for m in (2, 3, 6, 25):
        for concentration in (0.2, 1.0, 20.0):
            laws = rng.dirichlet(np.full(m, concentration), size=rows) * (1.0 - 1e-12) + 1e-12 / m
            right = rng.dirichlet(np.full(m, concentration), size=rows)
            right[: rows // 2] = laws[: rows // 2]
            near = np.arange(m) < max(1, m // 2)
            for near_size in (0, int(near.sum())):
                usable = near if near_size else np.ones(m, dtype=bool)
                ever += ever_outside(5, laws, right, usable, m, near_size, math.log(1.0 / alpha), 3_000)
                followed += rows
    assert ever <= alpha * followed
    assert ever > 0 or rows < 500
