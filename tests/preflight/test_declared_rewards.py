"""What a check says of a method that stops by the accuracy of declared rewards, and what it measures of a support."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.preflight.check import check_problem
from safe2real.preflight.findings import Advice, Code, Level
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.preflight.theorem_findings import stop_floor
from safe2real.problem.accuracy import RowAccuracy
from safe2real.problem.conditions import Guarantee
from safe2real.report.preflight_report import draw_preflight
from tests.preflight.test_recommendations import WALK, ring

GOAL = np.repeat(np.arange(WALK) == 2, 2).reshape(WALK, 2).astype(float)
METHOD = s2r.methods.ForRewards({"goal": GOAL}, accuracy=0.6)


def look(problem=None, method=METHOD, **options):
    given = {"reality": Guess(rows=1), "runs": 1, "max_rounds": 60, "compare": False} | options
    return check_problem(problem or ring(), method=method, **given)


def of(found, code):
    return [one for one in found.findings if one.code is code]


def test_only_the_declared_rewards_are_promised_to_be_accurate():
    found = look()
    (promise,) = of(found, Code.PLANNING_ACCURACY)
    assert promise.numbers == {"accuracy": 0.6, "relative": True, "rewards": ["goal"]}
    assert found.guarantees[Guarantee.ACCURACY] == found.guarantees[Guarantee.SAFETY] == ""
    assert found.guarantees[Guarantee.TERMINATION] != ""  # Theorem 1 is about runs that stop at the tolerance
    assert found.to_document()["guarantees"]["planning accuracy"]["stands"]
    (any_reward,) = of(look(method=None), Code.PLANNING_ACCURACY)
    assert any_reward.numbers == {"accuracy": pytest.approx(2 * 6 * 0.375 / 1.5 + 2 * 0.375)}


def test_a_method_that_promises_no_accuracy_is_said_to_promise_none():
    found = look(method=s2r.methods.Trial(ring().baseline))
    assert of(found, Code.PLANNING_ACCURACY) == of(found, Code.STOP_FLOOR) == []
    assert found.guarantees[Guarantee.ACCURACY] != ""


def test_the_accuracy_decides_and_the_tolerance_is_not_spoken_of():
    rounds = {"max_rounds": 20}
    found = look(**rounds)
    assert {one.subject for one in of(found, Code.CONDITION)} == {"separation", "margin", "delta"}
    (floor,) = of(found, Code.STOP_FLOOR)
    assert floor.numbers == {"floor": 0.0, "accuracy": 0.6}
    (stop,) = of(found, Code.REHEARSED_STOP)
    assert stop.level is Level.WARNING
    assert "tolerance" not in str(stop)
    assert "larger accuracy" in stop.cure
    assert (found.goal, found.tolerance) == ("accuracy", 0.6)
    draw_preflight(found)
    (larger,) = of(look(ring(tolerance=0.1), method=None, **rounds), Code.REHEARSED_STOP)
    assert "larger tolerance" in larger.cure
    (largest,) = of(look(method=None, **rounds), Code.REHEARSED_STOP)
    assert "larger tolerance" not in largest.cure  # it is margin / 4 already, and more is refused


def test_an_accuracy_that_the_calibrated_gap_rules_out():
    method = s2r.methods.ForRewards({"goal": GOAL}, accuracy=0.01)
    (floor,) = stop_floor(ring(calibrated_gap=0.02), method)
    assert floor.level is Level.FAILURE
    assert floor.affects == (Guarantee.TERMINATION,)
    assert floor.numbers["floor"] > 0.01 == floor.numbers["accuracy"]
    enough = s2r.methods.ForRewards({"goal": GOAL}, accuracy=float(floor.numbers["floor"]) + 1e-3)
    assert stop_floor(ring(calibrated_gap=0.02), enough)[0].level is Level.OK


@pytest.mark.parametrize("method", [None, METHOD])
def test_a_stop_in_the_very_last_round_is_counted(method):
    problem = ring(mismatch_gap=0.9, tolerance=0.375)
    needed = look(problem, method, runs=2, max_rounds=100_000).trials
    last = max(one.rounds for one in needed)
    assert all(one.stopped for one in needed)
    found = look(problem, method, runs=2, max_rounds=last)
    (stop,) = of(found, Code.REHEARSED_STOP)
    assert stop.level is Level.OK
    assert (stop.numbers["stopped"], stop.numbers["runs"]) == (2, 2)


def test_the_cure_of_a_run_that_is_not_certified_fits_its_reason():
    rows = RowAccuracy(np.full((WALK, 2), 0.01), np.full((WALK, 2), 50), 0.01, True)
    (coarse,) = of(look(replace(ring(), estimated=rows)), Code.LIBRARY)
    assert coarse.numbers["doubts"] == ["gap-not-covered"]
    assert "calibrated_gap" in coarse.cure
    assert "radius" not in coarse.cure
    assert "HEURISTIC" not in coarse.what
    (scaled,) = of(look(ring(bonus_scale=0.5)), Code.LIBRARY)
    assert scaled.numbers["doubts"] == ["bonus-scaled"]
    assert scaled.cure == "set bonus_scale = 1"


def test_what_a_support_saves_is_measured_in_episodes_for_declared_rewards_too():
    found = look(max_rounds=400, compare=True)
    (advice,) = [one for one in found.recommendations if one.code is Advice.SUPPORT]
    numbers = advice.numbers
    assert numbers["episodes_factor"] == pytest.approx(numbers["episodes_before"] / numbers["episodes_after"])
    declared = replace(ring(), support=ring().simulator.kernel)
    seed = {"reality": Guess(rows=1), "runs": 1, "max_rounds": 5_000}
    without, having = (look(problem, **seed).trials[0].rounds for problem in (ring(), declared))
    assert (numbers["episodes_before"], numbers["episodes_after"]) == (without, having)  # both stop: as one would measure it
    assert numbers["episodes_factor"] > 1.4 > numbers["visits_factor"]  # which radii alone do not show
