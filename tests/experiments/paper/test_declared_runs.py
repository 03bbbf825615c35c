"""The runs of the study on declared rewards: quick, safe, and true."""

import numpy as np
import pytest

from experiments.studies.declared_runs import declared_run
from experiments.studies.declared_systems import SYSTEMS, instance
from safe2real.planning import constraint_values

WRONG = {"grid": 12, "lake": 12, "cliff": 12, "warehouse": 22, "pond": 17}  # rows


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_every_system_is_as_it_is_assumed_to_be(name):
    found = instance(name)
    assert found.problem(seed=0, support=True).support is not None
    slack = constraint_values(found.reality, found.baseline) - found.model.thresholds
    assert (slack >= found.margin - 1e-9).all()
    real, support = found.real.to_dense() > 0.0, found.support.to_dense() > 0.0
    assert not (real & ~support).any()
    wrong = found.real.distances_to(found.model.kernel) > 0.0
    assert wrong.sum() == WRONG[name]
    assert not (wrong & (False if found.known is None else found.known)).any()
    if found.ties is not None:
        assert found.ties.exact
        found.problem(seed=0, support=False, ties=found.ties)  # refuses ties that do not fit
    for reward in found.rewards.values():
        assert reward.shape == (found.model.num_states, found.model.num_actions)
        assert 0.0 <= reward.min() < reward.max() <= 1.0


def test_the_random_reward_is_the_first_of_the_certified_study():
    expected = np.random.default_rng([1, 20_261_115]).random((25, 4))
    assert np.array_equal(instance("grid").rewards["random"], expected)


def test_a_run_reaches_one_accuracy_after_the_other():
    settings = {"system": "grid", "reward": "random", "seed": 1, "support": True, "accuracies": [0.3, 0.1], "most": 2_000}
    found = declared_run(settings)
    coarse, fine = found["episodes"]
    assert 0 < coarse < fine < 1_000
    assert (found["unsafe_rounds"], found["lost"], found["certified"]) == (0, 0, True)
    assert found["lowest_slack"] >= -1e-9
    assert found["looked"] == found["true"] > 0
    assert found["lower"] <= found["best"] <= found["upper"]
    assert found["upper"] - found["lower"] <= 0.1 * found["upper"]
    assert declared_run({**settings, "most": 5})["episodes"] == [None, None]
