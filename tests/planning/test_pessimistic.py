"""Plans over sets of rows: against every policy of tiny systems, against HiGHS, and against kernels inside the sets."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import safe2real as s2r
from safe2real.planning.certified_mixture import (
    Column,
    best_mixture,
    column_of,
    greedy_column,
    mix,
    trusted_column,
)
from safe2real.planning.robust import RowSets, ceiling, optimistic_policy, reach_of, worst_values

ROUNDING = 1e-9


def most_certifiable(balls, reward, first, prices):
    """No certified mixture has a worst V_r above this, whoever finds it; `first` is the trusted column, `prices` guesses.

    For any lambda >= 0 a mixture that meets the thresholds has L_r <= L_r + sum_k lambda_k (L_ck - threshold_k), linear in
    its parts. Of a part that is no baseline the sum of the worst values is at most the worst value of the sum, over one
    kernel, which the robust optimum of r + sum_k lambda_k c_k bounds; of the baseline it is what its column says.
    """
    model, least = balls.model, np.inf
    free = RowSets(model.with_constraints(0), balls.gaps, balls.reach, balls.divergences)
    for price in prices:
        weighted = reward + np.tensordot(price, model.utilities, axes=1) if price.size else reward
        others = greedy_column(free, weighted, np.ones(1)).line[0] - float(price @ model.thresholds)
        baseline = first.line[0] + float(price @ (first.line[1:] - model.thresholds))
        least = min(least, max(others, baseline))
    return float(least)


def random_balls(rng, *, H=2, S=2, A=2, K=1, per_step=False, likelihood=True):
    """A model with TV balls and, around some rows, KL balls; every utility may change with the step."""
    lead = (H,) if per_step else ()
    rows = rng.dirichlet(np.ones(S), size=(*lead, S, A))
    utilities = [s2r.AtLeast(rng.random((H, S, A)), float(0.3 * H * rng.random())) for _ in range(K)]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), H, rng.dirichlet(np.ones(S)), utilities)
    count = model.kernel.num_rows
    gaps = rng.choice([0.0, 0.05, 0.3, 1.0], size=count)
    divergences = np.where(rng.random(count) < 0.5 * likelihood, 0.2 * rng.random(count), np.inf)
    return RowSets(model, gaps, reach_of(None, model.kernel), divergences)


def deterministic_policies(model):
    H, S, A = model.shape
    for choice in itertools.product(range(A), repeat=H * S):
        yield s2r.MarkovPolicy.deterministic(np.reshape(choice, (H, S)), num_actions=A)


@pytest.mark.parametrize("seed", range(12))
def test_the_carried_numbers_are_the_policys_own_worst_values(seed):
    rng = np.random.default_rng(seed)
    balls = random_balls(rng, H=3, S=3, K=seed % 3, per_step=seed % 2 == 0)
    reward = rng.random((1 if seed % 4 else 3, 3, 2))
    for prices in (np.zeros(seed % 3), rng.exponential(size=seed % 3)):
        column = greedy_column(balls, reward, prices)
        expected = [balls.worst(column.policy, reward), *balls.worst_constraints(column.policy)]
        assert column.line == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_without_constraints_the_greedy_policy_has_the_best_worst_case_of_all(seed):
    rng = np.random.default_rng(seed)
    balls = random_balls(rng, H=3, S=2, K=0, per_step=seed % 2 == 0)
    reward = rng.random((3, 2, 2))
    best = max(balls.worst(policy, reward) for policy in deterministic_policies(balls.model))
    assert greedy_column(balls, reward, np.empty(0)).line[0] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_search_is_near_the_best_certified_mixture_of_all_policies(seed):
    rng = np.random.default_rng(seed)
    balls = random_balls(rng, K=1 + seed % 2)
    model, reward = balls.model, rng.random((2, 2, 2))
    baseline = s2r.MarkovPolicy.uniform(horizon=2, num_states=2, num_actions=2)
    trusted = np.maximum(model.thresholds + 0.05, balls.worst_constraints(baseline))
    first = trusted_column(balls, baseline, reward, trusted)
    everything = [first, *(column_of(balls, policy, reward) for policy in deterministic_policies(model))]
    best = mix(everything, model.thresholds)
    found = best_mixture(balls, reward, [first])
    bound = most_certifiable(balls, reward, first, [found.prices, best.prices, np.zeros(model.num_constraints)])
    assert best.value <= bound + ROUNDING
    assert found.value <= best.value + ROUNDING
    assert found.value >= best.value - 0.1 * abs(best.value)
    assert (found.lower_bounds >= model.thresholds - ROUNDING).all()


def highs(lines, thresholds):
    answer = linprog(
        -lines[:, 0],
        A_ub=-lines[:, 1:].T if thresholds.size else None,
        b_ub=-thresholds if thresholds.size else None,
        A_eq=np.ones((1, len(lines))),
        b_eq=[1.0],
        method="highs",
    )
    assert answer.status == 0
    return -answer.fun, -answer.ineqlin.marginals


@pytest.mark.parametrize("constraints", [0, 1, 2, 3])
def test_a_mixture_is_optimal_and_its_prices_prove_it(constraints):
    rng = np.random.default_rng(constraints)
    policy = s2r.MarkovPolicy.uniform(horizon=1, num_states=1, num_actions=1)
    for _ in range(300):
        lines = rng.random((rng.integers(1, 9), 1 + constraints))
        thresholds = np.minimum(rng.random(constraints), lines[0, 1:] - 0.01)
        found = mix([Column(policy, line) for line in lines], thresholds)
        value, _ = highs(lines, thresholds)
        assert found.value == pytest.approx(value, abs=1e-8)
        assert found.weights.sum() == pytest.approx(1.0)
        assert (found.weights >= 0.0).all()
        assert (found.lower_bounds >= thresholds).all()  # the library's own sum; another order of terms rounds otherwise
        assert found.lower_bounds == pytest.approx(found.weights @ lines[:, 1:], abs=1e-14)
        assert (found.prices >= 0.0).all()
        dual = (lines[:, 0] + (lines[:, 1:] - thresholds) @ found.prices).max()
        assert dual == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_an_index_on_a_guess_is_judged_there_and_safety_over_the_sets(seed):
    rng = np.random.default_rng(seed)
    balls = random_balls(rng, H=3, S=3, K=1)
    guess = balls.model.with_kernel(s2r.Kernel.from_dense(rng.dirichlet(np.ones(3), size=(3, 2))))
    nothing = RowSets(guess, np.zeros(6), balls.reach)
    index = 50.0 * rng.random((1, 3, 2))
    column = greedy_column(balls, index, np.array([2.0]), nothing)
    assert column.line[0] == pytest.approx(s2r.evaluate(guess, column.policy, index[0]))
    assert column.line[1] == pytest.approx(balls.worst_constraints(column.policy)[0])


def kernels_inside(balls, rng, count):
    """Kernels in the TV balls around stationary rows, as far as each allows."""
    dense = balls.model.kernel.to_dense()
    for _ in range(count):
        target = rng.dirichlet(np.full(dense.shape[-1], 0.3), size=dense.shape[:-1])
        distance = 0.5 * np.abs(target - dense).sum(axis=-1)
        share = np.minimum(1.0, balls.gaps.reshape(distance.shape) / np.maximum(distance, 1e-12))
        yield s2r.Kernel.from_dense(dense + share[..., None] * (target - dense))


@pytest.mark.parametrize("seed", range(6))
def test_values_and_ceiling_hold_on_kernels_of_the_sets(seed):
    rng = np.random.default_rng(seed)
    balls = random_balls(rng, H=3, S=3, K=1 + seed % 2, likelihood=False)
    model, reward = balls.model, rng.random((1, 3, 2))
    policy = s2r.MarkovPolicy.stochastic(rng.dirichlet(np.ones(2), size=(3, 3)))
    lower, upper = worst_values(balls, policy, reward), -worst_values(balls, policy, -reward)
    assert model.start @ lower[0] == pytest.approx(balls.worst(policy, reward))
    best, values = optimistic_policy(balls, reward)
    assert model.start @ values[0] == pytest.approx(balls.best(reward))
    assert (values >= upper - ROUNDING).all()
    assert -worst_values(balls, best, -reward) == pytest.approx(values)
    top = ceiling(balls, reward, np.full(model.num_constraints, 0.5))
    for kernel in kernels_inside(balls, rng, 20):
        truth = model.with_kernel(kernel)
        real = s2r.planning.value_functions(truth, policy, reward[0])
        assert (lower <= real + ROUNDING).all()
        assert (real <= upper + ROUNDING).all()
        optimum = s2r.solve(truth, reward[0])
        assert not optimum.is_feasible or optimum.value <= top.value + ROUNDING


@pytest.mark.parametrize("seed", range(10))
def test_the_ceiling_is_as_low_as_a_fine_search_finds(seed):
    rng = np.random.default_rng(seed)
    balls = random_balls(rng, H=4, S=4, A=3, K=1)
    model, reward = balls.model, rng.random((1, 4, 3))
    grid = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 400)])
    fine = min(balls.best(reward + price * model.utilities[0]) - price * model.thresholds[0] for price in grid)
    for guess in (0.0, 0.3, 40.0, np.inf):
        found = ceiling(balls, reward, np.array([guess]))
        assert found.value == pytest.approx(min(4.0, fine), rel=5e-3)
        at = balls.best(reward + found.prices[0] * model.utilities[0]) - found.prices[0] * model.thresholds[0]
        assert found.value == pytest.approx(min(4.0, at))


@pytest.mark.parametrize("seed", range(6))
def test_a_threshold_that_binds_lowers_the_ceiling_by_what_it_costs(seed):
    """What is safe is what earns little, 1 - r: whatever the kernel, V_r is at most the horizon minus the threshold."""
    rng = np.random.default_rng(seed)
    rows, reward = rng.dirichlet(np.ones(4), size=(4, 3)), rng.random((1, 4, 3))
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 4, 0, s2r.AtLeast(1.0 - reward[0], 0.0))
    balls = RowSets(model, rng.choice([0.05, 0.3], size=12), reach_of(None, model.kernel))
    lowest, highest = -balls.best(-reward), balls.best(reward)
    allowed = 0.5 * (lowest + highest)
    tight = RowSets(model.with_thresholds(np.array([4.0 - allowed])), balls.gaps, balls.reach)
    for guess in (0.0, 0.5, 7.0):
        found = ceiling(tight, reward, np.array([guess]))
        assert found.value == pytest.approx(allowed, rel=5e-3)
        assert found.value >= allowed - ROUNDING
        assert found.prices[0] > 0.5
