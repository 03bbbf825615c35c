"""Actions that are taken again unseen where nothing changes with the step: the same bits as when every step looks at all."""

import numpy as np

import safe2real as s2r
from tests.cases import sampled
from tests.planning.test_threads import bits
from tests.random_models import Recipe, build, dense_rows

KINDS = ("dense", "sparse", "deterministic", "uniform", "mixed", "tiny")


def written_out(model: s2r.CMDP, reward: np.ndarray) -> tuple[s2r.CMDP, np.ndarray]:
    """The same system with rows, reward and utilities that could change with the step."""
    horizon, states, actions = model.shape
    rows = np.broadcast_to(dense_rows(model)[0], (horizon, states, actions, states))
    tables = [np.broadcast_to(utility, model.shape) for utility in model.utilities]
    limits = [s2r.AtLeast(np.array(table), limit) for table, limit in zip(tables, model.thresholds, strict=True)]
    other = s2r.CMDP.of(s2r.Kernel.from_dense(np.array(rows)), horizon, model.start, limits)
    return other, np.array(np.broadcast_to(reward, model.shape))


@sampled("constraints", [1, 2, 3], keep=[1, 2])
def test_the_same_as_looking_at_every_action_in_every_step(constraints: int) -> None:
    for seed in range(24):
        utilities = ("random", "binary", "constant")[seed % 3]
        recipe = Recipe(seed, 12, 2 + seed % 3, 70, constraints, False, KINDS[seed % 6], utilities, "active", seed % 2 == 0)
        model, reward = build(recipe)
        assert reward.ndim == 2 or len(reward) == 1
        other, rewards = written_out(model, reward)
        found = bits(s2r.solve(model, reward))
        assert found == bits(s2r.solve(other, rewards)), recipe
        if seed % 4 == 0:
            assert found == bits(s2r.solve(model, reward, threads=3)), recipe


def test_an_action_that_becomes_best_late() -> None:
    """The second action pays little now and much when there is time for it: it must not be forgotten while it is worse."""
    wait = 40
    rows = np.zeros((wait + 2, 2, wait + 2))
    rows[0, 0, 0] = 1.0  # stay, for 1 in every step
    rows[0, 1, 1] = 1.0  # or walk to where every step pays 3
    for s in range(1, wait + 1):
        rows[s, :, s + 1] = 1.0
    rows[wait + 1, :, wait + 1] = 1.0
    reward, safety = np.zeros((wait + 2, 2)), np.ones((wait + 2, 2))
    reward[0, 0], reward[wait + 1] = 1.0, 3.0
    for horizon in (wait + 5, wait + 30, wait + 100):
        model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), horizon, 0, s2r.AtLeast(safety, 1.0))
        walking = 3.0 * (horizon - wait - 1)
        best = max(t + 3.0 * max(0, horizon - t - wait - 1) for t in range(horizon + 1))
        assert best >= walking
        assert s2r.solve(model, reward).value == best
