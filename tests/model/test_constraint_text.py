"""Constraints and states in the user's words; a number that a message shows is on the safe side of its limit."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import Wording, count, rounded_down, rounded_up
from safe2real.model.names import Legend, legend_from_json
from safe2real.problem.problem import Problem


def test_a_cost_is_shown_as_a_cost_rounded_to_the_true_side() -> None:
    falls, upright = Wording("falls", 20, is_cost=True), Wording("upright", 20, is_cost=False)
    assert falls.requirement(18.0) == "expected falls <= 2"
    assert falls.proved(18.33333333) == "expected falls <= 1.66667"
    assert upright.proved(2.0 / 3.0) == "expected upright >= 0.666666"
    assert (falls.bound_word, upright.bound_word) == ("limit", "threshold")
    assert [falls.number(20.0 + excess) for excess in (0.0, 4e-15, 1.0)] == [0.0, 0.0, -1.0]  # no cost of -4e-15
    assert falls.margin(0.5) == "expected falls is at least 0.5 below its limit"


def model() -> s2r.CMDP:
    kernel = s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5))
    constraints = [s2r.AtMost([[0, 1], [1, 0]], 2.0, "falls"), s2r.AtLeast(np.ones((2, 2)), 1.0, "upright")]
    return s2r.CMDP.of(kernel, 3, 0, constraints, state_names=["bed", "floor"], positions=[[0, 0], [np.nan, np.nan]])


def test_words_survive_what_is_made_of_a_model_and_its_document() -> None:
    baseline = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)
    settings = s2r.Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1)
    read = Problem.from_text(Problem(model(), baseline, settings).to_text()).simulator
    for same in (model().with_thresholds([1.0, 1.0]), model().with_kernel(model().kernel), read):
        assert same.costs == (True, False)
        assert same.legend.states == ("bed", "floor")
    assert model().with_constraints(1).costs == (True,)
    assert repr(model()).endswith("expected falls <= 2\n  expected upright >= 1")
    assert np.array_equal(read.legend.positions, model().legend.positions, equal_nan=True)
    assert (read.legend.row(1, 0), Legend().row(1, 0)) == ("action 0 in floor", "action 0 in state 1")


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ({"state_names": ["bed"]}, "state_names has 1 names; the system has 2 states"),
        ({"action_names": ["a", "b", "c"]}, "action_names has 3 names"),
        ({"state_names": "ab"}, "give a list of texts"),
        ({"state_names": ["bed", "\n"]}, r"state_names\[1\]"),
        ({"positions": [[0, 0]]}, "positions has 1 rows"),
        ({"positions": [0, 0]}, "give \\(column, row\\)"),
    ],
)
def test_names_that_do_not_fit_are_refused(names: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        s2r.CMDP.of(model().kernel, 3, 0, **names)  # type: ignore[arg-type]


@pytest.mark.parametrize("legend", [{"names": []}, {"positions": [[0, 0]], "nowhere": [1]}, {"states": "bed"}, []])
def test_legends_of_documents_are_checked(legend: object) -> None:
    with pytest.raises(InvalidInput):
        legend_from_json(legend)


# Rounded numbers

LIMITS = st.floats(-1e6, 1e6, allow_nan=False)


@given(LIMITS, st.sampled_from([None, 3, 4]))
def test_limits_are_rounded_to_the_right_side(limit, decimals):
    room = 1e-9 if decimals is not None else 1e-12 * abs(limit)
    assert float(rounded_down(limit, decimals)) <= limit + room
    assert float(rounded_up(limit, decimals)) >= limit - room


@pytest.mark.parametrize(
    ("limit", "decimals", "down", "up"),
    [
        (0.3, None, "0.3", "0.3"),
        (0.1 + 0.2, None, "0.3", "0.3"),
        (0.1 + 0.2, 4, "0.3", "0.3"),
        (1 / 3, None, "0.333333", "0.333334"),
        (1 / 3, 3, "0.333", "0.334"),
        (123.45678, 4, "123.4567", "123.4568"),
        (0.00001, 4, "0", "0.0001"),
    ],
)
def test_examples(limit, decimals, down, up):
    assert (rounded_down(limit, decimals), rounded_up(limit, decimals)) == (down, up)
    assert Decimal(down) <= Decimal(up)


def test_what_is_not_finite_is_said():
    for decimals in (None, 4):
        shown = [function(end, decimals) for end in (float("inf"), float("-inf")) for function in (rounded_down, rounded_up)]
        assert shown == ["inf", "inf", "-inf", "-inf"]


def test_one_row_and_more():
    assert [count(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
