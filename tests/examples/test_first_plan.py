"""README's example: what its table says, and its picture."""

import re
from pathlib import Path

import pytest

import safe2real as s2r
from examples.first_plan import LIMIT, Study, draw, explored

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


@pytest.fixture(scope="module")
def study():
    return Study()


@pytest.mark.parametrize("name", ["trusted policy", "simulator's plan", "best safe plan"])
def test_the_table_states_what_each_policy_is_worth(study, name):
    policies = {
        "trusted policy": study.problem.baseline,
        "simulator's plan": s2r.solve(study.problem.simulator, study.reward).policy,
        "best safe plan": s2r.solve(study.real, study.reward).policy,
    }
    goal, wet = study.exact(policies[name])
    stated = re.search(rf"\| {name} \| ([\d.]+) \| \**([\d.]+)(, violates)?", README)
    assert (f"{goal:.3f}", f"{wet:.3f}") == stated.groups()[:2]
    assert (wet > LIMIT + 1e-9) is (stated.group(3) is not None)


def test_a_table_fitted_by_hand_violates_the_limit_in_some_repetitions(study):
    costs = [wet for _, wet in study.fitted_by_hand(290)]
    stated = re.search(r"worst of (\d+) \| [\d.]+ \| \*\*([\d.]+), violates the limit\*\* \((\d+) of", README)
    assert (len(costs), f"{max(costs):.3f}", sum(wet > LIMIT + 1e-9 for wet in costs)) == (
        int(stated.group(1)),
        stated.group(2),
        int(stated.group(3)),
    )


def test_a_short_run_deploys_nothing_unsafe_and_can_be_drawn(study, tmp_path):
    learner, course = explored(study, 100)
    assert len(course.deployed) == learner.round - 1 == 100
    assert max(course.deployed) <= LIMIT
    draw(study, course).savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
