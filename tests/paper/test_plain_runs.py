"""Plain reinforcement learning pays its penalty wherever the constraint does, at the end of an episode too."""

import numpy as np
import pytest

from safe2real.paper import plain_runs
from safe2real.paper.declared_systems import instance
from safe2real.planning.evaluate import constraint_values, evaluate


@pytest.mark.parametrize("name", ["grid", "lake"])
def test_a_penalty_is_worth_what_the_constraint_is(name):
    found = instance(name)
    reward = next(iter(found.rewards))
    worth = evaluate(found.model, found.baseline, plain_runs._penalised(found, reward, 0.5))
    earned, safety = (
        evaluate(found.model, found.baseline, found.rewards[reward]),
        constraint_values(found.model, found.baseline),
    )
    assert worth == pytest.approx((earned + 0.5 * safety[0]) / 1.5)


def test_q_learning_acts_in_every_step_and_is_paid_for_the_end(monkeypatch):
    monkeypatch.setattr(plain_runs, "MOST", 400)
    found = instance("lake")
    points = plain_runs.q_learning(found, "goal", 1e6, seed=0)
    assert points[0][2].shape == (found.model.steps, found.model.num_states, found.model.num_actions)
    # With a penalty that is all that counts, what is learnt is to stay out of the water.
    safety = [float(constraint_values(found.reality, policy)[0]) for _, _, policy in points]
    assert np.mean(safety[-3:]) > safety[0]
