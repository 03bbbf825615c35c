"""Pre-flight: hand-computed thresholds, margins and floors on a tiny system, and what each failure says."""

import dataclasses
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.exploration import roll_out
from safe2real.model.constraint_text import Wording
from safe2real.preflight.baseline import Range, _by_rollouts, spread_of
from safe2real.preflight.check import check_problem
from safe2real.preflight.conditions import floor_of
from safe2real.preflight.findings import About, Code, Level
from safe2real.preflight.gaps import largest_distances
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.preflight.rehearsal import rehearsal_findings
from safe2real.preflight.rehearsed_campaign import broken_assumptions
from safe2real.problem import Ties
from safe2real.problem.conditions import Guarantee
from safe2real.problem.problem import RowAccuracy
from safe2real.report.preflight_report import _dress, draw_preflight
from safe2real.standing import Standing
from safe2real.systems.measure import estimate_margin
from tests.cases import each
from tests.preflight.specs import ROWS, SAFE, kernel, tiny
from tests.preflight.specs import look as quick

WRONG = kernel(s0a1=[0.6, 0.4])  # 0.6 away, and the baseline never goes there
METHOD = s2r.methods.SimToReal()


def look(specification=None, reality=WRONG, **options):
    return quick(specification, reality, **options)


def of(found, name):
    (finding,) = [finding for finding in found.findings if finding.name == name]
    return finding


# The whole


def test_a_system_that_is_ready():
    found = look(runs=2, max_rounds=100_000)
    assert found.ready, found.describe()
    assert found.verdict().startswith("READY")
    assert all(why == "" for why in found.guarantees.values())
    assert all(finding.level is not Level.FAILURE for finding in found.findings)
    stop = of(found, "samples to the stop")
    assert stop.level is Level.OK
    assert stop.numbers["rounds"] == np.mean([trial.rounds for trial in found.rehearsals])
    assert stop.numbers["samples"] == 3 * stop.numbers["rounds"]
    assert of(found, "safety in rehearsal").numbers["unsafe_rounds"] == 0
    assert of(found, "wrong rows found").numbers == {"share": 1.0, "lost": 0}
    assert all(trial.stopped and trial.uncertainty <= 0.25 for trial in found.rehearsals)
    bounds = list(of(found, "plans on the way").numbers["bounds"].values())
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.3
    assert "READY" in found.describe()
    assert "safe exploration: stands" in found.describe()
    json.dumps(found.to_document(), allow_nan=False)


def test_the_same_check_gives_the_same_answer():
    assert look().to_document() == look().to_document()


def test_without_a_reality_it_is_guessed():
    found = look(reality=None)
    assert found.guessed
    assert found.to_document()["reality"] == "guessed"
    assert found.rehearsals[0].wrong == 1


def test_a_rehearsal_that_is_cut_off_is_forecast():
    stop = of(look(max_rounds=200), "samples to the stop")
    assert stop.level is Level.WARNING
    assert stop.numbers["rounds_done"] == [200]
    assert stop.numbers["uncertainty"][0] > 0.25
    reached = of(look(max_rounds=100_000), "samples to the stop").numbers["rounds"]
    assert stop.numbers["forecast_rounds"] == pytest.approx(reached, rel=0.5)


def said_of(**changes):
    trial = dataclasses.replace(look(max_rounds=200).rehearsals[0], **changes)
    (stop,) = [
        one for one in rehearsal_findings(tiny(), METHOD, [trial], Standing.CERTIFIED) if one.name == "samples to the stop"
    ]
    return stop


def test_a_stop_that_is_near_or_never_comes_is_said_so():
    assert "it is about to stop" in said_of(further=0).what
    assert "expected" not in said_of(further=0).what
    assert "expected after about 260 rounds, about 780 samples" in said_of(further=60).what
    refuted = said_of(refuted=True, uncertainty=math.inf, further=None)
    assert "contradicted an assumption" in refuted.what
    assert "no stop is to come" in refuted.what
    assert "expected" not in refuted.what
    assert "--max-rounds" not in refuted.cure
    assert "the baseline alone was deployed" in said_of(uncertainty=math.inf, further=None).what


def test_data_that_contradict_an_assumption_end_the_forecast():
    known = np.array([[False, True], [False, False]])
    found = look(tiny(known=known), max_rounds=2_000)
    assert found.rehearsals[0].refuted
    assert of(found, "samples to the stop").numbers["forecast_rounds"] is None
    assert "no stop is to come" in of(found, "samples to the stop").what
    (text,) = [text.get_text() for text in draw_preflight(found).axes[1].texts]
    assert "infinite" in text
    assert "contradict an assumption" in text


@each("wrong", [{"runs": 0}, {"max_rounds": 0}, {"delta": 1.0}, {"reality": ROWS}])
def test_what_cannot_be_looked_at(wrong):
    with pytest.raises(InvalidInput):
        look(**wrong)


