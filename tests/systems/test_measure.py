"""Algorithm 4, margins from rollouts, and cloned baselines."""

import math

import numpy as np
import pytest

import safe2real as s2r
from experiments.oracles.run_length_bounds import radius_after
from safe2real import radii
from safe2real.evidence.counts import Counts
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.exploration import collect, roll_out
from safe2real.radii import System
from safe2real.systems import WindyGrid
from safe2real.systems.measure import clone_baseline, estimate_margin, estimate_mismatch_gap

UNIFORM = s2r.MarkovPolicy.uniform(horizon=12, num_states=25, num_actions=4)


def grid_counts(grid: WindyGrid, episodes: int, seed: int = 0) -> Counts:
    counts = Counts(grid.simulator(), grid.horizon)
    collect(grid.cmdp(grid.real(), 10.71), UNIFORM, counts, episodes=episodes, seed=seed)
    return counts


def test_no_data_detects_nothing():
    estimate = estimate_mismatch_gap(Counts(WindyGrid.paper().simulator(), 12), delta=0.05)
    assert estimate.gap == 0.0
    assert not estimate.detected.any()
    assert estimate.largest_hidden == 1.0
    assert estimate.visited_share == 0.0


def test_detected_rows_are_mismatches_and_the_estimate_is_below_the_truth():
    """Proposition calibration: C is inside B, and once C = B the estimate is at most sigma_s and within two radii of it."""
    grid = WindyGrid.paper()
    truth = grid.mismatch()
    counts = grid_counts(grid, 40_000)
    estimate = estimate_mismatch_gap(counts, delta=0.05)
    assert (estimate.detected <= truth).all()
    np.testing.assert_array_equal(estimate.detected, truth)
    largest = max(float(radius) for radius in (estimate.upper_bounds - estimate.lower_bounds)[truth] / 2)
    assert 0.68 - 2 * largest - 1e-9 <= estimate.gap <= 0.68
    assert estimate.certified
    assert "conservative only if none does" in estimate.describe()


def test_a_hand_worked_estimate():
    """One row seen 400 times, 100 of them where the simulator never goes: distance 0.25."""
    kernel = s2r.Kernel.from_dense(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    model = s2r.CMDP.of(kernel, 1, 0)
    counts = Counts(kernel, 1)
    for t in range(400):
        counts.record(s2r.Trajectory.of(model, [0, int(t % 4 == 0)], [0]))
    estimate = estimate_mismatch_gap(counts, delta=0.1)
    beta = math.log(2 * 2 * 1 * 1 / 0.1) + 2 * math.log(8 * math.e * 401)
    assert estimate.gap == pytest.approx(0.25 - math.sqrt(beta / 800))
    assert estimate.detected.tolist() == [[True], [False]]
    assert estimate.undecided.tolist() == [[False], [True]]
    assert estimate_mismatch_gap(counts, delta=0.1, min_visits=401).gap == 0.0
    loose = estimate_mismatch_gap(counts, delta=0.1, radius=radii.Scaled(0.5))
    assert loose.gap == pytest.approx(0.25 - 0.5 * math.sqrt(beta / 800))
    assert "HEURISTIC" in loose.describe()
    assert radius_after(radii.Scaled(0.5), 400, System(2, 1, 1), 0.1) == pytest.approx(0.5 * math.sqrt(beta / 800))


def test_uncovered_mismatch_makes_the_estimate_too_large_and_says_so():
    """Trap 10: a baseline that never visits the weak mismatch overestimates sigma_s; the report shows the hidden rows."""
    grid = WindyGrid(windy=((3, 2), (1, 2)), wind=(0.8, 0.2))
    right = s2r.MarkovPolicy.deterministic(np.ones(25, dtype=int), num_actions=4, horizon=12)
    upright = 0.9 * right.probabilities + 0.1 * UNIFORM.probabilities
    counts = Counts(grid.simulator(), 12)
    collect(grid.cmdp(grid.real(), 5.0), s2r.MarkovPolicy.stochastic(upright), counts, episodes=60_000, seed=1)
    estimate = estimate_mismatch_gap(counts, delta=0.05)
    assert estimate.gap > grid.mismatch_gap()
    assert estimate.undecided[grid.state((1, 2))].any()
    assert estimate.largest_hidden > grid.mismatch_gap()


def test_margin_is_a_lower_confidence_bound():
    grid = WindyGrid.paper()
    model = grid.cmdp(grid.real(), 10.0)
    truth = s2r.planning.constraint_values(model, UNIFORM)[0]
    episodes = [roll_out(model, UNIFORM, seed=2, round_number=t) for t in range(3000)]
    estimate = estimate_margin(model, episodes, delta=0.05)
    assert estimate.lower_bounds[0] < truth
    assert estimate.lower_bounds[0] > truth - 12 * math.sqrt(math.log(2 / 0.05) / 6000) - 0.1
    assert estimate.margins[0] == pytest.approx(estimate.lower_bounds[0] - 10.0)
    few = estimate_margin(model, episodes[:50], delta=0.05)
    assert few.margins[0] < estimate.margins[0]
    assert estimate.lower_bounds[0] < truth < estimate.upper_bounds[0]
    # What no episode can change is known at once.
    constant = s2r.CMDP.of(grid.real(), 12, model.start, s2r.AtLeast(np.full((25, 4), 0.5), 1.0))
    sure = estimate_margin(constant, episodes[:1], delta=0.05)
    assert sure.lower_bounds == sure.upper_bounds == pytest.approx([6.0])


COIN = s2r.CMDP.of(  # an episode of one step that starts in either state: its sum is a fair coin
    s2r.Kernel.from_dense(np.full((2, 1, 2), 0.5)), 1, [0.5, 0.5], s2r.AtLeast([[0.0], [1.0]], 0.25, "heads")
)
SIDES = [s2r.Trajectory.of(COIN, [side, 0], [0]) for side in (0, 1)]


def test_margin_by_hand_for_a_coin():
    """The bound is `mean_bounds` at delta / K."""
    estimate = estimate_margin(COIN, [SIDES[1]] * 30 + [SIDES[0]] * 10, delta=0.1)
    low, high = mean_bounds([1.0] * 30 + [0.0] * 10, 0.1)
    assert (estimate.lower_bounds[0], estimate.upper_bounds[0]) == (low, high)
    assert estimate.means[0] == 0.75
    assert estimate.margins[0] == low - 0.25
    assert estimate.episodes == 40


@pytest.mark.parametrize("times", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_margin_may_be_looked_at_until_it_pleases(times):
    """Someone looks at every n and stops where the mean looks best against the truth, which is the worst there can be."""
    rng, misses = np.random.default_rng(5), 0
    for _ in range(times):
        sides = (rng.random(1_000) < 0.5).astype(int)
        n = np.arange(1, 1_001)
        stop = 10 + int(np.argmax(((np.cumsum(sides) - 0.5 * n) / np.sqrt(n))[9:]))
        episodes = [SIDES[side] for side in sides[:stop]]
        misses += estimate_margin(COIN, episodes, delta=0.05).lower_bounds[0] > 0.5
    assert misses / times <= 0.05


@pytest.mark.parametrize("times", [80, pytest.param(300, marks=pytest.mark.slow)])
def test_margin_covers_the_truth_as_often_as_it_says(times):
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5)), 3, 0, s2r.AtLeast([[0.0, 0.0], [1.0, 1.0]], 0.5))
    policy = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)
    truth = s2r.planning.constraint_values(model, policy)[0]
    misses = 0
    for repeat in range(times):
        episodes = [roll_out(model, policy, seed=repeat, round_number=t) for t in range(20)]
        misses += estimate_margin(model, episodes, delta=0.2).lower_bounds[0] > truth
    assert misses / times <= 0.2


