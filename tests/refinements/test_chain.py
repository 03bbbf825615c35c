"""The chain of divergences: the inequality it rests on, attacked with kernels that are as far off as the balls allow."""

import math
from typing import Any

import numpy as np

import safe2real as s2r
from experiments.studies.certified_runs import corner_walk
from safe2real import refinements
from safe2real._compiled.rows import Sets
from safe2real.planning.robust import reach_of
from tests.compiled.calling import chain_bonus, follow

Array = np.ndarray[Any, Any]


def kernels(rng: np.random.Generator, S: int, A: int) -> tuple[Array, Array]:
    """(model, reality) [S, A, S]; the reality moves mass where it hurts, in some rows to where the model never goes."""
    model = rng.dirichlet(np.full(S, 0.7), size=(S, A))
    other = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    share = rng.choice([0.0, 0.02, 0.2, 0.7], size=(S, A, 1))
    return model, (1.0 - share) * model + share * other


def test_no_value_is_off_by_more_than_the_chain_says() -> None:
    rng = np.random.default_rng(0)
    tight = 0.0
    for case in range(400):
        S, A, H = int(rng.integers(2, 5)), 2, int(rng.integers(2, 7))
        model, real = kernels(rng, S, A)
        gap = 0.5 * np.abs(model - real).sum(axis=2).reshape(-1)
        divergence = (model * np.log(model / real)).sum(axis=2).reshape(-1)
        divergence[rng.random(S * A) < 0.3] = np.inf  # rows about which only the TV distance is known
        kernel = s2r.Kernel.from_dense(model)
        sets = Sets(kernel.compiled_rows, reach_of(None, kernel), gap, divergence)
        scales = np.append(0.0, 10.0 ** rng.uniform(-2.0, 0.5, size=H - 1))
        bonus = chain_bonus(sets, scales, H, S, A)
        actions = rng.integers(A, size=(H, S))
        policy = s2r.MarkovPolicy.deterministic(actions, num_actions=A, horizon=H)
        worth = rng.choice([0.0, 1.0], size=(H, S, A)) if case % 2 else rng.random((H, S, A))
        before = s2r.CMDP.of(kernel, H, 0, ())
        after = before.with_kernel(s2r.Kernel.from_dense(real))
        off = abs(s2r.evaluate(before, policy, worth) - s2r.evaluate(after, policy, worth))
        scale = max(1.0, bonus.max())
        allowed = 0.5 * scales[1:].sum() + scale * s2r.evaluate(before, policy, bonus / scale)
        assert off <= allowed + 1e-9, case
        # with the scales that fit this policy it is not far from the square roots alone
        fitted, start = scales.copy(), before.compiled_arrays.start
        tails = np.append(np.cumsum((0.25 / scales[1:])[::-1])[::-1], 0.0)
        least = follow(sets, start, actions[None].astype(np.uint32), np.ones(1), tails, 1e-9, fitted, A)
        again = chain_bonus(sets, fitted, H, S, A)
        scale = max(1.0, again.max())
        better = 0.5 * fitted[1:].sum() + scale * s2r.evaluate(before, policy, again / scale)
        assert better <= least + 1e-6, case
        assert off <= least + 1e-9, case
        tight = max(tight, off / least if least > 0.0 else 0.0)
    assert tight > 0.3  # the kernels are worth calling adversarial


def test_the_scales_follow_from_where_the_policy_goes() -> None:
    """By hand: one row with divergence 0.08 at both of the first two steps; W = (0.08, 0.16)."""
    kernel = s2r.Kernel.from_dense(np.ones((1, 1, 1)))
    sets = Sets(kernel.compiled_rows, reach_of(None, kernel), np.ones(1), np.array([0.08]))
    scales = np.array([0.0, 1.0, 1.0])
    tails = np.array([0.5, 0.25, 0.0])
    start, actions = np.ones(1), np.zeros((1, 3, 1), dtype=np.uint32)
    least = follow(sets, start, actions, np.ones(1), tails, 1e-9, scales, 1)
    np.testing.assert_allclose(scales[1:], [0.2, math.sqrt(0.08)])
    assert least == 0.2 + math.sqrt(0.08)
    bonus = chain_bonus(sets, np.array([0.0, 1.0, 1.0]), 3, 1, 1)
    np.testing.assert_allclose(bonus[:, 0, 0], [0.04, 0.02, 0.0])


def test_with_the_chain_a_run_stops_earlier_and_deploys_the_same() -> None:
    """The paper's grid: the candidates are those of the sum of TV distances, so only the stop moves."""
    grid = s2r.systems.WindyGrid.paper()
    baseline, real = corner_walk(grid), grid.real()
    model = grid.cmdp(grid.simulator(), 10.8)
    margin = float(s2r.planning.constraint_values(model.with_kernel(real), baseline)[0]) - 10.8
    runs = []
    for used in (refinements.DEFAULT, refinements.DEFAULT[:-1]):
        settings = s2r.Settings(
            margin=margin,
            calibrated_gap=0.0,
            mismatch_gap=grid.mismatch_gap(),
            tolerance=margin / 4.0,
            refinements=used,
            replan_growth=0.02,
        )
        learner = s2r.Learner(s2r.Problem(model, baseline, settings))
        runs.append(s2r.simulate(learner, real, max_rounds=200_000))
    chained, plain = runs
    assert chained.stopped
    assert plain.stopped
    assert chained.rounds < 0.7 * plain.rounds
    shared = len(chained.deployed) - 1
    np.testing.assert_array_equal(chained.exploration_weight[:shared], plain.exploration_weight[:shared])
