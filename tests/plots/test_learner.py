"""What a learner knows in one picture, whatever its method."""

import re
import sys
from itertools import pairwise

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput, MissingExtra
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.evidence.moments import Moment, Moments
from safe2real.evidence.row_rule import Separation
from safe2real.model.names import Legend
from safe2real.plots.learner import draw_learning
from safe2real.plots.map import draw_mismatch, draw_visits_needed
from safe2real.testing.systems import random_case

REWARD = np.eye(4)[:, :2]
LEGEND = Legend.of(["home", "way", "pit", "goal"], ["walk", "run"])


def named_case(seed=2):
    case = random_case(seed)
    simulator = case.problem.simulator.with_legend(LEGEND)
    return s2r.Problem(simulator, case.problem.baseline, case.problem.settings), case.real


def run(method=None, rounds=40, **problem):
    problem, real = named_case()
    learner = s2r.Learner(problem, method)
    s2r.simulate(learner, real, max_rounds=rounds)
    return learner


def titles(figure):
    return [axes.get_title(loc=side) for axes in figure.axes for side in ("left", "center") if axes.get_title(loc=side)]


def curve(figure, label):
    return next(line for axes in figure.axes for line in axes.lines if line.get_label().startswith(label))


def test_moments_stay_few_and_in_order():
    kept = Moments()
    for samples in range(5_000):
        kept.note(Moment(samples, 1.0, 0))
    numbers = [one.samples for one in kept]
    assert 500 <= len(kept) <= 1_000
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, 4_999)
    assert max(np.diff(numbers)) <= 16
    kept.note(Moment(4_999, 0.5, 0))
    assert [one.uncertainty for one in kept][-1] == 0.5
    assert [one.samples for one in kept][-1] == 4_999


def test_the_uncertainty_is_drawn_over_samples_above_the_map():
    learner = run()
    figure = learner.plot()
    line = curve(figure, "uncertainty of a value")
    assert line.get_xdata()[0] == 0  # from the first sample on, though the rounds were compiled
    assert line.get_xdata()[-1] == learner.samples == 40 * 3
    assert line.get_ydata()[-1] <= line.get_ydata()[0]
    assert any("Distance of the real rows" in text.get_text() for text in figure.texts)
    assert figure.texts[-1].get_text() == "Certified, if the assumptions are true"
    names = {label.get_text() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    assert {"home", "pit", "walk", "run"} <= names


def test_compiled_and_plain_rounds_are_drawn_alike():
    compiled = run()
    problem, real = named_case()
    plain = s2r.Learner(problem)
    from safe2real.exploration.explore import drive
    from safe2real.exploration.simulate import KnownSystem

    drive(plain, KnownSystem(problem.simulator.with_kernel(real), problem.settings.coin_seed), max_rounds=40)
    assert list(compiled.moments) == [one for one in plain.moments if one.samples < plain.samples]


def test_declared_rewards_have_their_intervals():
    learner = run(s2r.methods.ForRewards({"goal": REWARD}, accuracy=0.01), rounds=15)
    figure = learner.plot()
    assert any(title.startswith("goal: ") for title in titles(figure))
    lower, upper = (curve(figure, words).get_ydata() for words in ("the certified plan", "no safe policy"))
    assert len(lower) > 2
    assert (np.array(lower) <= np.array(upper)).all()
    (now,) = learner.intervals()
    assert (lower[-1], upper[-1]) == (now.lower, now.upper)


def test_a_trial_shows_its_floors_and_no_map():
    problem, real = named_case()
    policy = s2r.MarkovPolicy.deterministic(np.zeros(4, dtype=int), num_actions=2, horizon=3)
    learner = s2r.Learner(problem, s2r.methods.Trial(policy, rewards={"goal": REWARD}, target={"goal": 2.5}))
    s2r.simulate(learner, real, max_rounds=30)
    figure = learner.plot()
    assert curve(figure, "the policy alone: at least").get_ydata()[-1] == learner.floors()[problem.simulator.labels[0]]
    assert curve(figure, "target").get_ydata()[0] == 2.5
    assert curve(figure, "threshold").get_ydata()[0] == pytest.approx(problem.simulator.thresholds[0])
    assert not any("Distance of the real rows" in text.get_text() for text in figure.texts)


def test_a_trial_may_begin_in_the_middle_of_a_run():
    moments = [Moment(0, 1.0, 8), Moment(30, 1.0, 8, floors={"goal": 0.5}), Moment(60, 1.0, 8, floors={"goal": 0.75})]
    figure = draw_learning(moments, named_case()[0].simulator, standing=s2r.Standing.CERTIFIED, tolerance=0.1)
    assert curve(figure, "the policy alone").get_xdata().tolist() == [30, 60]


def test_a_cost_is_drawn_as_a_cost():
    problem, real = named_case()
    model = problem.simulator
    cost = 1.0 - model.utilities[0, 0]
    model = s2r.CMDP.of(model.kernel, 3, 0, s2r.AtMost(cost, 3.0 - float(model.thresholds[0]), "falls"))
    policy = s2r.MarkovPolicy.deterministic(np.zeros(4, dtype=int), num_actions=2, horizon=3)
    learner = s2r.Learner(s2r.Problem(model, problem.baseline, problem.settings), s2r.methods.Trial(policy))
    s2r.simulate(learner, real, max_rounds=30)
    line = curve(learner.plot(), "the policy alone: at most")
    assert line.get_ydata()[-1] == pytest.approx(learner.floors()["falls"])
    assert any(title.startswith("The policy alone: expected falls <= ") for title in titles(learner.plot()))


def test_a_run_that_proves_nothing_says_so():
    learner = s2r.Learner(named_case()[0])
    learner.leave_model([0], [0])
    assert learner.plot().texts[-1].get_text() == "An assumption is REFUTED: no guarantee"


def test_rows_are_called_by_their_names():
    learner = run(rounds=5)
    found = learner.mismatch_map
    assert found.row_name([1, 0]) == "way, walk"
    figure = draw_visits_needed(found)
    if found.count(Verdict.OPEN):
        assert all(", " in label.get_text() for label in figure.axes[0].get_yticklabels())


def test_states_of_a_larger_map_are_called_by_their_names():
    names = [f"{hour:02d}h level {level}" for hour in range(24) for level in range(8)]
    rows = np.zeros((192, 3))
    found = MismatchMap(
        rows, rows, rows, rows, np.zeros((192, 3), dtype=np.uint8), rows, certified=True, legend=Legend.of(names)
    )
    figure = draw_mismatch(found, None)
    bands = [axes for axes in figure.axes if axes.images and axes.get_xticklabels()]
    drawn = [label.get_text() for axes in bands for label in axes.get_xticklabels()]
    assert drawn[0] == names[0]
    assert set(drawn) <= set(names)
    figure.draw_without_rendering()
    for axes in bands:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))