def test_clone_counts_and_smooths():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5)), 2, 0)
    demonstrations = [s2r.Trajectory.of(model, [0, 0, 1], [1, 0]), s2r.Trajectory.of(model, [0, 1, 1], [1, 0])]
    pooled = clone_baseline(model, demonstrations, smoothing=1.0)
    np.testing.assert_allclose(pooled.probabilities[0], [[2 / 5, 3 / 5], [2 / 3, 1 / 3]])
    np.testing.assert_array_equal(pooled.probabilities[0], pooled.probabilities[1])
    exact = clone_baseline(model, demonstrations, smoothing=0.0)
    np.testing.assert_allclose(exact.probabilities[0], [[1 / 3, 2 / 3], [1, 0]])


def test_bad_input_is_named():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5)), 2, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    episode = s2r.Trajectory.of(model, [0, 0, 1], [1, 0])
    with pytest.raises(s2r.errors.InvalidInput, match="no episode was given"):
        estimate_margin(model, [], delta=0.1)
    with pytest.raises(s2r.errors.InvalidInput, match="no constraint"):
        estimate_margin(s2r.CMDP.of(model.kernel, 2), [episode, episode], delta=0.1)
    with pytest.raises(s2r.errors.InvalidInput, match="delta is 2"):
        estimate_margin(model, [episode, episode], delta=2.0)
    with pytest.raises(s2r.errors.InvalidInput, match="smoothing is -1"):
        clone_baseline(model, [episode], smoothing=-1.0)
    with pytest.raises(s2r.errors.InvalidInput, match="no demonstration"):
        clone_baseline(model, [])
    with pytest.raises(s2r.errors.InvalidInput, match="resolution is nan"):
        estimate_mismatch_gap(Counts(model.kernel, 2), delta=0.1, resolution=float("nan"))
    with pytest.raises(s2r.errors.InvalidInput, match="an episode is a tuple"):
        estimate_margin(model, [([0, 0, 1], [1, 0]), episode], delta=0.1)
    with pytest.raises(s2r.errors.InvalidInput, match="min_visits is 0"):
        estimate_mismatch_gap(Counts(model.kernel, 2), delta=0.1, min_visits=0)
