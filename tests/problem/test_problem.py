"""What a specification refuses, keeps and hands to certificates: margins that are not there, simulators by counting."""

import dataclasses
import json

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.problem.problem import Problem, RowAccuracy
from safe2real.standing import AssumptionCode

ROWS = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])  # state 1 is unsafe and for good
SAFE = np.array([[1.0, 1.0], [0.0, 0.0]])


def task(threshold=1.0, estimated=None, **changes):
    """The baseline stays in state 0 with 1/2 a step: V_c = 1 + 1/2 + 1/4 = 1.75."""
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, s2r.AtLeast(SAFE, threshold, "upright"))
    given = {"margin": 0.75, "calibrated_gap": 0.0, "mismatch_gap": 0.5, "tolerance": 0.125} | changes
    baseline = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=3)
    return Problem(model, baseline, s2r.Settings(**given), estimated=estimated)


def test_a_margin_that_is_there_to_the_last_digit_is_accepted():
    s2r.Learner(task())
    s2r.Learner(task(margin=0.5))


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (
            task(margin=0.76),
            r"margin is 0.75, less than the stated 0.76 \(expected upright 1.75, threshold 1\). State at most 0.75, lower",
        ),
        (
            task(threshold=2.0, margin=0.5),
            r"margin is -0.25, less than the stated 0.5 .*threshold 2\). Lower the threshold, or choose .*trust_margin=True",
        ),
    ],
)
def test_a_baseline_without_its_margin_on_the_simulator_is_refused_unless_told_otherwise(tmp_path, lost, words):
    with pytest.raises(InvalidInput, match=words):
        s2r.Learner(lost)
    with pytest.raises(InvalidInput, match=words):
        s2r.Campaign.create(tmp_path / "campaign.db", lost)
    assert not (tmp_path / "campaign.db").exists()
    assert s2r.Learner(lost, trust_margin=True).propose().mixture is not None
    assert Problem.from_text(lost.to_text()).to_text() == lost.to_text()  # a record is read, whatever it says


def test_a_lost_margin_of_a_cost_is_said_as_a_cost():
    """The same task with 1 - utility as a cost: 3 steps, so at most 2 for at least 1."""
    model = task().simulator
    cost = s2r.AtMost(1.0 - model.utilities[0][0], model.horizon - 1.0, "falls")
    free = s2r.CMDP.of(model.kernel, model.horizon, model.start, cost)
    lost = Problem(free, task().baseline, task(margin=0.76).settings)
    value = model.horizon - 1.75
    with pytest.raises(
        InvalidInput, match=rf"margin is 0.75, .*expected falls {value:g}, limit 2\). State at most 0.75, raise the limit"
    ):
        lost.refuse_lost_margin()


def test_records_of_such_a_campaign_are_replayed(tmp_path):
    lost = task(margin=0.76)
    with s2r.Campaign.create(tmp_path / "campaign.db", lost, trust_margin=True) as campaign:
        campaign.ask(worker="one")
    with s2r.Campaign.open(tmp_path / "campaign.db") as again:
        assert again.status(forecast=False).rounds == 1


ACCURACY = RowAccuracy(np.array([[0.1, 0.2], [1.0, 0.0]]), np.array([[50, 20], [0, 0]]), delta=0.04, certified=True)


def test_how_far_estimated_rows_can_be_off_survives_the_document():
    given = task(estimated=ACCURACY)
    read = Problem.from_text(given.to_text())
    assert read.to_text() == given.to_text()
    np.testing.assert_array_equal(read.estimated.accuracy, ACCURACY.accuracy)
    np.testing.assert_array_equal(read.estimated.visits, ACCURACY.visits)
    assert (read.estimated.delta, read.estimated.certified) == (0.04, True)
    assert "estimated" not in json.loads(task().to_text())


def test_certificates_name_the_probability_that_the_estimate_fails():
    def said(problem, method=None):
        found = s2r.Learner(problem, method).evidence.assumptions()
        return [one.text for one in found if one.code is AssumptionCode.ESTIMATED]

    (text,) = said(task(estimated=ACCURACY))
    assert "within 0.2 of those they stand for, with probability at least 0.96, in addition to delta" in text
    assert "calibrated_gap, 0, does not cover that" in text
    (covered,) = said(task(estimated=ACCURACY, calibrated_gap=0.2))
    assert "does not cover" not in covered
    (scaled,) = said(task(estimated=dataclasses.replace(ACCURACY, certified=False)))
    assert "HEURISTICALLY" in scaled
    assert said(task()) == []
    assert said(task(estimated=ACCURACY), s2r.methods.RewardFree()) == []
    certificate = s2r.Learner(task(estimated=ACCURACY)).propose().certificate
    assert AssumptionCode.ESTIMATED in {one.code for one in certificate.assumptions}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accuracy": [[0.1, 0.2]]}, r"accuracy of shape \(1, 2\) and visits of shape \(2, 2\).*; give one TV distance"),
        ({"accuracy": [[0.1, 2.0], [0.0, 0.0]]}, r"outside \[0, 1\]"),
        ({"visits": [[0.5, 1], [1, 1]]}, r"visits are whole numbers"),
        ({"delta": 0.0}, r"estimated.delta is 0"),
        ({"certified": 1}, r"estimated.certified is 1; give true or false"),
        ({"sure": True}, r"sure"),
    ],
)
def test_what_is_no_accuracy_is_refused(change, words):
    document = json.loads(task(estimated=ACCURACY).to_text())
    document["estimated"] |= change
    with pytest.raises(InvalidInput, match=words):
        Problem.from_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="estimated is a list; give the row_accuracy"):
        s2r.Learner(task(estimated=[0.1]))
