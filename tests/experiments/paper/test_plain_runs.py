"""Plain reinforcement learning pays its penalty wherever the constraint does, at the end of an episode too."""

import numpy as np
import pytest

import safe2real as s2r
from experiments.studies import plain_runs
from experiments.studies.declared_systems import instance
from experiments.studies.instance import Instance
from safe2real.planning.evaluate import constraint_values, evaluate


@pytest.mark.parametrize("name", ["grid", "lake"])
def test_a_penalty_is_worth_what_the_constraint_is(name):
    found = instance(name)
    reward = next(iter(found.rewards))
    worth = evaluate(found.model, found.baseline, plain_runs._penalised(found, reward, 0.5))
    earned = evaluate(found.model, found.baseline, found.rewards[reward])
    safety = constraint_values(found.model, found.baseline)
    assert worth == pytest.approx((earned + 0.5 * safety[0]) / 1.5)


def test_q_learning_is_paid_for_the_state_that_its_last_action_leads_to(monkeypatch):
    monkeypatch.setattr(plain_runs, "MOST", 400)
    rows = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])  # action 1 leads into state 1, which costs
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 1, 0, s2r.AtMost([0.0, 1.0], 0.5), counts_end=True)
    still = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=1)
    found = Instance(model, model.kernel, still, 0.5, None, None, {"leave": np.array([[0.0, 1.0], [0.0, 0.0]])})
    for penalty, action in ((0.0, 1), (10.0, 0)):
        seen = []
        plain_runs.q_learning(found, "leave", penalty, 0, lambda episodes, safety, policy, to=seen: to.append(policy))
        policy = seen[-1]
        assert policy.shape == (1, 2, 2)
        assert policy.actions[0, 0] == action
