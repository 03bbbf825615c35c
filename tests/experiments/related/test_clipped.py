"""Clipped sweeps against plain loops."""

import numpy as np
import pytest

from experiments.related.clipped import bracketed, clipped_maximum, clipped_value
from safe2real.errors import InvalidInput
from safe2real.planning.solve import solve
from tests.random_models import Recipe, build, dense_rows, per_step


def system(seed):
    return build(Recipe(seed, 5, 3, 4, 0, bool(seed % 2), "mixed", "step" if seed > 2 else "random", "inactive", True))


def test_the_clip_and_the_gain_act_at_every_step():
    for seed in range(5):
        model, _ = system(seed)
        bonus = np.random.default_rng(seed).exponential(0.6, (4, 5, 3))
        bonus[1, 2, 0] = np.inf
        found = clipped_maximum(model, bonus, gain=1.25, cap=1.5)
        P, W = dense_rows(model), np.zeros(5)
        followed = W
        for h in reversed(range(4)):
            Q = np.minimum(1.5, bonus[h] + 1.25 * P[h] @ W)
            W = Q.max(axis=1)
            np.testing.assert_allclose(found.values[h], W, atol=1e-12)
            of_policy = np.minimum(1.5, bonus[h] + 1.25 * P[h] @ followed)
            followed = (of_policy * found.policy.probabilities[h]).sum(axis=1)
        assert found.value == pytest.approx(model.start @ W)
        assert clipped_value(model, found.policy, bonus, gain=1.25, cap=1.5) == pytest.approx(model.start @ followed)
        assert model.start @ followed == pytest.approx(model.start @ W)  # it is the policy that attains it


def test_upper_and_lower_values_are_as_written():
    for seed in range(5):
        model, reward = system(seed)
        rng = np.random.default_rng(seed)
        scale, bonus = rng.exponential(0.1, (5, 3)), rng.exponential(0.05, (5, 3))
        scale[0, 0] = bonus[0, 0] = np.inf
        found = bracketed(model, reward, scale, bonus, share=0.25, cap=4.0)
        P, r, up, low = dense_rows(model), per_step(model, reward), np.zeros(5), np.zeros(5)
        for h in reversed(range(4)):
            variance = np.maximum(P[h] @ up**2 - (P[h] @ up) ** 2, 0.0)
            with np.errstate(invalid="ignore"):
                spread = np.where(variance > 1e-15, scale * np.sqrt(variance), 0.0)
            error = spread + bonus + 0.25 * P[h] @ (up - low)
            upper, lower = np.minimum(4.0, r[h] + error + P[h] @ up), np.maximum(0.0, r[h] - error + P[h] @ low)
            np.testing.assert_allclose(found.variances[h], variance, atol=1e-12)
            up, low = upper.max(axis=1), lower.max(axis=1)
            np.testing.assert_allclose(found.upper[h], up, atol=1e-9)
            np.testing.assert_allclose(found.lower[h], low, atol=1e-9)


def test_without_bonuses_the_bracket_is_the_best_value():
    model, reward = system(4)
    nothing = np.zeros((5, 3))
    found = bracketed(model, reward, nothing, nothing, share=0.25, cap=4.0)
    best = solve(model, reward).value
    assert model.start @ found.upper[0] == pytest.approx(best)
    assert model.start @ found.lower[0] == pytest.approx(best)


def test_what_cannot_be_a_bonus_is_refused():
    model, reward = system(0)
    with pytest.raises(InvalidInput, match="bonus is"):
        clipped_maximum(model, -np.ones((5, 3)), gain=1.0, cap=4.0)
    with pytest.raises(InvalidInput, match="gain or share"):
        clipped_maximum(model, np.ones((5, 3)), gain=np.inf, cap=4.0)
    with pytest.raises(InvalidInput, match="scale is"):
        bracketed(model, reward, np.ones(3), np.ones((5, 3)), share=0.0, cap=4.0)