def test_what_is_no_problem_is_refused():
    with pytest.raises(InvalidInput, match=r"problem is a CMDP; give Problem\(model, baseline, settings\)"):
        check_problem(tiny().simulator)


# Thresholds


def test_what_any_policy_reaches_by_hand():
    """Staying is worth 3, leaving at once 1; the baseline stays."""
    found = look()
    (one,) = found.ranges
    assert (one.lowest, one.highest, one.baseline) == pytest.approx((1.0, 3.0, 3.0))
    assert one.largest_threshold == pytest.approx(2.0)  # 3 less the margin of 1
    assert of(found, "threshold of upright").numbers["largest_threshold"] == pytest.approx(2.0)


def test_a_threshold_that_no_policy_meets():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, s2r.AtLeast(0.5 * SAFE, 1.75, "upright"))
    specification = s2r.Problem(model, tiny().baseline, tiny().settings)
    found = look(specification)
    assert of(found, "threshold of upright").level is Level.FAILURE
    assert "below 1.5" in of(found, "threshold of upright").cure


def test_a_threshold_that_constrains_nothing():
    found = of(look(tiny(threshold=1.0)), "threshold of upright")
    assert found.level is Level.WARNING
    assert "above 1" in found.cure


def test_thresholds_that_exclude_each_other():
    """At most one of staying and leaving: their values add up to 3, and 1.5 + 1.8 are wanted."""
    both = [s2r.AtLeast(SAFE, 1.5, "stay"), s2r.AtLeast(1.0 - SAFE, 1.8, "leave")]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, both)
    specification = s2r.Problem(model, tiny().baseline, tiny().settings)
    found = of(look(specification), "constraints together")
    assert found.level is Level.FAILURE
    assert found.numbers["shortfall"] == pytest.approx(0.15)
    easy = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, [both[0], s2r.AtLeast(1.0 - SAFE, 0.5, "leave")])
    assert of(look(s2r.Problem(easy, tiny().baseline, tiny().settings)), "constraints together").level is Level.OK


# The baseline


def test_a_baseline_that_fails_its_margin_on_the_reality():
    """Row (0, 0) falls with 0.2: V_c = 1 + 0.8 + 0.64 = 2.44, which is 0.94 above 1.5, and 1 was stated."""
    reality = kernel(s0a0=[0.8, 0.2])
    specification = tiny(mismatch_gap=0.2)
    found = look(specification, reality)
    finding = of(found, "baseline on the stated reality, upright")
    assert finding.level is Level.FAILURE
    assert finding.numbers["value"] == pytest.approx(2.44)
    assert finding.numbers["margin"] == pytest.approx(0.94)
    assert "fails its stated margin of 1" in finding.what
    assert "at most 0.94" in finding.cure
    assert "threshold to 1.44" in finding.cure
    assert "baseline" in found.guarantees[Guarantee.SAFETY]
    assert not found.ready
    assert [one.name for one in broken_assumptions(specification, METHOD, reality, guessed=False)] == [finding.name]
    assert broken_assumptions(tiny(mismatch_gap=0.2, margin=0.94, tolerance=0.2), METHOD, reality, guessed=False) == []


def test_a_baseline_that_is_unsafe_itself():
    reality = kernel(s0a0=[0.0, 1.0])
    finding = of(look(reality=reality), "baseline on the stated reality, upright")
    assert "0.5 BELOW the threshold" in finding.what
    assert "unsafe itself" in finding.cure


def test_on_a_stated_reality_the_simulator_does_not_decide():
    """The simulator falls from row (0, 0), reality does not."""
    model = s2r.CMDP.of(kernel(s0a0=[0.5, 0.5]), 3, 0, s2r.AtLeast(SAFE, 1.5, "upright"))
    specification = s2r.Problem(model, tiny().baseline, tiny().settings)
    assert of(look(specification, s2r.Kernel.from_dense(ROWS)), "baseline on the simulator, upright").level is Level.WARNING
    guessed = look(specification, Guess(rows=0))
    assert of(guessed, "baseline on the simulator, upright").level is Level.FAILURE


def episodes(reality, count, specification=None):
    specification = specification or tiny()
    system = specification.simulator.with_kernel(reality)
    return [roll_out(system, specification.baseline, seed=3, round_number=i + 1) for i in range(count)]


def test_rollouts_confirm_refute_or_leave_open():
    name = "baseline by rollouts, upright"
    confirmed = of(look(rollouts=episodes(s2r.Kernel.from_dense(ROWS), 400)), name)
    assert confirmed.level is Level.OK
    assert confirmed.numbers["margin"] >= 1.0
    still = of(look(rollouts=episodes(s2r.Kernel.from_dense(ROWS), 10)), name)
    assert still.level is Level.WARNING
    assert "neither confirmed nor refuted" in still.what
    failing = look(rollouts=episodes(kernel(s0a0=[0.3, 0.7]), 400))
    assert of(failing, name).level is Level.FAILURE
    assert "fails its stated margin" in of(failing, name).what
    assert not failing.ready
    few = estimate_margin(tiny().simulator, episodes(s2r.Kernel.from_dense(ROWS), 10), delta=0.1)
    assert still.numbers["lower"] == few.lower_bounds[0]
    assert failing.ranges[0].rollouts[1] < 2.5


