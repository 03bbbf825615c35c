"""The state of evidence, and evidence restored from it."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence, evidence_for
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


def kept(evidence, of_record=False):
    """What fresh evidence of the same problem knows, restored from the state of `evidence`."""
    found = evidence_for(evidence.problem, reuses_simulator=evidence.reuses_simulator, keeps_safe=evidence.keeps_safe)
    found.restore(evidence.state(of_record=of_record))
    return found


@pytest.mark.parametrize("of_record", [False, True])
@pytest.mark.parametrize("method", [SimToReal(), RewardFree(), ForRewards({"goal": REWARD}, accuracy=0.01)])
def test_it_proves_the_same(method, of_record):
    evidence = explored(method).evidence
    again = kept(evidence, of_record)
    assert (again.samples, type(again)) == (evidence.samples, type(evidence))
    assert (again.doubts(), again.assumptions()) == (evidence.doubts(), evidence.assumptions())
    for name in ("suspect", "gap", "divergence", "low", "high"):
        np.testing.assert_array_equal(getattr(again.belief, name), getattr(evidence.belief, name))
    one, other = (plan(each, REWARD, stopped=False) for each in (evidence, again))
    assert (one.value, one.bound, one.certificate.lower_bounds.tobytes()) == (
        other.value, other.bound, other.certificate.lower_bounds.tobytes())  # fmt: skip


def test_a_refutation_is_not_forgotten():
    learner = explored(SimToReal())
    learner.leave_model([], [])
    assert kept(learner.evidence).is_refuted


def test_spare_room_does_not_follow_from_the_record():
    counts = explored(SimToReal()).evidence.counts
    assert (counts.state().arrays["capacity"] > counts.tally.length).any()
    assert (counts.state(of_record=True).arrays["capacity"] == counts.tally.length).all()


def spoilt(archive, name, value):
    archive.arrays[name] = np.full_like(archive.arrays[name], value)
    return archive


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("counts.visits", 7), ("counts.successor", 99), ("counts.probability", 2.0), ("trust.margins", 0.0),
        ("trust.wealth", -1.0), ("trust.ceiling", np.inf), ("length", 4_000),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(name, value):
    evidence = explored(SimToReal()).evidence
    fresh = evidence_for(evidence.problem, reuses_simulator=True, keeps_safe=True)
    with pytest.raises(InvalidInput):
        fresh.restore(spoilt(evidence.state(), name, value))


def test_evidence_of_another_kind_or_class_is_refused():
    trial = explored(Trial(s2r.MarkovPolicy.deterministic([1, 1, 1, 1], num_actions=2, horizon=3))).evidence
    document = trial.state()
    document.document["kind"] = "TiedEvidence"
    with pytest.raises(InvalidInput, match="another kind"):
        kept(trial).restore(document)

    class Outside(Evidence):
        pass

    with pytest.raises(InvalidInput, match="not of this package"):
        Outside(trial.problem).state()
