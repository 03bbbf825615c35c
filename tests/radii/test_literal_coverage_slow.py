"""The literal radius against simulated rows, at every visit (make slow)."""

import numpy as np
import pytest
from numba import njit

from experiments.oracles.run_length_bounds import radius_after
from safe2real import radii
from safe2real.radii import System

pytestmark = pytest.mark.slow

SHAPES = {
    "point": np.array([1.0, 0.0, 0.0]),
    "coin": np.array([0.5, 0.5]),
    "uniform": np.full(10, 0.1),
    "skewed": np.array([0.9, 0.05, 0.03, 0.02]),
}


@njit
def ever_outside(seed, probabilities, radii, rows):
    """How many of `rows` independent rows have an empirical TV distance above radii[n] at any n >= 1."""
    np.random.seed(seed)
    size, length = probabilities.size, radii.size
    cumulative = np.cumsum(probabilities)
    outside = 0
    for _ in range(rows):
        counts = np.zeros(size)
        for n in range(1, length):
            k = min(np.searchsorted(cumulative, np.random.random(), side="right"), size - 1)
            counts[k] += 1.0
            distance = 0.0
            for i in range(size):
                distance += abs(counts[i] / n - probabilities[i])
            if 0.5 * distance > radii[n]:
                outside += 1
                break
    return outside


def coverage(radius, delta: float) -> float:
    outside = 0
    for i, probabilities in enumerate(SHAPES.values()):
        # One row's share of the union bound: S A H = S rows of a system with one action and one step.
        system = System(num_states=len(probabilities), num_actions=1, horizon=1)
        radii = np.array([1.0] + [radius_after(radius, n, system, delta) for n in range(1, 1001)])
        outside += ever_outside(i, probabilities, radii, 25_000)
    return outside / 100_000


def test_radius_covers_over_100_000_rows():
    assert coverage(radii.Literal(), 0.05) <= 0.05
    # The test can fail: a radius scaled down far enough leaves out most rows.
    assert coverage(radii.Scaled(0.25), 0.05) > 0.05