def test_rollouts_of_another_policy_confirm_nothing():
    """The real baseline falls and fails its margin; what was rolled out is something else, which does not fall."""
    reality, specification = kernel(s0a0=[0.3, 0.7], s0a1=[1.0, 0.0]), tiny()
    assert of(look(specification, reality), "baseline on the stated reality, upright").level is Level.FAILURE
    other = s2r.MarkovPolicy.deterministic([1, 0], num_actions=2, horizon=3)
    system = specification.simulator.with_kernel(reality)
    safer = [roll_out(system, other, seed=3, round_number=i + 1) for i in range(400)]
    with pytest.raises(InvalidInput, match=r"episode 1 of rollouts is not of the baseline.*actions\[0\] is 1 in state 0"):
        look(specification, Guess(rows=0), rollouts=safer)
    own = episodes(reality, 5)
    with pytest.raises(InvalidInput, match="episode 6 of rollouts is not of the baseline"):
        look(specification, rollouts=[*own, safer[0]])
    stochastic = s2r.MarkovPolicy.stochastic([[0.5, 0.5], [1.0, 0.0]], horizon=3)
    mixed = s2r.Problem(specification.simulator, stochastic, specification.settings)
    assert look(mixed, rollouts=[*own, safer[0]]).ranges[0].rollouts is not None
    with pytest.raises(InvalidInput, match="episode 1 of rollouts: an episode is a list"):
        look(rollouts=[[0, 0]])


def test_an_interval_by_rollouts_lies_within_what_a_sum_can_be():
    low, high = look(rollouts=episodes(s2r.Kernel.from_dense(ROWS), 3)).ranges[0].rollouts
    assert 0.0 <= low < high == 3.0
    low, high = look(reality=kernel(s0a0=[0.0, 1.0]), rollouts=episodes(kernel(s0a0=[0.0, 1.0]), 2)).ranges[0].rollouts
    assert 0.0 <= low < 1.0 < high <= 3.0


def test_how_many_rollouts_are_needed_is_what_estimate_margin_needs():
    """Nothing varies on the simulator, V_c is 3 and 2.5 must be shown: so many episodes do, and one less does not."""
    name = "rollouts to confirm the margin, upright"
    numbers = of(look(), name).numbers
    for needed, wanted in ((numbers["rollouts"], 1.0), (numbers["rollouts_for_half"], 0.5)):
        enough, short = (
            estimate_margin(tiny().simulator, episodes(s2r.Kernel.from_dense(ROWS), n), delta=0.1).margins[0]
            for n in (needed, needed - 1)
        )
        assert enough >= wanted > short
    assert numbers["spread"] == 0.0
    assert "looked at as often as you like" in of(look(), name).what


def test_how_much_a_sum_varies_is_exact():
    # One fall decides between 1, 2 and 3; variance by hand from P(1, 2, 3) = (0.1, 0.09, 0.81).
    reality = kernel(s0a0=[0.9, 0.1])
    variance = 0.1 + 4 * 0.09 + 9 * 0.81 - (0.1 + 0.18 + 2.43) ** 2
    model, baseline = tiny().simulator.with_kernel(reality), tiny().baseline
    assert spread_of(model, baseline, 0) == pytest.approx(math.sqrt(variance))
    # The same with a row for every step, a policy that tosses a coin, and a start that does.
    per_step = s2r.CMDP.of(reality.repeated(3), 3, [0.75, 0.25], s2r.AtLeast(SAFE, 1.0))
    tossed = s2r.MarkovPolicy.stochastic([[0.5, 0.5], [1.0, 0.0]], horizon=3)
    stay = 0.5 * 0.9  # action 1 leaves for good
    sums = {0: 0.25, 1: 0.75 * (1 - stay), 2: 0.75 * stay * (1 - stay), 3: 0.75 * stay * stay}
    mean = sum(value * share for value, share in sums.items())
    expected = math.sqrt(sum(share * (value - mean) ** 2 for value, share in sums.items()))
    assert spread_of(per_step, tossed, 0) == pytest.approx(expected)
    pooled = s2r.CMDP.of(reality, 3, [0.75, 0.25], s2r.AtLeast(np.stack([SAFE] * 3), 1.0))
    assert spread_of(pooled, tossed, 0) == pytest.approx(expected)


def test_an_open_margin_says_how_many_rollouts_to_expect():
    few = look(rollouts=episodes(s2r.Kernel.from_dense(ROWS), 10))
    finding = of(few, "baseline by rollouts, upright")
    expected = finding.numbers["rollouts_expected"]
    assert expected == of(look(), "rollouts to confirm the margin, upright").numbers["rollouts"]
    assert f"about {expected:,} times in all" in finding.cure
    assert "you may look after each of them" in finding.cure
    not_so = of(look(tiny(margin=1.5), rollouts=episodes(s2r.Kernel.from_dense(ROWS), 10)), "baseline by rollouts, upright")
    assert not_so.numbers["rollouts_expected"] is None
    assert "its mean does not have the margin" in not_so.cure


