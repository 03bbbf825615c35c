"""Evidence alone, in a file and back."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence_state import load_evidence, save_evidence
from safe2real.exploration import roll_out
from safe2real.exploration.plan import plan
from safe2real.methods import ForRewards, RewardFree, SimToReal, Trial
from safe2real.testing.systems import random_case

REWARD = np.random.default_rng(5).random((4, 2))


def explored(method):
    case = random_case(4)
    learner = s2r.Learner(case.problem, method)
    for number in range(25):
        learner.observe(roll_out(case.reality, learner.propose().draw(), seed=1, round_number=number))
    return learner


@pytest.mark.parametrize("method", [SimToReal(), RewardFree(), ForRewards({"goal": REWARD}, accuracy=0.01)])
def test_it_proves_the_same(method, tmp_path):
    evidence = explored(method).evidence
    loaded = load_evidence(save_evidence(evidence, tmp_path / "evidence.npz"))
    assert (loaded.samples, loaded.reuses_simulator, type(loaded)) == (
        evidence.samples,
        method.reuses_simulator,
        type(evidence),
    )
    assert (loaded.doubts(), loaded.assumptions()) == (evidence.doubts(), evidence.assumptions())
    for name in ("suspect", "gap", "divergence", "low", "high"):
        np.testing.assert_array_equal(getattr(loaded.belief, name), getattr(evidence.belief, name))
    one, other = (plan(each, REWARD, stopped=False) for each in (evidence, loaded))
    assert (one.value, one.bound, one.certificate.lower_bounds.tobytes()) == (
        other.value, other.bound, other.certificate.lower_bounds.tobytes())  # fmt: skip


def test_a_refutation_is_not_forgotten(tmp_path):
    learner = explored(SimToReal())
    learner.leave_model([], [])
    assert load_evidence(save_evidence(learner.evidence, tmp_path / "evidence.npz")).is_refuted


def test_returns_and_other_files_are_refused(tmp_path):
    trial = explored(Trial(s2r.MarkovPolicy.deterministic([1, 1, 1, 1], num_actions=2, horizon=3)))
    with pytest.raises(InvalidInput, match=r"learner\.save"):
        save_evidence(trial.evidence, tmp_path / "evidence.npz")
    with pytest.raises(InvalidInput, match="evidence"):
        load_evidence(explored(SimToReal()).save(tmp_path / "learner.npz"))
