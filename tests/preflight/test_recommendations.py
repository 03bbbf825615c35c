"""What a check recommends: support, gaps, with or without the simulator, and what to do without separation."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.evidence.mismatch_map import radius_after
from safe2real.model.trajectory import Trajectory
from safe2real.preflight.comparison import Cheaper, Comparison, advise_method, compared, other_than, samples_until
from safe2real.preflight.findings import Advice
from safe2real.preflight.gaps import advise_gaps
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.preflight.rehearsed_runs import Look
from safe2real.preflight.support_advice import advise_support
from safe2real.problem.accuracy import RowAccuracy
from safe2real.report.preflight_report import draw_preflight, preflight_page
from tests.preflight.specs import kernel, tiny

METHOD = s2r.methods.SimToReal()
WALK = 8  # states in a ring


def ring(**changes):
    """States in a ring; a step goes on, stays, or goes back. State 4 costs, and the baseline walks on the spot."""
    rows = np.zeros((WALK, 2, WALK))
    for state in range(WALK):
        for action, (on, stay, back) in enumerate(((0.05, 0.9, 0.05), (0.7, 0.2, 0.1))):
            for step, share in ((1, on), (0, stay), (-1, back)):
                rows[state, action, (state + step) % WALK] = share
    model = s2r.CMDP.of(
        s2r.Kernel.from_dense(rows), 6, 0, s2r.AtMost(np.repeat(np.arange(WALK) == 4, 2).reshape(WALK, 2), 2.0, "pit")
    )
    baseline = s2r.MarkovPolicy.deterministic([0] * WALK, num_actions=2, horizon=6)
    settings = s2r.Settings(**({"margin": 1.5, "calibrated_gap": 0.0, "mismatch_gap": 0.4, "tolerance": 0.375} | changes))
    return s2r.Problem(model, baseline, settings)


@pytest.fixture(scope="module")
def found():
    return s2r.check_problem(ring(), reality=Guess(rows=1), runs=2, max_rounds=400, accuracy=0.002)


def of(recommendations, code):
    (one,) = [one for one in recommendations if one.code is code]
    return one


# With or without the simulator


def test_both_methods_are_rehearsed_and_the_cheaper_is_named(found):
    advice = of(found.recommendations, Advice.METHOD)
    assert found.comparison.cheaper is Cheaper.WITH
    assert advice.numbers["cheaper"] == "with"
    assert advice.numbers["factor"] > 1.5
    assert advice.numbers["runs"] == advice.numbers["runs_that_agree"] == len(advice.numbers["factors"]) == 2
    assert advice.numbers["guessed"] is True
    assert advice.cure == ""  # it is the one that is used
    assert "gaps are true" in advice.assumes
    assert "2 of 2 rehearsals point that way" in advice.what


def test_whoever_does_without_is_told_what_the_simulator_is_worth():
    found = s2r.check_problem(ring(), method=s2r.methods.RewardFree(), reality=Guess(rows=1), runs=1, max_rounds=400)
    advice = of(found.recommendations, Advice.METHOD)
    assert advice.cure == "use methods.SimToReal()"


def test_a_simulator_that_takes_wrong_rows_for_right_is_not_recommended():
    taken = Comparison((0.1,), (100.0,), (900.0,), 3)
    assert taken.factor == pytest.approx(9.0)
    advice = advise_method(METHOD, taken, guessed=False)
    assert advice.numbers["cheaper"] == "without"
    assert advice.cure == "use methods.RewardFree()"
    assert "taken for right" in advice.what
    assert advice.assumes == ""


def test_what_hardly_differs_and_what_points_both_ways():
    near = Comparison((0.1, 0.1), (100.0, 100.0), (104.0, 98.0), 0)
    assert near.cheaper is Cheaper.NEITHER
    assert "no difference that matters" in advise_method(METHOD, near, guessed=True).what
    mixed = Comparison((0.1, 0.1), (100.0, 100.0), (400.0, 90.0), 0)
    assert (mixed.cheaper, mixed.agreeing) == (Cheaper.WITH, 1)
    assert "1 of 2 rehearsals point that way (factors 0.9 to 4)" in advise_method(METHOD, mixed, guessed=False).what
    slower = Comparison((0.1,), (400.0,), (100.0,), 0)
    assert "without them it is about 4 times cheaper" in advise_method(METHOD, slower, guessed=False).what


def test_without_gaps_cheap_is_not_enough():
    advice = advise_method(METHOD, Comparison((0.1,), (100.0,), (900.0,), 0), guessed=False, separated=False)
    assert "cannot be stated" in advice.cure


def test_episodes_between_two_looks_are_by_powers():
    looks = [Look(100, 1.0, 4.0, 0), Look(400, 1.0, 1.0, 0)]
    assert samples_until(looks, 4.0) == 100.0
    assert samples_until(looks, 1.0) == 400.0
    assert samples_until(looks, 2.0) == pytest.approx(200.0)  # halfway in logarithms
    assert samples_until(looks[:1], 5.0) == 100.0


def test_what_is_compared_with_what(found):
    assert type(other_than(METHOD)) is s2r.methods.RewardFree
    assert type(other_than(s2r.methods.RewardFree())) is s2r.methods.SimToReal
    assert other_than(s2r.methods.Unconstrained()) is None
    trial = found.trials[0]
    assert compared(METHOD, [trial], [trial], 6).factors == (1.0,)
    blind = replace(trial, looks=(Look(100, 1.0, np.nan, 0),))
    assert compared(METHOD, [trial], [blind], 6) is None
    quick = s2r.check_problem(ring(), reality=Guess(rows=1), runs=1, max_rounds=10, compare=False)
    assert quick.comparison is None
    assert Advice.METHOD not in {one.code for one in quick.recommendations}


def test_what_was_reached_before_the_first_look_is_said():
    early = Comparison((0.1,), (100.0,), (300.0,), 0, first_look=100.0)
    advice = advise_method(METHOD, early, guessed=False)
    assert advice.numbers["at_first_look"] is True
    assert "nobody looked before 100 episodes" in advice.what
    assert advise_method(METHOD, replace(early, with_simulator=(120.0,)), guessed=False).numbers["at_first_look"] is False


# Support


def test_support_is_computed_with_what_it_saves_and_assumes(found):
    advice = of(found.recommendations, Advice.SUPPORT)
    problem = ring()
    sizes = problem.simulator.kernel.length.astype(np.int64)
    before, after = (METHOD.evidence(one) for one in (problem, replace(problem, support=problem.simulator.kernel)))
    ratio = np.median(radius_after(after, 1_000, sizes) / radius_after(before, 1_000, sizes))
    assert advice.numbers["radius_factor"] == pytest.approx(ratio)
    assert ratio < 1.0 < advice.numbers["visits_factor"]
    assert (advice.numbers["rows"], advice.numbers["successors"], advice.numbers["states"]) == (16, 3.0, WALK)
    assert advice.numbers["episodes_factor"] > 0.9
    assert "rules out there" in advice.assumes
    assert "support=" in advice.cure


def test_a_support_that_is_false_is_not_recommended():
    problem = ring()
    rows = problem.simulator.kernel.to_dense().copy()
    rows[0, 1] = np.eye(WALK)[4]
    (advice,) = advise_support(problem, METHOD, s2r.Kernel.from_dense(rows))
    assert advice.numbers["rows_against"] == 1
    assert "it is false" in advice.what
    assert advice.assumes == ""
    elsewhere = Trajectory.of(problem.simulator, [0, 4, 4, 4, 4, 4, 4], [0] * 6)
    (advice,) = advise_support(problem, METHOD, Guess(), [elsewhere])
    assert advice.numbers["rows_against"] == 1
    assert "the rollouts lead elsewhere" in advice.what
    (advice,) = advise_support(problem, METHOD, problem.simulator.kernel, [elsewhere])  # a stated reality hides nothing
    assert advice.numbers["rows_against"] == 1
    assert "the rollouts lead elsewhere" in advice.what
    (advice,) = advise_support(problem, METHOD, s2r.Kernel.from_dense(rows), [elsewhere])
    assert advice.numbers["rows_against"] == 2
    assert "the stated reality and the rollouts lead elsewhere" in advice.what


def test_one_successor_is_known_after_one_visit_and_estimates_are_warned_of():
    (advice,) = advise_support(tiny(), METHOD, Guess())
    assert advice.numbers["rows_with_one_successor"] == 4
    assert "known after one visit" in advice.what
    rows = RowAccuracy(np.full((2, 2), 0.01), np.full((2, 2), 50), 0.01, True)
    (advice,) = advise_support(replace(tiny(), estimated=rows), METHOD, Guess())
    assert "what was not sampled is not impossible" in advice.assumes


def test_nothing_is_said_of_a_support_that_is_declared_or_no_restriction():
    problem = ring()
    assert advise_support(replace(problem, support=problem.simulator.kernel), METHOD, Guess()) == []
    anywhere = s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5))
    model = s2r.CMDP.of(anywhere, 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    assert advise_support(replace(tiny(), simulator=model), METHOD, Guess()) == []


# Gaps, and none


def test_gaps_follow_from_the_accuracy(found):
    advice = of(found.recommendations, Advice.GAPS)
    assert {one.name: one.value for one in advice.changes}["calibrated_gap"] == 0.002
    needed = {float(gap): visits for gap, visits in advice.numbers["visits_needed"].items()}
    chosen = {one.name: one.value for one in advice.changes}["mismatch_gap"]
    assert needed[chosen] <= advice.numbers["visits_expected"] == pytest.approx(400 * 6 / 16)
    assert all(visits > advice.numbers["visits_expected"] for gap, visits in needed.items() if gap < chosen)
    settings = replace(ring().settings, **{one.name: one.value for one in advice.changes})
    s2r.Learner(replace(ring(), settings=settings))  # accepted
    assert advise_gaps(ring(), None, 400) == []


def test_no_mismatch_gap_above_the_stated_one_is_proposed():
    """Too large a gap is unsafe: what the episodes do not suffice for is said, and not mended by a larger claim."""
    (advice,) = advise_gaps(ring(mismatch_gap=0.06), 0.002, 40)
    assert {one.name: one.value for one in advice.changes}["mismatch_gap"] == 0.06
    assert "more than there will be" in advice.what
    assert max(map(float, advice.numbers["visits_needed"])) == 0.06


def test_the_accuracy_of_an_estimated_simulator_is_its_rows():
    rows = RowAccuracy(np.full((WALK, 2), 0.001), np.full((WALK, 2), 10**6), 0.01, True)
    (advice,) = advise_gaps(replace(ring(), estimated=rows), None, 400)
    assert advice.numbers["accuracy"] == 0.001
    assert "estimated to within 0.001" in advice.what
    assert "stated" not in advice.what
    assert (advice.numbers["estimated"], advice.numbers["heuristic"]) == (True, False)
    assert "within 0.001 of the real one, what sampling left open and the simulator's own error together" in advice.assumes


def test_sampling_alone_never_lowers_the_stated_gap_but_the_users_word_does():
    rows = RowAccuracy(np.full((WALK, 2), 0.001), np.full((WALK, 2), 10**6), 0.01, True)
    problem = replace(ring(calibrated_gap=0.01), estimated=rows)
    (advice,) = advise_gaps(problem, None, 400)
    assert {one.name: one.value for one in advice.changes}["calibrated_gap"] == advice.numbers["accuracy"] == 0.01
    assert "stated as 0.01, which sampling does not lower" in advice.what
    (advice,) = advise_gaps(problem, 0.002, 400)
    assert {one.name: one.value for one in advice.changes}["calibrated_gap"] == 0.002
    assert advice.numbers["estimated"] is False


def test_no_gaps_are_advised_where_rows_were_never_visited():
    accuracy, visits = np.full((WALK, 2), 0.001), np.full((WALK, 2), 10**6)
    accuracy[3, 1], visits[3, 1] = 1.0, 0
    problem = replace(ring(), estimated=RowAccuracy(accuracy, visits, 0.01, True))
    assert advise_gaps(problem, None, 400) == []
    assert len(advise_gaps(problem, 0.002, 400)) == 1


def test_gaps_from_a_heuristic_accuracy_are_heuristic():
    rows = RowAccuracy(np.full((WALK, 2), 0.001), np.full((WALK, 2), 10**6), 0.01, False)
    (advice,) = advise_gaps(replace(ring(), estimated=rows), None, 400)
    assert advice.numbers["heuristic"] is True
    assert advice.what.startswith("HEURISTIC, no guarantee")


def test_an_accuracy_that_leaves_no_stop_has_no_gaps_but_a_way_out():
    found = s2r.check_problem(ring(), reality=Guess(rows=1), runs=1, max_rounds=50, accuracy=0.08, compare=False)
    assert Advice.GAPS not in {one.code for one in found.recommendations}
    advice = of(found.recommendations, Advice.NO_SEPARATION)
    assert advice.numbers["accuracy_is_too_coarse"] is True
    assert "methods.RewardFree()" in advice.cure
    assert "within=" in advice.cure


def test_rows_between_the_gaps_and_gaps_that_clear_nothing_have_a_way_out():
    for problem, reality in ((tiny(), kernel(s0a1=[0.3, 0.7])), (tiny(calibrated_gap=0.0, mismatch_gap=0.0), None)):
        found = s2r.check_problem(problem, reality=reality, runs=1, max_rounds=50, compare=False)
        assert of(found.recommendations, Advice.NO_SEPARATION).numbers["because"] in (["separation"], ["clearing"])
        without = s2r.check_problem(
            problem, method=s2r.methods.RewardFree(), reality=reality, runs=1, max_rounds=50, compare=False
        )
        assert Advice.NO_SEPARATION not in {one.code for one in without.recommendations}


def test_an_accuracy_is_a_distance():
    with pytest.raises(InvalidInput, match="accuracy"):
        s2r.check_problem(tiny(), accuracy=1.5)


# Shown


def test_recommendations_are_shown_and_are_data(found):
    told = found.describe()
    page = preflight_page(found, draw_preflight(found), "<ring>")
    document = json.loads(json.dumps(found.to_document(), allow_nan=False))
    assert [one["code"] for one in document["recommendations"]] == ["method", "support", "gaps"]
    for one, stored in zip(found.recommendations, document["recommendations"], strict=True):
        assert f"ADVICE   {one.name}: {one.what}" in told
        assert one.what[1:40].replace("'", "&#39;") in page
        assert stored["numbers"].keys() == one.numbers.keys()
    assert "&lt;ring&gt;" in page
    assert "Recommended" in page