@pytest.mark.parametrize("gaps", [(0.0, 0.1), (0.05, 0.1), (0.0, 0.5), (0.9, 0.99)])
def test_the_names_of_the_gaps_do_not_overlap(gaps):
    figure = draw_mismatch(run(rounds=5).mismatch_map, Separation(*gaps))
    low, high = (text.get_window_extent() for text in figure.axes[-1].texts)
    assert low.y1 < high.y0


def test_a_plan_is_drawn_as_it_was_when_it_was_made(tmp_path):
    learner = run()
    plan = learner.plan(REWARD)
    before = plan.model.kernel.to_dense()
    assert plan.model.legend.actions == ("walk", "run")
    figure = plan.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").exists()
    assert figure.texts[0].get_text().startswith("Plan (certified): worth at least ")
    value, missed = re.findall(r"[0-9.]*[0-9]", figure.texts[0].get_text())
    assert plan.value - 0.01 * abs(plan.value) <= float(value) <= plan.value
    assert plan.suboptimality <= float(missed) <= 1.1 * plan.suboptimality
    assert max(len(value), len(missed)) <= 5
    s2r.simulate(learner, named_case()[1], max_rounds=40)
    assert np.array_equal(plan.model.kernel.to_dense(), before)
    from dataclasses import replace

    with pytest.raises(InvalidInput, match=r"plot\(model=system.model\)"):
        replace(plan, model=None).plot()
    assert replace(plan, model=None).plot(model=learner.simulator).texts[0].get_text() == figure.texts[0].get_text()


def test_without_matplotlib_the_cure_is_named(monkeypatch):
    learner = run(rounds=2)
    plan = learner.plan(REWARD)
    for name in [name for name in sys.modules if name.startswith(("safe2real.plots.", "matplotlib"))]:
        if name not in ("safe2real.evidence.moments",):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (learner.plot, plan.plot):
        with pytest.raises(MissingExtra, match=r"figures need the package matplotlib.*safe2real\[report\]"):
            draw()


def test_nothing_of_pyplot_is_touched():
    import subprocess

    script = "import sys; from safe2real.plots import learner, policy, system; print('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
