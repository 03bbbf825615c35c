"""Findings on a tiny system that can be computed by hand: level, numbers and the cures that are numbers, case by case.

Staying in the safe state is worth 3, leaving at once 1; the baseline stays, the threshold is 1.5 and the margin 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import safe2real as s2r
from safe2real.exploration import roll_out
from safe2real.preflight.findings import About, Code, Level
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.problem import Ties
from safe2real.problem.problem import RowAccuracy
from safe2real.problem.theorem import Guarantee
from tests.preflight.specs import ROWS, SAFE, kernel, look, tiny

ROW_01 = np.array([[False, True], [False, False]])
WRONG = kernel(s0a1=[0.6, 0.4])  # row (0, 1) is 0.6 away, and the baseline never goes there
RIGHT = s2r.Kernel.from_dense(ROWS)
OK, WARNING, FAILURE = Level.OK, Level.WARNING, Level.FAILURE
FREE, FALLS = s2r.methods.RewardFree(), kernel(s0a0=[0.5, 0.5])


class Case(NamedTuple):
    """A problem looked at with these options has the finding, with these of its numbers and these changes."""

    code: Code
    level: Level
    problem: s2r.Problem
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    numbers: dict[str, Any] = {}  # noqa: RUF012
    changes: dict[str, float] | None = None


def of(rows, *constraints, **changes):
    """The tiny problem with other rows of the simulator, or other constraints."""
    listed = list(constraints) or [s2r.AtLeast(SAFE, 1.5, "upright")]
    return replace(tiny(**changes), simulator=s2r.CMDP.of(rows, 3, 0, listed))


def estimated(accuracy, visits, *, known=((False, False), (True, True)), **changes):
    rows = RowAccuracy(np.array(accuracy), np.array(visits), delta=0.04, certified=True)
    return replace(tiny(known=np.array(known), **changes), estimated=rows)


def rollouts(reality, count, problem=None):
    problem = problem or tiny()
    system = problem.simulator.with_kernel(reality)
    return [roll_out(system, problem.baseline, seed=3, round_number=i + 1) for i in range(count)]


def at(reality, **options):
    return {"reality": reality, **options}


COIN = s2r.Kernel.from_dense([[[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
STAY, LEAVE = s2r.AtLeast(SAFE, 1.5, "stay"), s2r.AtLeast(1.0 - SAFE, 1.8, "leave")
HALF = s2r.AtLeast(0.5 * SAFE, 1.75, "upright")
UPRIGHT, EASY = s2r.AtLeast(SAFE, 1.1, "upright"), s2r.AtLeast(1.0 - SAFE, 0.5, "leave")
COINS = {"margin": 0.1, "tolerance": 0.02}
FEW, SOME, NONE = [[50, 20], [0, 0]], [[0.1, 0.2], [0.0, 0.0]], np.zeros((2, 2), dtype=bool)
CASES = {
    # Thresholds: staying and leaving add up to 3
    "a threshold between what policies reach": Case(
        Code.THRESHOLD, OK, tiny(), {}, {"lowest": 1.0, "highest": 3.0, "baseline": 3.0, "largest_threshold": 2.0}, {}
    ),
    "a threshold that no policy meets": Case(
        Code.THRESHOLD, FAILURE, of(RIGHT, HALF), {}, {"highest": 1.5}, {"threshold": 1.5}
    ),
    "a threshold that constrains nothing": Case(Code.THRESHOLD, WARNING, tiny(threshold=1.0), {}, {}, {"threshold": 2.0}),
    "thresholds that exclude each other": Case(
        Code.THRESHOLDS_TOGETHER, FAILURE, of(RIGHT, STAY, LEAVE), {}, {"shortfall": 0.15}
    ),
    "thresholds that one policy meets": Case(Code.THRESHOLDS_TOGETHER, OK, of(RIGHT, STAY, EASY)),
    # The baseline: V_c = 1 + 0.8 + 0.64 where row (0, 0) falls with 0.2
    "a baseline that fails its margin": Case(
        Code.BASELINE_ON_STATED_REALITY,
        FAILURE,
        tiny(mismatch_gap=0.2),
        at(kernel(s0a0=[0.8, 0.2])),
        {"value": 2.44, "margin": 0.94, "stated_margin": 1.0},
        {"margin": 0.94, "threshold": 1.44},
    ),
    "a baseline that is unsafe itself": Case(
        Code.BASELINE_ON_STATED_REALITY, FAILURE, tiny(), at(kernel(s0a0=[0.0, 1.0])), {"margin": -0.5}, {}
    ),
    "a simulator on which the margin is not, beside a stated reality": Case(
        Code.BASELINE_ON_SIMULATOR, WARNING, of(FALLS), at(RIGHT), {"margin": 0.25}
    ),
    "a simulator on which the margin is not, beside a guess": Case(
        Code.BASELINE_ON_SIMULATOR, FAILURE, of(FALLS), at(Guess(rows=0)), {"margin": 0.25}
    ),
    "rollouts that confirm the margin": Case(Code.BASELINE_BY_ROLLOUTS, OK, tiny(), {"rollouts": rollouts(RIGHT, 400)}),
    "rollouts that leave it open": Case(
        Code.BASELINE_BY_ROLLOUTS, WARNING, tiny(), {"rollouts": rollouts(RIGHT, 10)}, {"rollouts_expected": 21}
    ),
    "rollouts whose mean lacks it": Case(
        Code.BASELINE_BY_ROLLOUTS, WARNING, tiny(margin=1.5), {"rollouts": rollouts(RIGHT, 10)}, {"rollouts_expected": None}
    ),
    "rollouts that refute it": Case(
        Code.BASELINE_BY_ROLLOUTS, FAILURE, tiny(), {"rollouts": rollouts(kernel(s0a0=[0.3, 0.7]), 400)}
    ),
    "a margin that rollouts can confirm": Case(Code.ROLLOUTS_NEEDED, OK, tiny(), {}, {"rollouts": 21, "spread": 0.0}),
    "a margin without slack": Case(
        Code.ROLLOUTS_NEEDED, WARNING, tiny(margin=1.5), {}, {"rollouts": None}, {"margin": 0.75}
    ),
    # Rows: a calibrated gap of 0.3 would keep Delta above the tolerance for ever, so that is no cure
    "a row between the gaps": Case(
        Code.SEPARATION, FAILURE, tiny(), at(kernel(s0a1=[0.3, 0.7])), {"between": 1}, {"mismatch_gap": 0.3}
    ),
    "a row just above the smaller gap": Case(
        Code.SEPARATION,
        FAILURE,
        tiny(margin=1.5, tolerance=0.375),
        at(kernel(s0a1=[0.1, 0.9])),
        {"between": 1},
        {"mismatch_gap": 0.1, "calibrated_gap": 0.1},
    ),
    "a smaller mismatch gap": Case(Code.SEPARATION, OK, tiny(mismatch_gap=0.3), at(kernel(s0a1=[0.3, 0.7]))),
    "a larger calibrated gap": Case(Code.SEPARATION, OK, tiny(calibrated_gap=0.3), at(kernel(s0a1=[0.3, 0.7]))),
    "a known row between the gaps": Case(Code.SEPARATION, OK, tiny(known=ROW_01), at(kernel(s0a1=[0.3, 0.7]))),
    "rows with a stated distance": Case(
        Code.SEPARATION, OK, replace(tiny(mismatch_gap=0.8), within=np.array([[1.0, 0.6], [0.3, 0.3]]))
    ),
    "a row without one": Case(Code.SEPARATION, FAILURE, tiny(mismatch_gap=0.8)),
    "a known row that is wrong": Case(Code.KNOWN_ROWS, FAILURE, tiny(known=ROW_01), {}, {"rows": 1}, {}),
    "a row as far off as was stated": Case(Code.WITHIN, OK, replace(tiny(), within=np.array([[1.0, 0.6], [1.0, 1.0]]))),
    "a row farther off than was stated": Case(
        Code.WITHIN, FAILURE, replace(tiny(), within=np.array([[1.0, 0.5], [1.0, 1.0]])), {}, {"rows": 1, "stated": 1}
    ),
    "a reality outside the support": Case(Code.SUPPORT, FAILURE, tiny(support=RIGHT), {}, {"rows": 1}),
    "a wrong row that is taken for right": Case(
        Code.WRONG_ROWS_FOUND,
        FAILURE,
        tiny(),
        at(kernel(s0a1=[0.1, 0.9]), max_rounds=5_000, runs=2),
        {"share": 0.0, "lost": 1},
    ),
    "what the baseline never visits": Case(
        Code.COVERAGE,
        OK,
        tiny(),
        {},
        {"reachable": 4, "baseline": 1, "wrong": 1, "wrong_reachable": 1, "wrong_visited_by_baseline": 0},
    ),
    # Gaps by themselves: the floor is 3 times the calibrated gap, 2 + 1 + 0 over the steps
    "a calibrated gap at which no run stops": Case(
        Code.STOP_FLOOR, FAILURE, tiny(calibrated_gap=0.1), {}, {"floor": 0.3, "largest_calibrated_gap": 0.25 / 3.0}
    ),
    "a calibrated gap that leaves little room": Case(
        Code.STOP_FLOOR, WARNING, tiny(calibrated_gap=0.05), {}, {"floor": 0.15}
    ),
    "a calibrated gap that leaves room": Case(Code.STOP_FLOOR, OK, tiny(calibrated_gap=0.01), {}, {"floor": 0.03}, {}),
    "a mismatch gap that some rows cannot have": Case(
        Code.POSSIBLE_DISTANCES,
        WARNING,
        of(COIN, UPRIGHT, mismatch_gap=0.55, **COINS),
        at(COIN),
        {"rows": 2},
        {"mismatch_gap": 0.5},
    ),
    "a mismatch gap that no row can have": Case(
        Code.POSSIBLE_DISTANCES,
        FAILURE,
        of(COIN, UPRIGHT, mismatch_gap=0.8, **COINS),
        at(COIN),
        {"rows": 4},
        {"mismatch_gap": 0.5},
    ),
    "gaps at which no row is cleared": Case(Code.CLEARING, WARNING, tiny(mismatch_gap=0.0)),
    "a tolerance above a quarter of the margin": Case(
        Code.CONDITION, FAILURE, tiny(tolerance=0.3, radius=s2r.radii.Scaled(0.4)), {}, {}, {"tolerance": 0.25}
    ),
    # A simulator that was estimated: 0.2 as calibrated gap would leave no stop
    "an accuracy that no gap covers": Case(
        Code.ESTIMATED_ROWS, FAILURE, estimated(SOME, FEW), {}, {"rows_not_covered": 2, "accuracy": 0.2}, {}
    ),
    "an accuracy that a gap could cover": Case(
        Code.ESTIMATED_ROWS,
        FAILURE,
        estimated([[0.01, 0.02], [0.0, 0.0]], FEW),
        {},
        {"rows_not_covered": 2},
        {"calibrated_gap": 0.02},
    ),
    "an accuracy that the gap covers": Case(
        Code.ESTIMATED_ROWS, OK, estimated(SOME, FEW, calibrated_gap=0.2), {}, {"delta_in_all": 0.14}
    ),
    "no row that is reused": Case(Code.ESTIMATED_ROWS, OK, estimated(SOME, FEW), {"method": FREE}),
    "a row without a sample": Case(
        Code.ESTIMATED_ROWS, WARNING, estimated([[0.0, 1.0], [0.0, 0.0]], np.zeros((2, 2), int), known=NONE),
        {}, {"rows_unvisited": 1},
    ),
    "an estimated row that is called known": Case(
        Code.ESTIMATED_ROWS,
        FAILURE,
        estimated([[0.1, 0.0], [0.0, 0.0]], [[9, 0], [0, 0]], known=((True, False), (False, False))),
        {},
        {"rows_called_exact": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_finding_has_its_level_its_numbers_and_its_cures(name):
    case = CASES[name]
    found = look(case.problem, **({"reality": WRONG, "max_rounds": 20} | case.options))
    of_code = [one for one in found.findings if one.code is case.code]
    finding = max(
        of_code, key=lambda one: list(Level).index(one.level)
    )  # the worst, where a condition or constraint has one
    assert finding.level is case.level, str(finding)
    assert {key: finding.numbers[key] for key in case.numbers} == pytest.approx(case.numbers)
    if case.changes is not None:
        assert {one.name: one.value for one in finding.changes} == pytest.approx(case.changes)
        assert bool(finding.cure) is (finding.level is not OK)
    assert found.ready is not bool(found.failures)
    if finding.level is FAILURE:
        assert {claim.value for claim, why in found.guarantees.items() if why} >= {one.value for one in finding.affects}


@pytest.mark.parametrize(
    ("problem", "options", "absent"),
    [
        (tiny(), {}, {Code.CONSTRAINTS, Code.ESTIMATED_ROWS, Code.KNOWN_ROWS, Code.WITHIN, Code.POSSIBLE_DISTANCES}),
        (tiny(), {"method": FREE}, {Code.SEPARATION, Code.CLEARING, Code.PROTECTION}),
        (tiny(support=RIGHT), {}, {Code.REHEARSED_STOP, Code.PLANS}),  # outside the support nothing is rehearsed
        (replace(tiny(), simulator=s2r.CMDP.of(RIGHT, 3, 0)), {}, {Code.REHEARSED_SAFETY, Code.THRESHOLD}),
    ],
)
def test_what_is_not_looked_at_is_not_found(problem, options, absent):
    found = look(problem, **({"reality": WRONG, "max_rounds": 5} | options))
    assert not absent & {one.code for one in found.findings}


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({}, "The margin and the gaps remain"),
        ({"ties": False}, "The margin and the gaps remain"),
        ({"ties": True}, "The margin, the gaps and the exact ties remain"),
        ({"known": np.eye(2, dtype=bool)}, "The margin, the gaps and the known rows remain"),
        ({"support": RIGHT}, "The margin, the gaps and the declared support remain"),
        (
            {"estimated": RowAccuracy(np.zeros((2, 2)), np.full((2, 2), 9), 0.01, True)},
            "The margin, the gaps and the accuracy of the estimated rows remain",
        ),
        ({"within": np.full((2, 2), 0.3)}, "The margin, the gaps and the distances that `within` states remain"),
    ],
)
def test_the_verdict_names_all_that_remains_to_be_true(stated, said):
    if "ties" in stated:
        stated = {"ties": Ties([[0, 1], [2, 3]], [[[0], [1]], [[1], [1]]], exact=stated["ties"])}
    assert f"{said} assumptions" in look(replace(tiny(), **stated), RIGHT, max_rounds=5).verdict()


def test_every_code_says_what_it_is_about_and_has_a_title():
    assert all(code.about in About and code.heading for code in Code)


def test_every_claim_that_does_not_stand_names_the_code_of_the_reason():
    document = look(reality=kernel(s0a1=[0.3, 0.7])).to_document()
    for claim in document["guarantees"].values():
        assert claim["because"] == [{"code": "separation", "subject": ""}]
        assert claim["stands"] is False
    floor = look(tiny(calibrated_gap=0.1), WRONG)
    because = {name: [one["code"] for one in claim["because"]] for name, claim in floor.to_document()["guarantees"].items()}
    assert because == {"safe exploration": [], "planning accuracy": [], "termination bound": ["stop-floor"]}
    assert floor.guarantees[Guarantee.TERMINATION] == "no run reaches its stop"


def test_a_condition_of_the_termination_bound_alone_is_a_warning():
    """margin / (4 H^3) = 1 / 108."""
    found = look(tiny(calibrated_gap=0.01), WRONG)
    (finding,) = [one for one in found.findings if one.subject == "calibrated_gap"]
    assert finding.level is WARNING
    assert finding.changes[0].value == pytest.approx(1.0 / 108.0, rel=1e-4)
    assert found.guarantees[Guarantee.SAFETY] == ""
    assert "calibrated_gap" in found.guarantees[Guarantee.TERMINATION]
    assert found.ready
