"""Certificates in the words in which constraints were written, and what is printed at the prompt."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.exploration.certificate import Certificate
from safe2real.model.constraint_text import Wording
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode

FALLS, UPRIGHT = Wording("falls", 20, is_cost=True), Wording("upright", 20, is_cost=False)
LONG = Assumption(AssumptionCode.MARKOV, "what comes next depends on nothing but " + "this, that and the other, " * 9)
HEURISTIC = Doubt(DoubtCode.RADIUS_SCALED, "the radius is scaled")


def certificate(*bounds, doubts=(), wordings=(FALLS, UPRIGHT)):
    limits = np.array([18.0, 3.0])
    return Certificate(np.array(bounds), limits, (LONG, Assumption(AssumptionCode.COUNTED, "all count")), doubts, wordings)


def test_the_sentence_comes_first_and_what_it_rests_on_is_a_list_within_a_terminal():
    lines = certificate(18.25, 3.5).describe().splitlines()
    assert lines[0] == "Certified: expected falls <= 1.75 (limit 2), expected upright >= 3.5 (threshold 3), provided that"
    assert [line[:4] for line in lines[1:]] == ["  - ", *["    "] * (len(lines) - 3), "  - "]
    assert max(map(len, lines)) <= 100
    assert len(lines) > 4
    assert " ".join(line.strip(" -") for line in lines[1:-1]) == LONG.text.strip()
    one_line = certificate(18.25, 3.5).describe(width=None)
    assert "\n" not in one_line
    assert one_line.endswith("; all count.")


def test_a_bound_is_rounded_to_the_side_on_which_it_is_true_but_not_by_floats():
    on_the_limit = certificate(18.0 - 3e-10, 3.0 + 3e-10)
    assert on_the_limit.reaches
    assert on_the_limit.statement() == "expected falls <= 2 (limit 2), expected upright >= 3 (threshold 3)"
    assert certificate(18.2499996, 3.4999996).statement().startswith("expected falls <= 1.75001 (limit 2), ")
    assert ">= 3.49999 " in certificate(18.2499996, 3.4999996).statement()
    assert certificate(20.0 - 4e-15, 3.0).statement().startswith("expected falls <= 0 ")


def test_why_it_is_no_guarantee_follows_the_sentence():
    text = certificate(18.25, 3.5, doubts=(HEURISTIC,)).describe()
    assert text.startswith("HEURISTIC, not a guarantee. Estimated: expected falls <= 1.75 (limit 2), ")
    assert text.endswith(". The reasons:\n  - the radius is scaled")
    missed = certificate(17.0, 3.5).describe()
    assert missed.startswith("NOT SAFE: a constraint is not shown to be kept, only: expected falls <= 3 (limit 2), ")
    assert "expected constraint >= 18.25" in certificate(18.25, 3.5, wordings=()).statement()  # of an older program


def test_what_is_printed_at_the_prompt_is_a_few_lines():
    states, actions, horizon = 60, 3, 20
    kernel = s2r.Kernel.from_dense(np.full((states, actions, states), 1.0 / states))
    model = s2r.CMDP.of(kernel, horizon, 0, s2r.AtMost(np.linspace(0.0, 1.0, states), 19.0, "falls"))
    baseline = s2r.MarkovPolicy.uniform(horizon=horizon, num_states=states, num_actions=actions)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    learner = s2r.Learner(s2r.Problem(model, baseline, settings, known=np.ones((states, actions), dtype=bool)))
    plan, proposal = learner.plan(np.linspace(1.0, 0.0, states)), learner.propose()
    for shown in (plan, proposal, plan.certificate, learner.problem, learner.evidence, learner, plan.solution):
        assert len(repr(shown)) < 1_000, repr(shown)
        assert repr(shown).count("\n") < 8
        assert "array(" not in repr(shown)
    for shown in (plan, plan.certificate, learner.problem, plan.solution):
        assert "expected falls" in repr(shown)
    assert repr(learner.evidence) == "Evidence(0 episodes, 0 samples, 0 suspects)"
    assert repr(plan).startswith("Plan(worth ")
    assert learner.plan(np.repeat(np.linspace(1.0, 0.0, states)[:, None], actions, axis=1)).value == pytest.approx(
        plan.value
    )
