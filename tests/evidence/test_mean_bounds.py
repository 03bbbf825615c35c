"""Bounds on a mean that may be looked at after every value: by hand, against brute force, and under optional stopping.

The bound that runs along is compared with the one that is computed from all values, and attacked.
"""

import math

import numpy as np
import pytest

from safe2real.errors import InvalidInput
from safe2real.evidence.mean_bounds import RunningLower, mean_bounds, values_needed

FRACTIONS = [0.5**j for j in range(16)]
WEIGHTS = np.array([1.0 / (j + 2) for j in range(16)]) / sum(1.0 / (j + 2) for j in range(16))


def capital(values, m):
    """What the gambler has, multiplied out one value at a time."""
    held = WEIGHTS.copy()
    for x in values:
        held = held * [1.0 - f + f * x / m for f in FRACTIONS]
    return held.sum()


def test_the_lower_bound_is_where_the_capital_reaches_one_over_alpha():
    rng = np.random.default_rng(0)
    for values in (rng.random(30), rng.integers(0, 2, 40).astype(float), np.full(25, 0.7), np.array([0.3])):
        low, high = mean_bounds(values, 0.1)
        assert 0.0 <= low < values.mean() < high <= 1.0
        assert capital(values, low) == pytest.approx(10.0, rel=1e-6)
        assert capital(1.0 - values, 1.0 - high) == pytest.approx(10.0, rel=1e-6)
        assert capital(values, low + 1e-6) < 10.0


def test_one_value_by_hand():
    """Of one value 1 the bet of fraction f makes 1 - f + f / m: in all (1 - F) + F / m with F the mean fraction."""
    mean_fraction = float(WEIGHTS @ FRACTIONS)
    low, high = mean_bounds([1.0], 0.1)
    assert low == pytest.approx(mean_fraction / (10.0 - 1.0 + mean_fraction), rel=1e-6)
    assert high == 1.0
    assert mean_bounds([], 0.1) == (0.0, 1.0)


def test_the_order_of_the_values_does_not_matter_and_their_range_does():
    values = np.random.default_rng(1).random(50)
    assert mean_bounds(values, 0.05) == mean_bounds(values[::-1], 0.05)
    assert mean_bounds(3.0 * values - 1.0, 0.05, low=-1.0, high=2.0) == pytest.approx(
        [3.0 * end - 1.0 for end in mean_bounds(values, 0.05)]
    )
    wider = mean_bounds(values, 0.05, low=-1.0, high=2.0)
    assert wider[0] < mean_bounds(values, 0.05)[0]
    assert wider[1] > mean_bounds(values, 0.05)[1]
    assert mean_bounds([2.0, 2.0], 0.05, low=2.0, high=2.0) == (2.0, 2.0)


def test_more_of_the_same_values_narrow_the_bounds():
    values = np.tile([0.0, 1.0, 1.0, 0.5], 10)
    ends = [mean_bounds(np.tile(values, n), 0.05) for n in (1, 10, 100)]
    assert ends[0][0] < ends[1][0] < ends[2][0] < values.mean() < ends[2][1] < ends[1][1] < ends[0][1]
    strict, loose = mean_bounds(values, 0.01), mean_bounds(values, 0.2)
    assert strict[0] < loose[0]
    assert loose[1] < strict[1]


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match=r"values\[1\] is 1.5, outside \[0, 1\]"):
        mean_bounds([0.5, 1.5], 0.1)
    with pytest.raises(InvalidInput, match="values have shape"):
        mean_bounds([[0.5]], 0.1)
    with pytest.raises(InvalidInput, match="alpha is 0"):
        mean_bounds([0.5], 0.0)


# How many values


def test_how_many_values_where_nothing_varies_is_exact():
    """Then the expectation of the logarithm is the logarithm, and the number can be counted out."""
    for mean, target in ((1.0, 0.8), (0.6, 0.5), (0.9, 0.89)):
        needed = values_needed(mean, 0.0, target, 0.05)
        assert mean_bounds(np.full(needed, mean), 0.05)[0] >= target - 1e-9
        assert mean_bounds(np.full(needed - 1, mean), 0.05)[0] < target


