"""Pendulum from logs, with few episodes: the numbers are those of the log."""

import numpy as np
import pytest
from pendulum import HORIZON, LIMIT, cells, damping, fast_steps, learn, on_cells, record


@pytest.fixture(scope="module")
def logged():
    return record(damping(np.random.default_rng(0)), 60, 0, "logging")


def test_the_logs_have_the_heavier_physics(logged):
    assert len(logged) == 60
    assert all(seen.shape == (HORIZON + 1, 3) for seen, _ in logged)
    before, after = (np.concatenate([seen[part] for seen, _ in logged]) for part in (slice(None, -1), slice(1, None)))
    torque = np.concatenate([torques for _, torques in logged])
    # Gymnasium: speed' = speed + (3 g / (2 l) sin(angle) + 3 / (m l^2) torque) dt, with g = 10, l = 1, m = 1.2, dt = 0.05
    expected = before[:, 2] + (15.0 * before[:, 1] + 3.0 / 1.2 * torque[:, 0]) * 0.05
    assert after[:, 2] == pytest.approx(np.clip(expected, -8.0, 8.0), abs=1e-4)


def test_model_margin_and_clone_are_those_of_the_logs(logged):
    found, margin, clone = learn(logged)
    mean, _ = fast_steps(logged)
    assert margin.means[0] == pytest.approx(
        found.system.model.horizon - mean
    )  # an edge of the cells lies at the speed that counts as fast
    assert margin.margins[0] < LIMIT - mean
    assert found.visits.sum() == 60 * HORIZON
    grid = cells()
    states = [grid.state_of(one) for seen, _ in logged for one in seen[:-1]]
    taken = [grid.nearest_action(torque) for _, torques in logged for torque in torques]
    state = max(set(states), key=states.count)
    counts = np.bincount([a for s, a in zip(states, taken, strict=True) if s == state], minlength=5)
    assert found.visits[state].tolist() == counts.tolist()
    assert clone.probabilities[0, state] == pytest.approx((counts + 0.1) / (counts.sum() + 0.5))


def test_the_clone_drives_the_pendulum(logged):
    _, _, clone = learn(logged)
    driven = record(on_cells(clone, np.random.default_rng(1)), 5, 77, "driving")
    assert all(np.isin(torques, [-2.0, -1.0, 0.0, 1.0, 2.0]).all() for _, torques in driven)
