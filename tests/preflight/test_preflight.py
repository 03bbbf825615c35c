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
from safe2real.problem.theorem import Guarantee
from safe2real.report.preflight_report import _dress, draw_preflight
from safe2real.standing import Standing
from safe2real.systems.measure import estimate_margin
from tests.preflight.specs import ROWS, SAFE, kernel, tiny
from tests.preflight.specs import look as quick

WRONG = kernel(s0a1=[0.6, 0.4])  # 0.6 away, and the baseline never goes there
METHOD = s2r.methods.SimToReal()


def look(specification=None, reality=WRONG, **options):
    return quick(specification, reality, **options)


def of(found, code):
    (finding,) = [finding for finding in found.findings if finding.code is code]
    return finding


# The whole


def test_a_system_that_is_ready():
    found = look(runs=2, max_rounds=100_000)
    assert found.ready, found.describe()
    assert found.verdict().startswith("READY")
    assert all(why == "" for why in found.guarantees.values())
    assert all(finding.level is not Level.FAILURE for finding in found.findings)
    stop = of(found, Code.REHEARSED_STOP)
    assert stop.level is Level.OK
    assert stop.numbers["rounds"] == np.mean([trial.rounds for trial in found.rehearsals])
    assert stop.numbers["samples"] == 3 * stop.numbers["rounds"]
    assert of(found, Code.REHEARSED_SAFETY).numbers["unsafe_rounds"] == 0
    assert of(found, Code.WRONG_ROWS_FOUND).numbers == {"share": 1.0, "lost": 0}
    assert all(trial.stopped and trial.uncertainty <= 0.25 for trial in found.rehearsals)
    bounds = list(of(found, Code.PLANS).numbers["bounds"].values())
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
    stop = of(look(max_rounds=200), Code.REHEARSED_STOP)
    assert stop.level is Level.WARNING
    assert stop.numbers["rounds_done"] == [200]
    assert stop.numbers["uncertainty"][0] > 0.25
    reached = of(look(max_rounds=100_000), Code.REHEARSED_STOP).numbers["rounds"]
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
    assert of(found, Code.REHEARSED_STOP).numbers["forecast_rounds"] is None
    assert "no stop is to come" in of(found, Code.REHEARSED_STOP).what
    (text,) = [text.get_text() for text in draw_preflight(found).axes[1].texts]
    assert "infinite" in text
    assert "contradict an assumption" in text


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"max_rounds": 0}, {"reality": ROWS}])
def test_what_cannot_be_looked_at(wrong):
    with pytest.raises(InvalidInput):
        look(**wrong)


def test_what_is_no_problem_is_refused():
    with pytest.raises(InvalidInput, match=r"problem is a CMDP; give Problem\(model, baseline, settings\)"):
        check_problem(tiny().simulator)


# The baseline


def test_a_baseline_that_fails_its_margin_breaks_a_rehearsal_and_one_that_keeps_it_does_not():
    """Row (0, 0) falls with 0.2: V_c = 1 + 0.8 + 0.64 = 2.44, which is 0.94 above 1.5."""
    reality = kernel(s0a0=[0.8, 0.2])
    (broken,) = broken_assumptions(tiny(mismatch_gap=0.2), METHOD, reality, guessed=False)
    assert broken.code is Code.BASELINE_ON_STATED_REALITY
    assert broken_assumptions(tiny(mismatch_gap=0.2, margin=0.94, tolerance=0.2), METHOD, reality, guessed=False) == []


def episodes(reality, count, specification=None):
    specification = specification or tiny()
    system = specification.simulator.with_kernel(reality)
    return [roll_out(system, specification.baseline, seed=3, round_number=i + 1) for i in range(count)]


def test_rollouts_of_another_policy_confirm_nothing():
    """The real baseline falls and fails its margin; what was rolled out is something else, which does not fall."""
    reality, specification = kernel(s0a0=[0.3, 0.7], s0a1=[1.0, 0.0]), tiny()
    assert of(look(specification, reality), Code.BASELINE_ON_STATED_REALITY).level is Level.FAILURE
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
    numbers = of(look(), Code.ROLLOUTS_NEEDED).numbers
    for needed, wanted in ((numbers["rollouts"], 1.0), (numbers["rollouts_for_half"], 0.5)):
        enough, short = (
            estimate_margin(tiny().simulator, episodes(s2r.Kernel.from_dense(ROWS), n), delta=0.1).margins[0]
            for n in (needed, needed - 1)
        )
        assert enough >= wanted > short


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


