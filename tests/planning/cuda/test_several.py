"""Several constraints on the device against the CPU: the same statuses, bounds and policies."""

from dataclasses import replace

import numpy as np

import safe2real as s2r
from safe2real.planning import Status, solve_many
from safe2real.planning.cuda import batch
from safe2real.planning.sweeper import LANES
from tests.cases import each
from tests.planning.cuda.test_solve import check_close, check_listed, check_same, check_warm_starts, large_system
from tests.planning.test_solve import fixed_recipe
from tests.random_models import Recipe, build


def drawn(seed: int, constraints: int):
    """A random system; every kind of row, utility and threshold comes up."""
    return build(replace(fixed_recipe(seed), constraints=constraints))


@each("constraints", [2, 3])
def test_small_systems_bit_for_bit(constraints, cupy):
    seen = set()
    for seed in range(80):
        model, reward = drawn(seed, constraints)
        mine, yours = s2r.solve(model, reward, device="cuda"), s2r.solve(model, reward)
        check_same(mine, yours)
        seen.add((yours.status, len(yours.policy.policies), bool(yours.multipliers.any())))
    assert {status for status, _, _ in seen} >= {Status.OPTIMAL, Status.INFEASIBLE}
    assert max(policies for _, policies, _ in seen) == 1 + constraints
    assert (Status.OPTIMAL, 1, False) in seen  # nothing binds


def test_warm_starts_bit_for_bit(cupy):
    check_warm_starts(drawn(seed, 2) for seed in range(20))


@each("constraints", [2, 3])
def test_large_systems_to_rounding(constraints, cupy):
    """Above 256 states starts are summed in another order; the CPU proves the device's policies again."""
    single, reward = large_system(3_001, per_step=False)
    rng = np.random.default_rng(1)
    utilities = [rng.random(reward.shape) for _ in range(constraints)]
    free = s2r.CMDP.of(single.kernel, single.horizon, single.start, [s2r.AtLeast(one, 0.0) for one in utilities])
    corners = [s2r.solve(free, wanted).constraint_values for wanted in (reward, np.sum(utilities, axis=0))]
    model = free.with_thresholds(np.mean(corners, axis=0))
    mine, yours = s2r.solve(model, reward, device="cuda"), s2r.solve(model, reward)
    assert (mine.multipliers > 0.0).any()
    assert mine.status is Status.OPTIMAL
    check_close(mine, yours)
    again = s2r.solve(model, reward, warm=mine)
    check_close(again, yours)
    assert again.sweeps <= yours.sweeps // 2


@each("constraints", [2, 3])
def test_many_systems_at_once(constraints, cupy):
    """Their searches end after different numbers of passes, in every way."""
    kinds = ("active", "infeasible", "inactive")
    cases = [
        build(Recipe(seed, 6, 3, 5, constraints, False, "mixed", "random", kinds[seed % 3], True)) for seed in range(60)
    ]
    found = solve_many([model for model, _ in cases], [reward for _, reward in cases], device="cuda")
    for i, (model, reward) in enumerate(cases):
        check_listed(found, i, s2r.solve(model, reward))
    assert set(found.statuses) >= {Status.OPTIMAL, Status.INFEASIBLE}
    assert len(set(found.sweeps.tolist())) > 2


def test_many_rewards_and_many_thresholds_of_one_system(cupy):
    model, reward = build(Recipe(3, 40, 3, 5, 2, True, "sparse", "random", "active", False))
    rng = np.random.default_rng(0)
    rewards = [rng.random(reward.shape) for _ in range(7)]
    for mine, other in zip(solve_many(model, rewards, device="cuda"), rewards, strict=True):
        check_same(mine, s2r.solve(model, other))
    curve = [model.with_thresholds([share * model.thresholds[0], model.thresholds[1]]) for share in np.linspace(0.5, 1.0, 7)]
    before = [one.thresholds.copy() for one in curve]
    for mine, one, thresholds in zip(solve_many(curve, reward, device="cuda"), curve, before, strict=True):
        check_same(mine, s2r.solve(one, reward))
        np.testing.assert_array_equal(one.thresholds, thresholds)  # a search lowers its limits; not the system's


@each("group", [1, 2, LANES])
def test_however_many_lanes_a_thread_carries(group, cupy, monkeypatch):
    monkeypatch.setattr(batch, "group_for", lambda lanes, *_: min(lanes, group))
    for seed in range(12):
        model, reward = drawn(seed, 2)
        check_same(s2r.solve(model, reward, device="cuda"), s2r.solve(model, reward))
