"""The bound that is looked at after every value: against the one that is computed from all of them, and under attack."""

import numpy as np
import pytest

from safe2real.errors import InvalidInput
from safe2real.evidence.mean_bounds import RunningLower, mean_bounds

ALPHA = 0.05


def samples(n=80):
    rng = np.random.default_rng(4)
    return [rng.random(n), (rng.random(n) < 0.9).astype(float), 1.0 - 0.02 * rng.random(n), np.zeros(n), np.ones(n)]


@pytest.mark.parametrize("values", samples())
def test_it_is_the_best_bound_so_far_to_within_a_step_of_the_grid(values):
    running, best = RunningLower(ALPHA), 0.0
    for n, value in enumerate(values, 1):
        before = running.bound
        assert running.add(value) == (running.bound > before)
        best = max(best, mean_bounds(values[:n], ALPHA)[0])
        assert running.bound <= best + 1e-9
        assert running.bound >= best - 1.1e-3 * min(best, 1.0 - best) - 2e-6, n
    assert running.count == values.size
    assert running.mean == pytest.approx(values.mean())


def test_the_range_scales_and_no_value_may_leave_it():
    values = samples()[0]
    plain, wide = RunningLower(ALPHA), RunningLower(ALPHA, low=-2.0, high=8.0)
    for value in values:
        plain.add(value)
        wide.add(10.0 * value - 2.0)
    assert wide.bound == pytest.approx(10.0 * plain.bound - 2.0, abs=0.05)
    for outside in (-2.1, 8.1, np.nan):
        with pytest.raises(InvalidInput, match="give a range that no value can leave"):
            wide.add(outside)
    assert wide.count == values.size
    certain = RunningLower(ALPHA, low=3.0, high=3.0)
    certain.add(3.0)
    assert certain.bound == 3.0


def test_a_block_is_one_step_whatever_its_order():
    values = np.sort(samples()[1])  # all failures first, or all successes first
    bounds = set()
    for block in (values, values[::-1], np.random.default_rng(0).permutation(values)):
        running = RunningLower(ALPHA)
        running.add(0.5)
        running.add_block(block)
        bounds.add(running.bound)
    assert len(bounds) == 1
    one_by_one = RunningLower(ALPHA)
    for value in values[::-1]:  # a log that was sorted must not be looked at on the way
        one_by_one.add(value)
    assert one_by_one.bound > values.mean() > bounds.pop()
    assert not running.add_block([])


def _ever_above(draw, mean, runs, length):
    missed = 0
    for run in range(runs):
        running, rng = RunningLower(ALPHA), np.random.default_rng([run, 9])
        for value in draw(rng, length):
            if running.add(value) and running.bound > mean:
                missed += 1
                break
    return missed / runs


ATTACKS = [
    (lambda rng, n: (rng.random(n) < 0.5).astype(float), 0.5),
    (lambda rng, n: np.where(rng.random(n) < 0.02, 0.0, 0.9), 0.98 * 0.9),  # rare big losses
    (lambda rng, n: (rng.random(n) < 0.97).astype(float), 0.97),
]


@pytest.mark.parametrize(("draw", "mean"), ATTACKS)
def test_looking_after_every_value_it_is_ever_wrong_no_more_often_than_said(draw, mean):
    assert _ever_above(draw, mean, runs=60, length=100) <= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("draw", "mean"), ATTACKS)
def test_the_same_for_long(draw, mean):
    assert _ever_above(draw, mean, runs=150, length=1_000) <= ALPHA
