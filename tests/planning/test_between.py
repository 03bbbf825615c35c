"""Plans of systems so large that the search looks at the actions of two policies alone on its way."""

import itertools

import numpy as np

import safe2real as s2r
from safe2real._compiled import sweeps
from tests.planning.test_solve import check_against_duality
from tests.planning.test_threads import bits
from tests.random_models import Recipe, build


def recipe(seed: int, threshold: str = "active") -> Recipe:
    """70 states and 60 steps: above `sweeps.SMALL`, and still quick to check in plain NumPy."""
    kinds = itertools.product((False, True), ("dense", "sparse", "mixed"), ("random", "binary", "step"))
    per_step, rows, utilities = list(kinds)[seed % 18]
    return Recipe(seed, 70, 2 + seed % 4, 60, 1, per_step, rows, utilities, threshold, seed % 5 == 0)


def test_every_plan_is_proved_by_all_actions():
    """Weak duality, computed apart from the search: what few actions said is never taken for a bound."""
    assert sweeps.SMALL <= 70 * 60
    passes = []
    for seed in range(18):
        model, reward = build(recipe(seed))
        solution = s2r.solve(model, reward)
        check_against_duality(model, reward, solution)
        passes.append(solution.sweeps)
    assert np.mean(passes) < 4.0  # 6 and more where every pass looks at all actions


def test_where_only_the_safest_policy_will_do():
    """The price of safety is nearly 10^8 here, and missing a threshold by rounding worth more than the bound's exactness."""
    model, reward = build(Recipe(11, 70, 5, 60, 1, False, "mixed", "binary", "just", False))
    solution = s2r.solve(model, reward)
    assert solution.multipliers[0] > 1e6
    assert solution.constraint_values[0] >= model.thresholds[0] - 60e-12
    assert solution.value <= solution.bound <= solution.value + 1e-9


def test_threads_and_warm_starts():
    for seed in range(6):
        model, reward = build(recipe(seed))
        alone = s2r.solve(model, reward, threads=1)
        assert len({bits(s2r.solve(model, reward, threads=count)) for count in (1, 2, 3)}) == 1
        later = reward + 0.01 * np.random.default_rng(seed).random(reward.shape)
        again = s2r.solve(model, later, warm=alone)
        check_against_duality(model, later, again)
        np.testing.assert_allclose(again.value, s2r.solve(model, later).value, rtol=1e-9)


def test_an_action_that_neither_policy_takes():
    """In one state a third action is best at the price that decides, and at neither of those between which it is sought."""
    S, H = 300, 15  # nearly all states are corridors that nobody enters: two policies differ in one place only
    rows = np.zeros((S, 3, S))
    rows[:, :, :] = np.eye(S)[:, None, :]
    reward, safety = np.zeros((S, 3)), np.zeros((S, 3))
    # State 0 is left at once for a sink; its actions lie on a concave curve, so the middle one is best for middling prices.
    rows[0, :, :] = np.eye(S)[S - 1]
    reward[0], safety[0] = [1.0, 0.6, 0.0], [0.0, 0.6, 1.0]
    reward[1] = (
        10.0  # nobody is there, but prices are first sought where the largest reward would be worth the largest safety
    )
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), H, 0, s2r.AtLeast(safety, 0.3))
    solution = s2r.solve(model, reward)
    check_against_duality(model, reward, solution)
    assert abs(solution.value - 0.8) < 1e-9  # half of the first action, half of the second
    assert abs(s2r.solve(model.with_thresholds(np.array([0.8])), reward).value - 0.3) < 1e-9
