"""Maps, plans, findings and intervals as lists of dicts, and as data frames."""

import numpy as np
import pandas as pd
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.model.names import Legend
from safe2real.tables import spreadsheet_safe, to_pandas, to_table
from safe2real.testing.systems import random_case


@pytest.fixture(scope="module")
def learner():
    case = random_case(2)
    simulator = case.problem.simulator.with_legend(Legend.of(["home", "way", "pit", "goal"], ["walk", "run"]))
    method = s2r.methods.ForRewards({"goal": np.eye(4)[:, :2]}, accuracy=0.01)
    learner = s2r.Learner(s2r.Problem(simulator, case.problem.baseline, case.problem.settings), method)
    s2r.simulate(learner, case.real, max_rounds=10)
    return learner


def test_a_map_has_a_line_for_each_row(learner):
    found, table = learner.mismatch_map, learner.mismatch_map.to_table()
    assert len(table) == 8
    assert (table[5]["state"], table[5]["action"], table[5]["state_number"], table[5]["action_number"]) == (
        "pit",
        "run",
        2,
        1,
    )
    assert [row["visits"] for row in table] == found.visits.reshape(-1).tolist()
    assert sum(row["visits"] for row in table) == 30
    assert {row["verdict"] for row in table} <= {"open", "wrong", "cleared", "known", "contradicted"}
    frame = found.to_pandas()
    assert frame.set_index(["state", "action"]).loc[("pit", "run"), "visits"] == found.visits[2, 1]


def test_a_map_of_rows_that_change_has_steps():
    case = random_case(2)
    model = case.problem.simulator
    stepped = s2r.Problem(model.with_kernel(model.kernel.repeated(3)), case.problem.baseline, case.problem.settings)
    table = s2r.Learner(stepped).mismatch_map.to_table()
    assert len(table) == 24
    assert (table[-1]["step"], table[-1]["state"]) == (2, "state 3")


def test_a_plan_has_a_line_for_each_action_that_may_be_taken(learner):
    plan = learner.plan(np.eye(4)[:, :2])
    frame = plan.to_pandas()
    assert frame.groupby(["policy", "step", "state_number"]).probability.sum().to_numpy() == pytest.approx(1.0)
    assert frame.groupby("policy").weight.first().tolist() == plan.policy.weights.tolist()
    assert set(frame.action) <= {"walk", "run"}


def test_intervals_and_findings(learner):
    (now,) = learner.intervals()
    assert to_table(learner.intervals()) == [
        {"reward": "goal", "lower": now.lower, "upper": now.upper, "allowed": now.allowed, "accurate": now.is_accurate}
    ]
    assert isinstance(to_pandas(learner.intervals()), pd.DataFrame)
    check = s2r.check_problem(random_case(2).problem, effort=s2r.preflight.Effort(runs=1, max_rounds=2))
    assert [row["what"] for row in check.to_table()] == [finding.what for finding in check.findings]
    assert set(check.to_pandas().level) <= {"ok", "advice", "warning", "failure"}


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidInput, match="what is a int; give a mismatch map"):
        to_table(3)


@pytest.mark.parametrize("text", ["=1+1", " =1", "+1", "-1", "@f", "\tx", "\r=1", "\uff1d1"])
def test_no_text_is_a_formula_of_a_spreadsheet(text):
    assert spreadsheet_safe(text).startswith("'")


def test_numbers_and_plain_texts_stay_as_they_are():
    assert [spreadsheet_safe(cell) for cell in (-1.5, None, "stay", "a=b")] == [-1.5, None, "stay", "a=b"]
