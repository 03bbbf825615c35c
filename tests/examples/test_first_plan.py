"""README's first example: what its table says, and its picture."""

import re
from pathlib import Path

import safe2real as s2r
from examples.first_plan import LIMIT, Study, draw, explored

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def test_the_table_is_what_the_policies_are_worth():
    study = Study()
    blind = s2r.solve(study.system.model, study.reward)
    policies = {
        "the policy we trust": study.baseline,
        "the simulator's own plan": blind.policy,
        "the best safe plan": s2r.solve(study.real, study.reward).policy,
    }
    for name, policy in policies.items():
        exact = study.exact(policy)
        goal, falls = re.search(rf"\| {name}[^|]*\| ([\d.]+) \| \**([\d.]+)", README).groups()
        assert (f"{exact.goal:.3f}", f"{exact.falls:.3f}") == (goal, falls)
    assert study.exact(blind.policy).falls > 1.5 * LIMIT
    assert f"it promises {blind.value:.3f}" in README


def test_a_short_run_deploys_nothing_unsafe_and_can_be_drawn(tmp_path):
    study = Study()
    learner, course = explored(study, 100)
    assert len(course.deployed) == learner.round - 1 == 100
    assert max(course.deployed) <= LIMIT
    draw(study, course).savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