@pytest.mark.slow  # where nothing varies, the number is exact: see above
@pytest.mark.parametrize(("p", "target"), [(0.5, 0.4), (0.9, 0.8), (0.99, 0.95)])
def test_how_many_values_of_a_coin_is_about_what_it_takes(p, target):
    """The median over 60 coins of the first look, at every value, at which the bound is there."""
    needed = values_needed(p, math.sqrt(p * (1.0 - p)), target, 0.05)
    rng, first = np.random.default_rng(4), []
    for _ in range(60):
        values = (rng.random(6 * needed) < p).astype(float)
        looks = np.unique(np.geomspace(5, values.size, 60).astype(int))
        first.append(next((n for n in looks if mean_bounds(values[:n], 0.05)[0] >= target), values.size))
    assert np.median(first) == pytest.approx(needed, rel=0.35)


def test_no_number_of_values_shows_what_is_not_there():
    assert values_needed(0.5, 0.1, 0.5, 0.05) is None
    assert values_needed(0.5, 0.1, 0.6, 0.05) is None
    assert values_needed(0.5, 0.1, 0.0, 0.05) == 1
    assert values_needed(2.0, 0.0, 1.5, 0.05, low=0.0, high=3.0) == values_needed(2 / 3, 0.0, 0.5, 0.05)


# Optional stopping


def ever_outside(draw, mean, alpha, runs, length, seed):
    """The share of runs in which a bound EVER excludes the true mean, looked at after every one of `length` values.

    The capital at the true mean decides it: the bound excludes the mean exactly when that has reached 1 / alpha.
    """
    rng, outside = np.random.default_rng(seed), np.zeros(2)
    logs = np.log(WEIGHTS)
    for _ in range(runs):
        values = draw(rng, length)
        for side, (xs, m) in enumerate(((values, mean), (1.0 - values, 1.0 - mean))):
            with np.errstate(divide="ignore"):
                grown = np.cumsum(np.log(1.0 - np.array(FRACTIONS) + np.outer(xs / m, FRACTIONS)), axis=0) + logs
            largest = grown.max(axis=1)
            held = largest + np.log(np.exp(grown - largest[:, None]).sum(axis=1))
            outside[side] += bool((held >= -math.log(alpha)).any())
    return outside / runs


RETURNS = {
    "fair coin": (lambda rng, n: (rng.random(n) < 0.5).astype(float), 0.5),
    "rare failure": (lambda rng, n: (rng.random(n) < 0.95).astype(float), 0.95),
    "hardly varies": (lambda rng, n: 0.8 + 0.1 * (rng.random(n) - 0.5), 0.8),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
}


@pytest.mark.parametrize("name", RETURNS)
def test_looking_after_every_value_fails_no_more_often_than_said(name):
    draw, mean = RETURNS[name]
    assert (ever_outside(draw, mean, 0.05, 300, 300, seed=7) <= 0.05).all()


def test_what_decides_the_coverage_is_what_the_bound_does():
    values = (np.random.default_rng(3).random(200) < 0.5).astype(float)
    for n in (20, 100, 200):
        assert (mean_bounds(values[:n], 0.3)[0] >= 0.5) == (capital(values[:n], 0.5) >= 1.0 / 0.3)


def fixed_number_ever_outside(draw, mean, alpha, runs, length, seed):
    """The same for a bound made for ONE number of values (Hoeffding's and Bernstein's, the better): for comparison."""
    rng, outside = np.random.default_rng(seed), 0
    n, one, two = np.arange(2, length + 1), math.log(2.0 / alpha), math.log(4.0 / alpha)
    for _ in range(runs):
        values = draw(rng, length)
        means, squares = np.cumsum(values)[1:] / n, np.cumsum(values**2)[1:]
        spread = np.sqrt(np.maximum(0.0, (squares - n * means**2) / (n - 1)))
        width = np.minimum(np.sqrt(one / (2 * n)), spread * np.sqrt(2 * two / n) + 7 * two / (3 * (n - 1)))
        outside += bool((means - width > mean).any())
    return outside / runs


@pytest.mark.slow
@pytest.mark.parametrize("name", RETURNS)
def test_looking_after_every_value_for_long(name):
    """2,000 runs of 10,000 values, both sides; the share ever outside must stay below delta, 5 %."""
    draw, mean = RETURNS[name]
    shares = ever_outside(draw, mean, 0.05, 2_000, 10_000, seed=11)
    print(f"\n{name}: lower bound ever above the mean {shares[0]:.4f}, upper ever below {shares[1]:.4f}")
    assert (shares <= 0.05).all()


@pytest.mark.slow
def test_a_bound_for_one_number_of_values_does_not_survive_looking():
    """The test above can fail: what is right at every single n is wrong at some n too often."""
    draw, mean = RETURNS["fair coin"]
    assert fixed_number_ever_outside(draw, mean, 0.05, 4_000, 10_000, seed=11) > 0.06


# As values come in, one after the other

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