def test_a_margin_without_slack_cannot_be_confirmed():
    found = of(look(tiny(margin=1.5)), "rollouts to confirm the margin, upright")
    assert found.level is Level.WARNING
    assert found.numbers["rollouts"] is None
    assert of(look(), "rollouts to confirm the margin, upright").numbers["rollouts"] > 0


# Gaps and the floor


def test_rows_between_the_gaps():
    found = look(reality=kernel(s0a1=[0.3, 0.7]))
    finding = of(found, "separation")
    assert finding.level is Level.FAILURE
    assert finding.numbers["between"] == 1
    assert "mismatch_gap to 0.3" in finding.cure
    # A calibrated gap of 0.3 would keep Delta above the tolerance for ever, so that is no cure.
    assert "calibrated_gap" not in finding.cure
    assert "methods.RewardFree" in finding.cure
    small = of(look(tiny(margin=1.5, tolerance=0.375), reality=kernel(s0a1=[0.1, 0.9])), "separation")
    assert "raise calibrated_gap to 0.1" in small.cure
    assert found.guarantees[Guarantee.SAFETY] == "separation fails"
    for mended in (tiny(mismatch_gap=0.3), tiny(calibrated_gap=0.3)):
        assert of(look(mended, kernel(s0a1=[0.3, 0.7])), "separation").level is Level.OK


def test_known_rows_that_are_wrong():
    known = np.array([[False, True], [False, False]])
    found = look(tiny(known=known), runs=2)
    assert of(found, "known rows").level is Level.FAILURE
    assert "mismatch_gap" not in " ".join(one.cure for one in found.findings)  # it is not the gap that is wrong
    assert (found.rehearsals[0].wrong, found.rehearsals[0].lost) == (0, 0)
    assert of(look(tiny(known=~known)), "separation").level is Level.OK
    between = look(tiny(known=known), kernel(s0a1=[0.3, 0.7]))  # the gaps speak of rows that are not known
    assert of(between, "separation").level is Level.OK


def test_a_wrong_row_that_is_taken_for_right():
    found = look(reality=kernel(s0a1=[0.1, 0.9]), max_rounds=5_000, runs=2)
    assert [trial.lost for trial in found.rehearsals] == [1, 1]
    assert found.rehearsals[0].wrong == 1
    finding = of(found, "wrong rows found")
    assert finding.level is Level.FAILURE
    assert "of 1 wrong row: 0% proved wrong, up to 1 in a run taken for right" in finding.what  # not 2 of 1
    assert "lower mismatch_gap" in finding.cure


def test_a_reality_outside_the_declared_support():
    specification = tiny(support=s2r.Kernel.from_dense(ROWS))
    found = look(specification)
    assert of(found, "declared support").level is Level.FAILURE
    assert "action 1 in state 0" in of(found, "declared support").what
    assert found.guarantees[Guarantee.SAFETY] == "declared support fails"
    assert found.rehearsals == ()
    assert "declared support" in [one.name for one in broken_assumptions(specification, METHOD, WRONG, guessed=False)]
    assert look(specification, s2r.Kernel.from_dense(ROWS)).rehearsals


def test_the_floor_by_hand():
    """Every step costs H - 1 - h times the gap: 2 + 1 + 0. Where staying is known, only leaving costs, and V_c = 1.5 lets
    three of four episodes leave at once.
    """
    assert floor_of(tiny(), s2r.methods.SimToReal()) == pytest.approx(3.0)
    assert floor_of(tiny(span_bonus=False), s2r.methods.SimToReal()) == pytest.approx(9.0)
    assert floor_of(tiny(known=np.array([[True, False], [False, False]])), s2r.methods.SimToReal()) == pytest.approx(2.25)
    assert floor_of(tiny(known=np.ones((2, 2), dtype=bool)), s2r.methods.SimToReal()) == pytest.approx(0.0)
    assert floor_of(tiny(), s2r.methods.RewardFree()) == 0.0


def test_a_calibrated_gap_at_which_no_run_stops():
    found = look(tiny(calibrated_gap=0.1))
    finding = of(found, "stop")
    assert finding.level is Level.FAILURE
    assert finding.numbers["floor"] == pytest.approx(0.3)
    assert finding.numbers["largest_calibrated_gap"] == pytest.approx(0.25 / 3.0)
    assert "below 0.0833" in finding.cure
    assert found.guarantees[Guarantee.SAFETY] == ""
    assert found.guarantees[Guarantee.TERMINATION] == "no run reaches its stop"
    # And so it is: Delta of a long rehearsal ends at the floor.
    long = look(tiny(calibrated_gap=0.1), max_rounds=40_000).rehearsals[0]
    assert not long.stopped
    assert 0.3 <= long.uncertainty < 0.33
    below = of(look(tiny(calibrated_gap=0.05)), "stop")
    assert below.level is Level.WARNING
    assert look(tiny(calibrated_gap=0.05), max_rounds=40_000).rehearsals[0].stopped
    assert of(look(tiny(calibrated_gap=0.01)), "stop").level is Level.OK


