"""Plans over sets of kernels against the extended linear program, and against what is known without one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import safe2real as s2r
from experiments.oracles.extended_program import extended_program
from experiments.related.rectangular import balls, boxes, priced, solve_optimistic
from safe2real.errors import InvalidInput
from tests.planning.balls import best_value
from tests.random_models import Recipe, build

STATUS = s2r.planning.Status
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
KINDS = ("dense", "sparse", "deterministic", "uniform", "mixed", "tiny")
UTILITIES = ("random", "constant", "binary", "step")
THRESHOLDS = ("active", "just", "random", "infeasible", "inactive", "active")


def instance(seed):
    """A system with sets around its rows, and a reward; two in three sets are boxes."""
    rng = np.random.default_rng([seed, 11])
    sizes = {"num_states": int(rng.integers(2, 6)), "num_actions": int(rng.integers(1, 4))}
    recipe = Recipe(
        seed=seed,
        **sizes,
        horizon=int(rng.integers(1, 6)),
        constraints=(1, 1, 2, 3, 0)[seed % 5],
        per_step=seed % 2 == 0,
        rows=KINDS[seed % 6],
        utilities=UTILITIES[seed % 4],
        threshold=THRESHOLDS[seed // 7 % 6],
        spread_start=seed % 3 > 0,
    )
    model, reward = build(recipe)
    if seed % 3 == 0:
        return balls(model, 0.25 * rng.random(model.kernel.shape)), reward
    scale, rest = 0.2 * rng.random(), 0.05 * rng.random(model.kernel.num_rows)
    return boxes(model, lambda p, row: scale * np.sqrt(p * (1.0 - p)) + rest[row]), reward


def check(seed):
    """One instance against HiGHS; its status."""
    sets, reward = instance(seed)
    model, found = sets.model, solve_optimistic(sets, reward)
    program = linprog(**extended_program(sets, reward), method="highs", options=EXACT)
    assert program.status in (0, 2), program.message
    assert found.is_feasible == (program.status == 0)
    if found.is_feasible:
        assert found.status is STATUS.OPTIMAL
        assert found.value == pytest.approx(-program.fun, abs=1e-8)
        assert found.bound >= found.value - 1e-9
        assert (found.constraint_values >= model.thresholds - 1e-9).all()
    return found.status


@pytest.mark.parametrize("part", range(3))
def test_it_is_the_extended_linear_program(part):
    found = {check(seed) for seed in range(part * 12, part * 12 + 12)}
    assert STATUS.OPTIMAL in found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_it_is_the_extended_linear_program_on_500_instances(part):
    found = [check(seed) for seed in range(part * 50, part * 50 + 50)]
    assert found.count(STATUS.OPTIMAL) > 25
    assert STATUS.INFEASIBLE in found


def test_sets_of_one_kernel_leave_the_plan_of_that_kernel():
    for seed in (1, 2, 7, 13):
        sets, reward = instance(seed)
        model = sets.model
        exact = s2r.solve(model, reward)
        for alone in (boxes(model, lambda p, row: 0.0 * p), balls(model, np.zeros(model.kernel.shape))):
            found = solve_optimistic(alone, reward)
            assert found.is_feasible == exact.is_feasible
            if exact.is_feasible:
                assert found.value == pytest.approx(exact.value, abs=1e-9)


def test_sets_of_all_kernels_allow_the_best_state_at_every_step():
    model, reward = build(Recipe(3, 4, 2, 5, 0, False, "dense", "random", "inactive", False))
    first = reward[model.start.argmax()].max()
    for sets in (boxes(model, lambda p, row: np.ones_like(p)), balls(model, np.ones((4, 2)))):
        assert solve_optimistic(sets, reward).value == pytest.approx(first + 4 * reward.max())


def test_without_constraints_balls_are_those_of_best_value():
    for seed in range(5):
        model, reward = build(Recipe(seed, 5, 3, 4, 0, False, "mixed", "random", "inactive", True))
        gaps = np.random.default_rng(seed).random((5, 3)) * 0.6
        assert solve_optimistic(balls(model, gaps), reward).value == pytest.approx(best_value(model, reward, gaps))


def test_a_warm_start_changes_the_time_and_not_the_answer():
    sets, reward = instance(11)
    cold = solve_optimistic(sets, reward)
    assert cold.multipliers[0] > 0.0
    warm = solve_optimistic(sets, reward, warm=cold)
    assert warm.value == pytest.approx(cold.value, abs=1e-9)
    assert warm.sweeps <= cold.sweeps + 2
    poor = solve_optimistic(sets, reward, warm=replace(cold, multipliers=1e6 * cold.multipliers))
    assert poor.value == pytest.approx(cold.value, abs=1e-9)


def test_a_constraint_may_be_a_utility_minus_a_bonus():
    """Pessimism: utilities outside [0, 1], which no CMDP of a user's has."""
    model, reward = build(Recipe(9, 4, 2, 4, 1, False, "dense", "random", "active", False))
    bonus = np.full((4, 2), 0.05)
    lowered = priced(model, model.utilities[:, 0] - bonus)
    sets = boxes(lowered, lambda p, row: 0.02 + 0.0 * p)
    found = solve_optimistic(sets, reward)
    raised = model.with_thresholds(model.thresholds + 4 * 0.05)
    same = solve_optimistic(boxes(raised, lambda p, row: 0.02 + 0.0 * p), reward)
    assert found.is_feasible == same.is_feasible
    assert found.value == pytest.approx(same.value, abs=1e-9)
    with pytest.raises(InvalidInput, match="utilities have shape"):
        priced(model, np.ones((2, 4, 2)))


def test_bonuses_of_many_orders_do_not_mislead_the_search():
    """Rows that nobody visited make some policies worth -1e6 to a constraint and 1e7 to the reward."""
    for seed in range(12):
        model, reward = build(Recipe(seed, 5, 3, 4, 1 + seed % 2, False, "dense", "random", "active", False))
        rng = np.random.default_rng(seed)
        penalty = np.where(rng.random((5, 3)) < 0.3, 10.0 ** rng.uniform(2, 5, (5, 3)), 0.01)
        penalty[np.arange(5), rng.integers(0, 3, 5)] = 0.01
        sets = boxes(priced(model, model.utilities[:, 0] - penalty, 0.8 * model.thresholds), lambda p, row: 0.01 + 0.0 * p)
        found = solve_optimistic(sets, reward + 5.0 * penalty)
        program = linprog(**extended_program(sets, reward + 5.0 * penalty), method="highs", options=EXACT)
        assert found.is_feasible == (program.status == 0)
        if found.is_feasible:
            assert found.value == pytest.approx(-program.fun, rel=1e-7)
            assert found.bound == pytest.approx(found.value, rel=1e-9)


def test_what_is_no_set_is_refused():
    model, _ = build(Recipe(9, 4, 2, 4, 1, False, "dense", "random", "active", False))
    with pytest.raises(InvalidInput, match="half width"):
        boxes(model, lambda p, row: p - 0.5)
    with pytest.raises(InvalidInput, match="TV distances"):
        balls(model, np.zeros((2, 2)))
