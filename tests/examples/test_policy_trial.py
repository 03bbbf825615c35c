"""The trial of a controller without a table, with few episodes."""

import numpy as np
import pytest
from policy_trial import FAST, HORIZON, LENGTH, LIMIT, MARGIN, MASS, SwingUp, damping, draw, fast, measured, pendulum

from safe2real import PolicyTrial
from safe2real.exploration import TrialTerms, trial_run


def test_the_cost_is_of_speed_and_the_real_pendulum_is_another():
    assert [fast(np.array([1.0, 0.0, speed]), None, {}) for speed in (FAST + 0.1, -FAST - 0.1, FAST - 0.1)] == [
        1.0,
        1.0,
        0.0,
    ]
    real = pendulum(MASS, LENGTH)
    real.reset(seed=0)
    real.unwrapped.state = np.array([1.0, 0.5])
    after = real.step(np.float32([1.0]))[0]
    expected = 0.5 + (15.0 / LENGTH * np.sin(1.0) + 3.0 / (MASS * LENGTH**2)) * 0.05
    assert after[2] == pytest.approx(expected, abs=1e-4)


def test_the_baseline_has_its_margin_and_a_few_episodes_are_certified():
    real = pendulum(MASS, LENGTH)
    assert measured(real, damping, 20, seed=0)[1] <= LIMIT - MARGIN
    terms = TrialTerms(
        limit=LIMIT, margin=MARGIN, high=float(HORIZON), rewards={"return": (-1628.0, 0.0)}, name="fast steps"
    )
    trial = PolicyTrial(terms)
    turns = trial_run(real, SwingUp(0.5, 10.0, 10.0, 2.0), damping, trial, episodes=25, cost=fast)
    assert len(turns) == 25
    assert all(turn.certificate.holds for turn in turns)
    assert draw(turns, {"candidate": (-170.0, 8.0), "baseline": (-840.0, 2.0)}).axes[1].get_ylim() == (0.0, 4.0 * LIMIT)