def test_a_mismatch_gap_that_no_row_can_have():
    rows = np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
    np.testing.assert_allclose(largest_distances(s2r.Kernel.from_dense(rows), None), [0.7, 0.6, 0.5, 0.5])
    np.testing.assert_allclose(largest_distances(s2r.Kernel.from_dense(ROWS), s2r.Kernel.from_dense(ROWS)), 0.0)
    np.testing.assert_allclose(largest_distances(s2r.Kernel.from_dense(ROWS), None), 1.0)
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtLeast(SAFE, 1.1, "upright"))
    for gap, level in ((0.55, Level.WARNING), (0.8, Level.FAILURE)):
        settings = s2r.Settings(margin=0.1, calibrated_gap=0.0, mismatch_gap=gap, tolerance=0.02)
        finding = of(look(s2r.Problem(model, tiny().baseline, settings), model.kernel), "possible distances")
        assert finding.level is level
        assert "mismatch_gap to 0.5" in finding.cure


def test_gaps_at_which_no_row_is_cleared():
    found = of(look(tiny(mismatch_gap=0.0)), "clearing rows")
    assert found.level is Level.WARNING
    visits = of(look(tiny(refinements=())), "clearing rows").numbers["visits"]
    assert of(look(), "clearing rows").numbers["visits"] < visits / 3
    learner = s2r.Learner(tiny(refinements=()))
    learner.evidence.counts.tally.visits[:] = int(visits)
    assert learner.evidence.radii.max() <= 0.25  # halfway between the gaps
    learner.evidence.counts.tally.visits[:] = int(visits) - 1
    assert learner.evidence.radii.max() > 0.25


def test_what_the_baseline_never_visits():
    numbers = of(look(), "coverage").numbers
    assert numbers == {
        "reachable": 4,
        "baseline": 1,
        "wrong": 1,
        "wrong_reachable": 1,
        "wrong_visited_by_baseline": 0,
    }


# Conditions


def test_a_tolerance_above_a_quarter_of_the_margin_is_a_finding_where_the_radius_is_heuristic():
    """With a certified radius such settings are refused."""
    failing = of(look(tiny(tolerance=0.3, radius=s2r.radii.Scaled(0.4))), "condition: tolerance against margin")
    assert failing.level is Level.FAILURE
    assert "at most 0.25" in failing.cure


def test_a_condition_of_the_termination_bound_alone_is_a_warning():
    """margin / (4 H^3) = 1 / 108."""
    found = look(tiny(calibrated_gap=0.01))
    assert of(found, "condition: calibrated_gap").level is Level.WARNING
    assert "0.00925925" in of(found, "condition: calibrated_gap").cure
    assert found.guarantees[Guarantee.SAFETY] == ""
    assert "calibrated_gap" in found.guarantees[Guarantee.TERMINATION]
    assert found.ready


def titles(found):
    figure = draw_preflight(found)
    above = [part.get_suptitle() for part in figure.subfigs]
    return " ".join([*above, *(axes.get_title(loc="left") for axes in figure.axes)])


def test_heuristic_constants_guarantee_nothing():
    found = look(tiny(radius=s2r.radii.Scaled(0.5)), max_rounds=100_000)
    assert "HEURISTIC" in of(found, "library").what
    assert all("HEURISTIC" in why for why in found.guarantees.values())
    assert found.verdict().startswith("READY (HEURISTIC")
    assert found.rehearsals[0].stopped
    for name in ("samples to the stop", "plans on the way"):
        assert "HEURISTIC, not guaranteed" in of(found, name).what
        assert "certified" not in of(found, name).what
    assert "HEURISTIC" in of(found, "planning accuracy").what
    assert found.standing is Standing.HEURISTIC
    assert found.to_document()["standing"] == "heuristic"
    assert "Certified" not in titles(found)
    assert "HEURISTIC, not guaranteed" in titles(found)
    unready = look(tiny(radius=s2r.radii.Scaled(0.5)), kernel(s0a0=[0.2, 0.8]))
    assert unready.verdict().startswith("NOT READY (HEURISTIC")


