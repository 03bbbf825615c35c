"""What a check says of a method that stops by the accuracy of declared rewards, and what it measures of a support."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.preflight.conditions import stop_floor
from safe2real.preflight.findings import Code, Level
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.problem.problem import RowAccuracy
from safe2real.problem.theorem import Guarantee
from safe2real.report.preflight_report import draw_preflight
from tests.preflight.specs import WALK, ring
from tests.preflight.specs import look as quick

GOAL = np.repeat(np.arange(WALK) == 2, 2).reshape(WALK, 2).astype(float)
METHOD = s2r.methods.ForRewards({"goal": GOAL}, accuracy=0.6)


def look(problem=None, method=METHOD, **options):
    return quick(problem or ring(), Guess(rows=1), method=method, **({"max_rounds": 60} | options))


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
    assert of(found, Code.CONDITION) == []
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
    needed = look(problem, method, runs=2, max_rounds=100_000).rehearsals
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
    (advice,) = of(found, Code.DECLARED_SUPPORT)
    numbers = advice.numbers
    assert advice.level is Level.ADVICE
    assert numbers["factor"] == pytest.approx(numbers["episodes"] / numbers["episodes_otherwise"])
    assert numbers["factor"] > 1.4
    assert of(found, Code.OTHER_METHOD) == []  # neither SimToReal nor RewardFree