# Gaps and the floor


def test_known_rows_that_are_wrong_are_none_to_find_and_no_gap_would_mend_them():
    found = look(tiny(known=np.array([[False, True], [False, False]])), runs=2)
    assert not [one for finding in found.findings for one in finding.changes if one.name == "mismatch_gap"]
    assert (found.rehearsals[0].wrong, found.rehearsals[0].lost) == (0, 0)


def test_a_reality_outside_the_declared_support():
    specification = tiny(support=s2r.Kernel.from_dense(ROWS))
    found = look(specification)
    assert of(found, Code.SUPPORT).level is Level.FAILURE
    assert "action 1 in state 0" in of(found, Code.SUPPORT).what
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


def test_delta_of_a_long_rehearsal_ends_at_the_floor():
    (long,) = look(tiny(calibrated_gap=0.1), max_rounds=40_000).rehearsals
    assert not long.stopped
    assert 0.3 <= long.uncertainty < 0.33
    assert look(tiny(calibrated_gap=0.05), max_rounds=40_000).rehearsals[0].stopped


def test_how_far_a_row_can_be_wrong():
    rows = s2r.Kernel.from_dense([[[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
    own = s2r.Kernel.from_dense(ROWS)
    for kernel_of, support, expected in ((rows, None, [0.7, 0.6, 0.5, 0.5]), (own, own, 0.0), (own, None, 1.0)):
        np.testing.assert_allclose(largest_distances(kernel_of, support), expected)


def test_a_right_row_is_cleared_after_the_visits_that_are_named():
    visits = of(look(tiny(refinements=())), Code.CLEARING).numbers["visits"]
    assert of(look(), Code.CLEARING).numbers["visits"] < visits / 3
    learner = s2r.Learner(tiny(refinements=()))
    learner.evidence.counts.tally.visits[:] = int(visits)
    assert learner.evidence.radii.max() <= 0.25  # halfway between the gaps
    learner.evidence.counts.tally.visits[:] = int(visits) - 1
    assert learner.evidence.radii.max() > 0.25


# What it is worth


def titles(found):
    figure = draw_preflight(found)
    above = [part.get_suptitle() for part in figure.subfigs]
    return " ".join([*above, *(axes.get_title(loc="left") for axes in figure.axes)])


def test_heuristic_constants_guarantee_nothing():
    found = look(tiny(radius=s2r.radii.Scaled(0.5)), max_rounds=100_000)
    assert "HEURISTIC" in of(found, Code.LIBRARY).what
    assert all("HEURISTIC" in why for why in found.guarantees.values())
    assert found.verdict().startswith("READY (HEURISTIC")
    assert found.rehearsals[0].stopped
    for code in (Code.REHEARSED_STOP, Code.PLANS):
        assert "HEURISTIC, not guaranteed" in of(found, code).what
        assert "certified" not in of(found, code).what
    assert "HEURISTIC" in of(found, Code.PLANNING_ACCURACY).what
    assert found.standing is Standing.HEURISTIC
    assert found.to_document()["standing"] == "heuristic"
    assert "Certified" not in titles(found)
    assert "HEURISTIC, not guaranteed" in titles(found)
    unready = look(tiny(radius=s2r.radii.Scaled(0.5)), kernel(s0a0=[0.2, 0.8]))
    assert unready.verdict().startswith("NOT READY (HEURISTIC")


def test_certified_is_said_where_all_holds_and_nowhere_else():
    found = look(max_rounds=100_000)
    assert "(certified)" in of(found, Code.REHEARSED_STOP).what
    assert "(certified)" in of(found, Code.PLANS).what
    assert "HEURISTIC" not in found.describe()
    assert "Certified suboptimality" in titles(found)
    # On this guess the baseline lacks its margin; rollouts on the real system confirm it, so nothing fails.
    every = np.array([[True, False], [False, False]])
    overruled = look(reality=Guess(rows=every, gap=0.5), rollouts=episodes(s2r.Kernel.from_dense(ROWS), 400))
    assert of(overruled, Code.BASELINE_ON_GUESSED_REALITY).level is Level.WARNING
    for broken in (look(reality=kernel(s0a1=[0.1, 0.9]), max_rounds=3_000), overruled):
        assert "not guaranteed, an assumption fails" in of(broken, Code.PLANS).what
        assert "certified" not in of(broken, Code.PLANS).what
        assert "Certified" not in titles(broken)


def test_an_unsafe_rehearsal_is_a_failure():
    """The margin is not there in reality: what is mixed with it is unsafe."""
    found = look(tiny(mismatch_gap=0.5), kernel(s0a0=[0.2, 0.8]))
    assert of(found, Code.REHEARSED_SAFETY).level is Level.FAILURE
    assert "an assumption is not true" in of(found, Code.REHEARSED_SAFETY).cure


def test_a_system_without_a_constraint():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0)
    found = look(s2r.Problem(model, tiny().baseline, tiny().settings))
    assert found.ranges == ()
    assert of(found, Code.CONSTRAINTS).level is Level.WARNING
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


@pytest.mark.parametrize(
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
    assert "before any data" in library.what
    assert found.rehearsals[0].halted
    assert found.rehearsals[0].rounds == 0
    assert found.standing is Standing.REFUTED
    json.dumps(found.to_document(), allow_nan=False)
    draw_preflight(found).canvas.draw()


def test_a_rehearsal_that_is_halted_says_so():
    """Row (0, 0) always falls: the baseline is worth 1, and 2.5 were stated. Its own returns show it."""
    found = look(reality=kernel(s0a0=[0.0, 1.0]), max_rounds=2_000)
    assert found.rehearsals[0].halted
    stop = of(found, Code.REHEARSED_STOP)
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


@pytest.mark.parametrize("name", NAMES)
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


def test_rows_that_are_farther_off_than_was_stated_break_a_rehearsal():
    """Row (0, 1) of the reality is 0.6 away."""
    for stated, broken in ((0.6, []), (0.5, [Code.WITHIN])):
        problem = replace(tiny(), within=np.array([[1.0, stated], [1.0, 1.0]]))
        assert [one.code for one in broken_assumptions(problem, METHOD, WRONG, guessed=False)] == broken
        assert look(problem).standing is (Standing.REFUTED if broken else Standing.CERTIFIED)


def test_a_guess_keeps_to_the_distances_that_are_stated():
    specification = replace(tiny(mismatch_gap=0.8), within=np.array([[1.0, 0.6], [0.3, 0.3]]))
    for seed in range(3):
        guess = guess_reality(specification, Guess(rows=1, seed=seed))
        assert guess.wrong.tolist() == [True, False, False, False]
    everywhere = replace(specification, within=np.full((2, 2), 0.3))
    assert not guess_reality(everywhere, Guess()).wrong.any()
    assert of(look(everywhere, None), Code.WITHIN).level is Level.OK


def test_what_is_true_of_the_simulator_alone_breaks_no_rehearsal():
    """The simulator falls from row (0, 0) and the stated reality does not: its rows are wrong, the margin is there."""
    model = s2r.CMDP.of(kernel(s0a0=[0.5, 0.5]), 3, 0, s2r.AtLeast(SAFE, 1.5, "on the stated reality"))
    specification = s2r.Problem(model, tiny().baseline, tiny().settings)
    assert broken_assumptions(specification, METHOD, s2r.Kernel.from_dense(ROWS), guessed=False) == []
    guessed = broken_assumptions(specification, METHOD, model.kernel, guessed=True)
    assert [one.code for one in guessed] == [Code.BASELINE_ON_GUESSED_REALITY]


# A simulator that was estimated


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
    assert finding.numbers["accuracy"] == found.worst > 0.0


def test_what_rollouts_confirm_is_shown_on_the_side_on_which_it_is_true():
    words = Wording("upright", 3, is_cost=False)
    third = 1.0 / 3.0
    one = Range(words, 1.0, 0.5, 0.0, 3.0, 2.0, 2.0, rollouts=(1.0 + 2.0 * third, 2.0 + third))
    found = _by_rollouts(one, 100, 0.05)
    assert "between 1.66666 and 2.33334" in found.what
    assert "0.666666 would be too" in found.what