def test_certified_is_said_where_all_holds_and_nowhere_else():
    found = look(max_rounds=100_000)
    assert "(certified)" in of(found, "samples to the stop").what
    assert "(certified)" in of(found, "plans on the way").what
    assert "HEURISTIC" not in found.describe()
    assert "Certified suboptimality" in titles(found)
    # On this guess the baseline lacks its margin; rollouts on the real system confirm it, so nothing fails.
    every = np.array([[True, False], [False, False]])
    overruled = look(reality=Guess(rows=every, gap=0.5), rollouts=episodes(s2r.Kernel.from_dense(ROWS), 400))
    assert of(overruled, "baseline on the guessed reality, upright").level is Level.WARNING
    for broken in (look(reality=kernel(s0a1=[0.1, 0.9]), max_rounds=3_000), overruled):
        assert "not guaranteed, an assumption fails" in of(broken, "plans on the way").what
        assert "certified" not in of(broken, "plans on the way").what
        assert "Certified" not in titles(broken)


def test_an_unsafe_rehearsal_is_a_failure():
    """The margin is not there in reality: what is mixed with it is unsafe."""
    found = look(tiny(mismatch_gap=0.5), kernel(s0a0=[0.2, 0.8]))
    assert of(found, "safety in rehearsal").level is Level.FAILURE
    assert "an assumption is not true" in of(found, "safety in rehearsal").cure


def test_a_system_without_a_constraint():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0)
    found = look(s2r.Problem(model, tiny().baseline, tiny().settings))
    assert found.ranges == ()
    assert of(found, "constraints").level is Level.WARNING
    assert "no constraint: nothing is promised about safety" in found.describe()
    assert "nothing is promised" in found.guarantees[Guarantee.SAFETY]
    assert found.guarantees[Guarantee.ACCURACY] == ""
    assert not [one for one in found.findings if one.name == "safety in rehearsal"]
    draw_preflight(found)
    assert not [one for one in look().findings if one.name == "constraints"]


def test_the_figure_shows_what_was_found():
    found = look(rollouts=episodes(s2r.Kernel.from_dense(ROWS), 20))
    figure = draw_preflight(found)
    words = {text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()}
    assert {
        "threshold 1.5, unsafe where shaded",
        "baseline on the simulator 3",
        "tolerance 0.25",
        "baseline by rollouts",
    } <= words


