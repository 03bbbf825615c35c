"""Rehearsals: the rounds are those of a learner, in batches; looks, forecasts, alternatives, and engines."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.model.trajectory import Trajectory
from safe2real.parallel import ENGINES, workers
from safe2real.preflight import rehearsal
from safe2real.preflight.findings import Code, Level
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.preflight.rehearsal import Effort, alternative_findings, compared, rehearse, rehearse_each
from tests.preflight.specs import WALK, kernel, look, ring, tiny

METHOD, FREE = s2r.methods.SimToReal(), s2r.methods.RewardFree()
WRONG = kernel(s0a1=[0.6, 0.4])  # 0.6 away, and the baseline never goes there


def same(one, other):
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def test_batches_of_one_are_the_rounds_of_compiled_code(monkeypatch):
    monkeypatch.setattr(rehearsal, "GROWTH", 0.0)
    batches = rehearse(tiny(), METHOD, WRONG, 3, max_rounds=150, looks_ahead=False)
    learner = s2r.Learner(replace(tiny(), settings=replace(tiny().settings, seed=3)), warm_start=False)
    run = s2r.simulate(learner, WRONG, max_rounds=150)
    assert batches.rounds == run.rounds == 150
    np.testing.assert_array_equal(batches.curve, run.uncertainty[:150])
    assert batches.lowest_slack == pytest.approx((run.real_values - tiny().simulator.thresholds).min())
    assert batches.uncertainty == learner.propose().uncertainty


def test_looks_come_at_powers_and_at_the_end():
    one = rehearse(tiny(), FREE, WRONG, 0, max_rounds=400, looks_ahead=False)
    assert one.looked_at.tolist() == [100, 316, 400]
    assert (np.diff(one.plan_bounds) <= 0.0).all()
    assert (np.diff(one.plan_values) >= -0.1).all()  # certified values of plans do not fall far
    assert one.curve_at[-1] == one.rounds == 400
    assert one.samples == 3 * 400


def test_a_rehearsal_that_stopped_needs_no_forecast_and_a_large_one_has_none(monkeypatch):
    stopped = rehearse(tiny(), METHOD, WRONG, 0, max_rounds=100_000)
    assert stopped.stopped
    assert stopped.uncertainty <= 0.25
    assert stopped.unsafe_rounds == 0
    assert stopped.rounds_to_stop == stopped.rounds
    cut = rehearse(tiny(), METHOD, WRONG, 0, max_rounds=200)
    assert cut.rounds_to_stop == 200 + cut.further == pytest.approx(stopped.rounds, rel=0.5)
    monkeypatch.setattr(rehearsal, "LARGE", 0)
    assert rehearse(tiny(), METHOD, WRONG, 0, max_rounds=200).rounds_to_stop is None


def test_no_batch_but_the_first_begins_after_the_time_is_up():
    (one,) = look(reality=WRONG, max_rounds=10**9, seconds=0.0).rehearsals
    assert (one.rounds, one.further, one.stopped) == (1, None, False)
    assert Effort(seconds=12.0).share_of(4) == 3.0
    assert Effort().share_of(4) is None


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"max_rounds": 0}])
def test_an_effort_is_positive(wrong):
    with pytest.raises(InvalidInput):
        Effort(**wrong)


def test_progress_counts_rounds_of_all_rehearsals():
    seen = []
    look(reality=WRONG, runs=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(100, 300), (150, 300), (250, 300), (300, 300)]
    look(reality=WRONG, runs=1, compare=True, progress=lambda *one: seen.append(one))
    assert seen[-1] == (600, 600)  # one other method, and two for the support


def test_an_engine_makes_the_same_ones_in_the_order_of_their_seeds():
    told, effort = [], Effort(runs=2, max_rounds=120)
    alone = rehearse_each(tiny(), METHOD, WRONG, effort, parts=2)
    assert [one.seed for one in alone] == [tiny().settings.coin_seed, tiny().settings.coin_seed + 1]
    with workers("threads", jobs=2):
        shared = rehearse_each(tiny(), METHOD, WRONG, effort, parts=2, progress=lambda *one: told.append(one))
    for one, other in zip(alone, shared, strict=True):
        same(one, other)
    assert told == [(120, 240), (240, 240)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_whole_check_says_the_same_on_every_engine(name):
    pytest.importorskip({"dask": "distributed", "local": "os", "threads": "os"}.get(name, name))
    given = {"runs": 3, "max_rounds": 300, "compare": True}
    alone = look(reality=WRONG, **given)
    with workers(name, jobs=2):
        shared = look(reality=WRONG, **given)
    assert shared.to_document() == alone.to_document()


def test_episodes_between_two_looks_are_by_powers():
    one = rehearse(tiny(), METHOD, WRONG, 0, max_rounds=1, looks_ahead=False)
    looks = replace(one, rounds=500, looked_at=np.array([100, 400]), plan_bounds=np.array([4.0, 1.0]))
    expected = {5.0: 100.0, 4.0: 100.0, 2.0: 200.0, 1.0: 400.0, 0.5: 500.0}  # halfway in logarithms; never reached
    assert {bound: looks.rounds_to(bound) for bound in expected} == pytest.approx(expected)


# Alternatives


@pytest.fixture(scope="module")
def found():
    return look(ring(), Guess(rows=1), max_rounds=400, compare=True)


def of(found, code):
    (one,) = [one for one in found.findings if one.code is code]
    return one


def test_the_other_method_is_rehearsed_and_the_cheaper_is_named(found):
    kept = of(found, Code.OTHER_METHOD)
    assert kept.level is Level.OK  # it is the one that is used
    assert kept.cure == ""
    assert kept.numbers["factor"] < 1.0 / 1.5
    advised = of(look(ring(), Guess(rows=1), max_rounds=400, compare=True, method=FREE), Code.OTHER_METHOD)
    assert advised.level is Level.ADVICE
    assert advised.numbers["factor"] > 1.5
    assert "methods.SimToReal()" in advised.cure
    assert "ADVICE" in str(advised)


@pytest.mark.parametrize(("method", "level"), [(METHOD, Level.ADVICE), (FREE, Level.OK)])
def test_a_simulator_that_takes_wrong_rows_for_right_is_not_advised(method, level):
    def run(problem, method, real):
        return replace(rehearse(problem, method, real, 0, max_rounds=200, looks_ahead=False), lost=int(method == METHOD))

    real = ring().simulator.kernel
    (one, *_) = alternative_findings(ring(), method, real, run(ring(), method, real), run, real=real)
    assert one.numbers["taken_for_right"] == 1
    assert one.level is level


def test_a_support_is_advised_with_what_it_saves(found):
    advice = of(found, Code.DECLARED_SUPPORT)
    assert advice.numbers["factor"] == pytest.approx(advice.numbers["episodes"] / advice.numbers["episodes_otherwise"])
    assert (advice.level is Level.ADVICE) == (advice.numbers["factor"] >= 1.1) == bool(advice.cure)


def supports(problem, reality, rollouts=()):
    """Whether a support is spoken of; a rehearsal of one round is enough to see."""

    def run(problem, method, real):
        return rehearse(problem, method, real, 0, max_rounds=1, looks_ahead=False)

    real = reality if isinstance(reality, s2r.Kernel) else problem.simulator.kernel
    made = alternative_findings(problem, METHOD, reality, run(problem, METHOD, real), run, real=real, rollouts=rollouts)
    return Code.DECLARED_SUPPORT in [one.code for one in made]


def test_a_support_that_is_false_declared_or_no_restriction_is_not_spoken_of():
    problem = ring()
    own = problem.simulator.kernel
    rows = own.to_dense().copy()
    rows[0, 1] = np.eye(WALK)[4]
    elsewhere = Trajectory.of(problem.simulator, [0, 4, 4, 4, 4, 4, 4], [0] * 6)
    anywhere = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5)), 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    assert supports(problem, own)
    assert not supports(problem, s2r.Kernel.from_dense(rows))
    assert not supports(problem, own, [elsewhere])
    assert not supports(replace(problem, support=own), own)
    assert not supports(replace(tiny(), simulator=anywhere), anywhere.kernel)


def test_who_is_unsafe_either_way_is_not_told_to_do_without_the_simulator():
    def run(problem, method, real):
        return replace(rehearse(problem, method, real, 0, max_rounds=200, looks_ahead=False), unsafe_rounds=5)

    real = ring().simulator.kernel
    (one, *_) = alternative_findings(ring(), METHOD, real, run(ring(), METHOD, real), run, real=real)
    assert (one.numbers["taken_for_right"], one.level) == (0, Level.OK)


@pytest.mark.parametrize("bound", [np.nan, 3.0])
def test_plans_whose_bound_says_nothing_are_not_compared(bound):
    one = rehearse(tiny(), METHOD, WRONG, 0, max_rounds=1, looks_ahead=False)
    assert compared(one, replace(one, plan_bounds=np.array([bound])), METHOD) == ("", {})