@each(
    ("values", "labels"),
    [
        ([0.25, 3.0], {"0.5", "1", "2"}),
        ([1e-4, 12.0], {"0.001", "0.1", "10"}),
        ([0.09, 0.12], {"0", "0.05", "0.1"}),
        ([0.75], {"0", "0.2", "0.4", "0.6", "0.8"}),
        ([0.0, 1e-16], {"0", "0.2", "1"}),
        ([], {"0", "1"}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_ticks_can_be_read_whatever_the_range(values, labels):
    figure = Figure()
    axes = figure.subplots()
    axes.plot(range(1, 1 + len(values)), values, label="curve")
    _dress(axes, np.arange(1, 1 + len(values)), np.array(values))
    figure.canvas.draw()
    low, high = axes.get_ylim()
    shown = {label.get_text() for label in axes.get_yticklabels() if low <= label.get_position()[1] <= high}
    assert labels <= shown
    across = [label.get_text() for label in axes.get_xticklabels()]
    assert len(set(across)) == len(across)
    assert axes.get_axisbelow() is True


@pytest.mark.filterwarnings("error")
def test_figures_of_runs_that_are_hardly_any():
    everything = np.ones((2, 2), dtype=bool)
    for found in (look(max_rounds=1), look(tiny(known=everything), s2r.Kernel.from_dense(ROWS))):
        draw_preflight(found).canvas.draw()


def test_a_margin_that_known_rows_rule_out_is_refuted_before_any_data():
    """All rows are declared known, and on them the baseline falls with 1/2 a step."""
    model = s2r.CMDP.of(kernel(s0a0=[0.5, 0.5]), 3, 0, s2r.AtLeast(SAFE, 1.5, "upright"))
    specification = s2r.Problem(model, tiny().baseline, tiny().settings, known=np.ones((2, 2), dtype=bool))
    found = look(specification, model.kernel)
    (library,) = [one for one in found.findings if one.code is Code.LIBRARY]
    assert library.level is Level.FAILURE
    assert "contradicts itself before any data" in library.what
    assert found.rehearsals[0].halted
    assert found.rehearsals[0].rounds == 0
    assert found.standing is Standing.REFUTED
    json.dumps(found.to_document(), allow_nan=False)
    draw_preflight(found).canvas.draw()


def test_a_rehearsal_that_is_halted_says_so():
    """Row (0, 0) always falls: the baseline is worth 1, and 2.5 were stated. Its own returns show it."""
    found = look(reality=kernel(s0a0=[0.0, 1.0]), max_rounds=2_000)
    assert found.rehearsals[0].halted
    stop = of(found, "samples to the stop")
    assert "from then on nothing is deployed: no stop is to come" in stop.what
    (text,) = [text.get_text() for text in draw_preflight(found).axes[1].texts]
    assert "nothing is deployed" in text


# Labels are data


def named(name, **changes):
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, s2r.AtLeast(SAFE, 1.5, name))
    specification = tiny(**changes)
    return s2r.Problem(model, specification.baseline, specification.settings)


NAMES = [
    "falls seen on the simulator",
    "on the simulator",
    "library",
    "stop",
    "declared support",
    "separation",
    "condition: tolerance against margin",
    "certified: yes; HEURISTIC {} {0} %s",
    "baseline-on-simulator",
]


@each("name", NAMES)
def test_what_a_constraint_is_called_hides_nothing(name):
    """Row (0, 0) falls with 0.8 in reality: the margin is broken, and unsafe mixtures follow."""
    reality = kernel(s0a0=[0.2, 0.8])
    (broken,) = [one for one in broken_assumptions(named(name), METHOD, reality, guessed=False) if one.subject]
    assert (broken.code, broken.subject, broken.about) == (Code.BASELINE_ON_STATED_REALITY, name, About.REALITY)
    assert name in broken.name
    plain, other = (look(one, reality, max_rounds=100) for one in (named("upright"), named(name)))
    assert [(one.code, one.level) for one in other.findings] == [(one.code, one.level) for one in plain.findings]
    assert other.standing is plain.standing is Standing.REFUTED
    assert [bool(why) for why in other.guarantees.values()] == [bool(why) for why in plain.guarantees.values()]


def test_rows_that_are_farther_off_than_was_stated_fail():
    """Row (0, 1) of the reality is 0.6 away."""
    for stated, level in ((0.6, Level.OK), (0.5, Level.FAILURE)):
        within = np.array([[1.0, stated], [1.0, 1.0]])
        specification = replace(tiny(), within=within)
        found = look(specification)
        finding = of(found, "distances that were stated")
        assert finding.level is level
        broken = broken_assumptions(specification, METHOD, WRONG, guessed=False)
        assert (Code.WITHIN in [one.code for one in broken]) is (level is Level.FAILURE)
    assert "1 row of the stated reality are farther" in finding.what
    assert "0.6 away where 0.5 was stated" in finding.what
    assert found.guarantees[Guarantee.SAFETY] == "distances that were stated fails"
    assert found.standing is Standing.REFUTED


def test_a_row_of_which_a_distance_is_stated_needs_no_separation_and_a_guess_keeps_to_it():
    specification = replace(tiny(mismatch_gap=0.8), within=np.array([[1.0, 0.6], [0.3, 0.3]]))
    assert of(look(specification), "separation").level is Level.OK
    assert of(look(tiny(mismatch_gap=0.8)), "separation").level is Level.FAILURE
    for seed in range(3):
        guess = guess_reality(specification, Guess(rows=1, seed=seed))
        assert guess.wrong.tolist() == [True, False, False, False]
    everywhere = replace(specification, within=np.full((2, 2), 0.3))
    assert not guess_reality(everywhere, Guess()).wrong.any()
    assert of(look(everywhere, None), "distances that were stated").level is Level.OK


def test_the_verdict_names_all_that_remains_to_be_true():
    ties = Ties([[0, 1], [2, 3]], [[[0], [1]], [[1], [1]]], exact=True)
    real, within = s2r.Kernel.from_dense(ROWS), np.full((2, 2), 0.3)
    known, rows = np.eye(2, dtype=bool), RowAccuracy(np.zeros((2, 2)), np.full((2, 2), 9), 0.01, True)
    for stated, said in (
        ({}, "The margin and the gaps remain assumptions"),
        ({"ties": replace(ties, exact=False)}, "The margin and the gaps remain assumptions"),
        ({"known": known}, "The margin, the gaps and the known rows remain assumptions"),
        ({"support": real}, "The margin, the gaps and the declared support remain assumptions"),
        ({"estimated": rows}, "The margin, the gaps and the accuracy of the estimated rows remain assumptions"),
        ({"ties": ties}, "The margin, the gaps and the exact ties remain assumptions"),
        ({"within": within}, "The margin, the gaps and the distances that `within` states remain assumptions"),
    ):
        found = look(replace(tiny(), **stated), real, max_rounds=5)
        assert said in found.verdict()


def test_what_is_true_of_the_simulator_alone_breaks_no_rehearsal():
    """The simulator falls from row (0, 0) and the stated reality does not: its rows are wrong, the margin is there."""
    model = s2r.CMDP.of(kernel(s0a0=[0.5, 0.5]), 3, 0, s2r.AtLeast(SAFE, 1.5, "on the stated reality"))
    specification = s2r.Problem(model, tiny().baseline, tiny().settings)
    assert broken_assumptions(specification, METHOD, s2r.Kernel.from_dense(ROWS), guessed=False) == []
    guessed = broken_assumptions(specification, METHOD, model.kernel, guessed=True)
    assert [one.code for one in guessed] == [Code.BASELINE_ON_GUESSED_REALITY]


def test_every_code_says_what_it_is_about_and_has_a_title():
    for code in Code:
        assert code.about in About
        assert code.heading


def test_every_claim_that_does_not_stand_names_the_code_of_the_reason():
    document = look(reality=kernel(s0a1=[0.3, 0.7])).to_document()
    for claim in document["guarantees"].values():
        assert claim["because"] == [{"code": "separation", "subject": ""}]
        assert claim["stands"] is False
    stop = look(tiny(calibrated_gap=0.1)).to_document()["guarantees"]
    assert stop["safe exploration"]["because"] == []
    assert stop["termination bound"]["because"] == [{"code": "stop-floor", "subject": ""}]


# A simulator that was estimated


def estimated(accuracy, visits, **changes):
    rows = RowAccuracy(np.array(accuracy), np.array(visits), delta=0.04, certified=True)
    return dataclasses.replace(tiny(**changes), estimated=rows)


FEW = estimated([[0.1, 0.2], [0.0, 0.0]], [[50, 20], [0, 0]], known=np.array([[False, False], [True, True]]))


def test_a_calibrated_gap_below_the_accuracy_of_the_rows_is_not_ready():
    found = look(FEW)
    (finding,) = [one for one in found.findings if one.code is Code.ESTIMATED_ROWS]
    assert finding.level is Level.FAILURE
    assert finding.numbers["rows_not_covered"] == 2
    assert finding.numbers["accuracy"] == 0.2
    assert finding.cure == "sample more, or do without its rows (methods.RewardFree)"  # 0.2 would leave no stop
    rows = estimated([[0.01, 0.02], [0.0, 0.0]], [[50, 20], [0, 0]], known=np.array([[False, False], [True, True]]))
    (finding,) = [one for one in look(rows).findings if one.code is Code.ESTIMATED_ROWS]
    assert "calibrated_gap of at least 0.02, plus the simulator's own error (claims" in finding.cure
    assert "), or sample more" in finding.cure
    assert [(one.name, one.value) for one in finding.changes] == [("calibrated_gap", 0.02)]
    assert not found.ready
    assert found.guarantees[Guarantee.SAFETY] == "accuracy of the estimated simulator fails"
    covered = dataclasses.replace(FEW, settings=dataclasses.replace(FEW.settings, calibrated_gap=0.2))
    (finding,) = [one for one in look(covered).findings if one.code is Code.ESTIMATED_ROWS]
    assert finding.level is Level.OK
    assert finding.numbers["delta_in_all"] == pytest.approx(0.14)
    assert "0.14 in all" in finding.what
    (finding,) = [one for one in look(FEW, method=s2r.methods.RewardFree()).findings if one.code is Code.ESTIMATED_ROWS]
    assert finding.level is Level.OK  # no row is reused
    assert not [one for one in look().findings if one.code is Code.ESTIMATED_ROWS]


def test_rows_that_nobody_visited_or_that_are_called_exact():
    unseen = estimated([[0.0, 1.0], [0.0, 0.0]], [[0, 0], [0, 0]])
    (finding,) = [one for one in look(unseen).findings if one.code is Code.ESTIMATED_ROWS]
    assert finding.level is Level.WARNING
    assert "never visited, so that nothing supports what the simulator says there: 1 row" in finding.what
    exact = estimated([[0.1, 0.0], [0.0, 0.0]], [[9, 0], [0, 0]], known=np.array([[True, False], [False, False]]))
    (finding,) = [one for one in look(exact).findings if one.code is Code.ESTIMATED_ROWS]
    assert finding.level is Level.FAILURE
    assert "declared known although they were estimated" in finding.what
    with pytest.raises(InvalidInput, match=r"estimated.accuracy has shape \(1, 2\)"):
        look(estimated([[0.1, 0.2]], [[50, 20]]))


def test_an_estimated_simulator_end_to_end():
    """A coin by 200 samples a row: READY was said with calibrated_gap = 0, and the run was refuted."""

    class Coin:
        num_states, num_actions = 2, 1

        def sample(self, state, action, rng):
            return int(rng.random() < 0.5), 0.0, False

    found = s2r.estimate_by_sampling(
        Coin(), 2, s2r.SystemDescription(start=0, cost=[0.0, 1.0], limit=1.5), samples_per_row=200
    )
    system = found.system
    baseline = s2r.MarkovPolicy.deterministic([0, 0], num_actions=1, horizon=2)
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.1)
    task = s2r.Problem(system.model, baseline, settings, known=system.known, estimated=found.row_accuracy)
    (finding,) = [one for one in look(task, None).findings if one.code is Code.ESTIMATED_ROWS]
    assert finding.level is Level.FAILURE
    assert finding.numbers["accuracy"] == found.worst_accuracy > 0.0


def test_what_rollouts_confirm_is_shown_on_the_side_on_which_it_is_true():
    words = Wording("upright", 3, is_cost=False)
    third = 1.0 / 3.0
    one = Range(words, 1.0, 0.5, 0.0, 3.0, 2.0, 2.0, rollouts=(1.0 + 2.0 * third, 2.0 + third))
    found = _by_rollouts(one, 100, 0.05)
    assert "between 1.66666 and 2.33334" in found.what
    assert "0.666666 would be too" in found.what
