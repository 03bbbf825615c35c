"""The conditions of Theorem 1, one by one: when each holds, what it says, and whether its cure mends it."""

import math
import re
from typing import Any

import numpy as np
import pytest

from safe2real.errors import InvalidInput
from safe2real.problem import theorem as theory
from safe2real.problem.theorem import Guarantee
from tests.cases import each
from tests.problem.checking import Setting, assert_frozen

CHECK: Setting = {"epsilon": 0.5, "horizon": 12, "margin": 1.0, "calibrated_gap": 1e-5, "mismatch_gap": 0.68, "delta": 0.05}

ONLY_IF_TRUE = " (claims about the real system only if they are true)"
NEEDED_BY_ALL = {Guarantee.SAFETY, Guarantee.ACCURACY, Guarantee.TERMINATION}


def failing(**changes: Any) -> dict[str, theory.Condition]:
    return {condition.name: condition for condition in theory.check_conditions(**{**CHECK, **changes}).failing}


def cured_number(text: Any, before: Any) -> float:
    """The number after the words `before` in a cure."""
    found = re.search(rf"{re.escape(before)} (-?[\d.]+(?:e-?\d+)?)", text)
    assert found is not None, text
    return float(found[1])


def test_a_setting_that_meets_every_condition() -> None:
    conditions = theory.check_conditions(**CHECK)
    assert conditions.hold
    assert conditions.failing == ()
    assert all(conditions.hold_for(guarantee) for guarantee in Guarantee)
    assert [condition.name for condition in conditions.items] == [
        "separation",
        "margin",
        "delta",
        "calibrated_gap",
        "epsilon",
        "tolerance against margin",
        "tolerance against calibrated_gap",
        "tolerance against epsilon",
    ]
    assert all(condition.cure == "" for condition in conditions.items)
    assert str(conditions) == conditions.describe()
    assert "safe exploration: applies" in str(conditions)
    assert "FAILS" not in str(conditions)


@each(
    ("changes", "names", "said", "cure"),
    [
        ({"mismatch_gap": 1.2}, {"separation"}, "mismatch_gap is 1.2", "lower mismatch_gap to 1 or less"),
        ({"mismatch_gap": 1.0005, "calibrated_gap": 0.0}, {"separation"}, "1.0005", "lower mismatch_gap to 1 or less"),
        ({"calibrated_gap": -1e-9}, {"separation"}, "calibrated_gap is -1e-09", "raise calibrated_gap to 0 or more"),
        (
            {"mismatch_gap": 5e-6},
            {"separation"},
            "calibrated_gap is 1e-05, mismatch_gap is 5e-06",
            "lower calibrated_gap to at most 5e-06, or raise mismatch_gap to at least 1e-05",
        ),
        ({"margin": 12.5}, {"margin"}, "margin is 12.5; above 0 and at most the horizon 12", "a margin of at most 12"),
        ({"delta": 0.0}, {"delta"}, "delta is 0;", "0.05"),
        ({"delta": 1.0}, {"delta"}, "delta is 1;", "0.05"),
        ({"epsilon": 1.5}, {"epsilon"}, "epsilon is 1.5;", "choose an epsilon above 0 and at most 1"),
        ({"epsilon": 1.0005}, {"epsilon"}, "epsilon is 1.0005;", "choose an epsilon above 0 and at most 1"),
        # 0.5 x 1 / 48 + 1728 x 1e-5 = 0.0276967; 0.02 stands for 48 x (0.02 - 0.01728) / 1 = 0.13056
        (
            {"tolerance": 0.02},
            {"tolerance against epsilon"},
            "tolerance is 0.02; Theorem 1 sets margin epsilon / (4 H) + H^3 calibrated_gap = 0.0276966",
            "use a tolerance of 0.02769",
        ),
    ],
)
def test_each_condition_that_can_fail_alone(changes: Any, names: Any, said: Any, cure: Any) -> None:
    found = failing(**changes)
    assert set(found) == names
    (condition,) = found.values()
    assert said in condition.explanation
    assert cure in condition.cure
    assert not theory.check_conditions(**{**CHECK, **changes}).hold


def test_calibrated_gap_too_large() -> None:
    # 1 / (4 x 12^3) = 1 / 6912 = 0.000144675..., and 0.01 x 6912 = 69.12 exceeds the horizon
    found = failing(calibrated_gap=0.01)
    assert set(found) == {"calibrated_gap", "epsilon", "tolerance against margin"}
    gap = found["calibrated_gap"]
    assert gap.explanation == "calibrated_gap is 0.01; Theorem 1 needs at most margin / (4 H^3) = 0.000144675"
    assert gap.cure == "lower calibrated_gap to 0.000144675" + ONLY_IF_TRUE
    assert [(one.name, one.value) for one in gap.changes] == [("calibrated_gap", 0.000144675)]
    # H - 4 x 12^4 x 0.01 = 12 - 829.44
    assert "= -817.44 is needed" in found["epsilon"].explanation
    # for epsilon 0.5: gap 11.5 / (4 x 12^4) = 11.5 / 82944 = 0.000138647..., margin 829.44 / 11.5 = 72.1252...
    assert found["epsilon"].cure.startswith(
        "no epsilon is small enough: for an epsilon of 0.5, lower calibrated_gap to 0.000138647"
    )
    assert "margin" not in found["epsilon"].cure
    assert found["tolerance against margin"].cure == "it follows from epsilon: mend that condition"


def test_a_margin_that_would_help_is_not_called_impossible() -> None:
    # 0.0005 x 6912 = 3.456
    (gap,) = (failing(calibrated_gap=0.0005)[name] for name in ["calibrated_gap"])
    assert gap.cure == "lower calibrated_gap to 0.000144675, or ask for a margin of at least 3.456" + ONLY_IF_TRUE
    # 4 x 2^3 / 16 = 2, the horizon itself
    largest = failing(horizon=2, calibrated_gap=1 / 16)["calibrated_gap"]
    assert largest.cure == "lower calibrated_gap to 0.03125, or ask for a margin of at least 2" + ONLY_IF_TRUE


def test_a_calibrated_gap_above_every_mismatch_gap() -> None:
    assert failing(mismatch_gap=1.0, calibrated_gap=1.5)["separation"].cure.startswith("lower calibrated_gap to at most 1.0")


def test_no_epsilon_is_left_at_the_largest_calibrated_gap() -> None:
    """Theorem 1 admits eps_s = xi / (4 H^3), where its interval for epsilon is empty."""
    for epsilon in (1e-6, 0.5, 1.0):
        found = failing(horizon=2, calibrated_gap=1 / 32, epsilon=epsilon)
        assert set(found) == {"epsilon", "tolerance against margin"}
        assert found["epsilon"].cure.startswith(
            f"no epsilon is small enough: for an epsilon of {epsilon:g}, lower calibrated"
        )
    # an epsilon that no system could have is not what the cure aims at: (2 - 1) / 64 = 0.015625, 64 / 32 / (2 - 1) = 2
    assert failing(horizon=2, calibrated_gap=1 / 32, epsilon=1.0005)["epsilon"].cure == (
        "no epsilon is small enough: for an epsilon of 1, lower calibrated_gap to 0.015625, "
        f"or ask for a margin of at least 2{ONLY_IF_TRUE}"
    )


def test_epsilon_above_the_limit_that_the_calibrated_gap_leaves() -> None:
    # 12 - 82944 x 0.00014 = 12 - 11.61216 = 0.38784
    found = failing(calibrated_gap=0.00014)
    assert set(found) == {"epsilon", "tolerance against margin"}
    assert found["epsilon"].explanation.startswith("epsilon is 0.5; above 0 and at most min(1, H - 4 H^4")
    assert "= 0.38784 is needed" in found["epsilon"].explanation
    # 11.5 / 82944 = 0.000138647..., 82944 x 0.00014 / 11.5 = 1.0097530...
    assert found["epsilon"].cure == (
        "lower epsilon to 0.38784, or lower calibrated_gap to 0.000138647, or ask for a margin of at least 1.00976"
        + ONLY_IF_TRUE
    )


def test_one_step_leaves_no_room_for_epsilon_one_and_a_gap() -> None:
    # H = 1, epsilon = 1: H - epsilon = 0, so only a gap of 0 will do, whatever the margin
    found = failing(horizon=1, epsilon=1.0)
    assert found["epsilon"].cure == "lower epsilon to 0.99996, or lower calibrated_gap to 0" + ONLY_IF_TRUE
    assert failing(horizon=1, epsilon=1.0, calibrated_gap=0.0) == {}
    # at epsilon = 0.5 a margin of 4 x 0.2 / 0.5 = 1.6 would do, but cannot be had
    assert failing(horizon=1, calibrated_gap=0.2)["epsilon"].cure == (
        f"lower epsilon to 0.2, or lower calibrated_gap to 0.125{ONLY_IF_TRUE}"
    )


@each("epsilon", [0.0, -0.5])
def test_epsilon_that_is_not_positive(epsilon: Any) -> None:
    found = failing(epsilon=epsilon)
    assert {"epsilon", "tolerance against calibrated_gap"} <= set(found)
    assert found["epsilon"].cure == "choose an epsilon above 0 and at most 1"
    assert found["tolerance against calibrated_gap"].cure == "it follows from margin and epsilon: mend those conditions"


@each("margin", [0.0, -1.0])
def test_no_margin_at_all(margin: Any) -> None:
    conditions = theory.check_conditions(**{**CHECK, "margin": margin})
    found = {condition.name: condition for condition in conditions.failing}
    assert "room to spare" in found["margin"].cure
    assert f"no meaning at a margin of {margin:g}" in found["epsilon"].explanation
    for name in ("calibrated_gap", "epsilon", "tolerance against margin"):
        assert found[name].cure == "give a positive margin first"
    assert not any(conditions.hold_for(guarantee) for guarantee in Guarantee)
    assert "calibrated_gap" not in failing(margin=0.0, calibrated_gap=0.0)  # 0 is at most 0
    assert "stands for" not in failing(margin=margin, tolerance=0.02)["tolerance against epsilon"].cure


def test_a_chosen_tolerance_above_a_quarter_of_the_margin() -> None:
    found = failing(tolerance=0.3)
    assert set(found) == {"tolerance against margin", "tolerance against epsilon"}
    assert found["tolerance against margin"].explanation.startswith(
        "tolerance is 0.3; above 0 and at most margin / 4 = 0.25"
    )
    assert found["tolerance against margin"].cure == "choose a tolerance above 0 and at most 0.25"
    assert "stands for" not in found["tolerance against epsilon"].cure  # it stands for no epsilon the theorem admits


def test_a_chosen_tolerance_below_the_simulators_residual() -> None:
    # 12^3 x 1e-5 = 0.01728; 0.01 / 1728 = 5.787037e-06
    found = failing(tolerance=0.01)
    assert set(found) == {"tolerance against calibrated_gap", "tolerance against epsilon"}
    condition = found["tolerance against calibrated_gap"]
    assert condition.explanation == "tolerance is 0.01; more than H^3 calibrated_gap = 0.01728 is needed"
    assert condition.cure == (
        f"raise tolerance above 0.01728, at most to 0.25, or lower calibrated_gap below 5.78703e-06{ONLY_IF_TRUE}"
    )
    assert "tolerance against calibrated_gap" in failing(tolerance=0.01728)  # strictly more


def test_a_chosen_tolerance_that_is_not_positive() -> None:
    found = failing(tolerance=0.0, calibrated_gap=0.0)
    assert set(found) == {"tolerance against margin", "tolerance against calibrated_gap", "tolerance against epsilon"}
    assert found["tolerance against calibrated_gap"].cure == "raise tolerance above 0, at most to 0.25"


def test_a_chosen_tolerance_and_the_epsilon_it_stands_for() -> None:
    # 48 x (0.02 - 0.01728) / 0.8 = 0.1632
    (condition,) = failing(tolerance=0.02, margin=0.8).values()
    meant = cured_number(condition.cure, "stands for,")
    assert meant == pytest.approx(0.1632, rel=1e-9)
    assert failing(tolerance=0.02, margin=0.8, epsilon=meant) == {}
    assert failing(tolerance=cured_number(condition.cure, "use a tolerance of"), margin=0.8) == {}


def test_limits_are_rounded_to_the_side_that_meets_them() -> None:
    # margin / 4 = 0.16666...; 1728 x 1e-5 / 7 = 0.002468571...; 0.002 / 1728 = 1.157407...e-06
    assert "margin / 4 = 0.166666 is needed" in failing(tolerance=0.17, margin=2 / 3)["tolerance against margin"].explanation
    low = failing(tolerance=0.002, calibrated_gap=1e-5 / 7)["tolerance against calibrated_gap"]
    assert low.explanation.endswith("more than H^3 calibrated_gap = 0.00246858 is needed")
    assert low.cure == (
        f"raise tolerance above 0.00246858, at most to 0.25, or lower calibrated_gap below 1.1574e-06{ONLY_IF_TRUE}"
    )
    negative = failing(tolerance=-1.0, calibrated_gap=1e-5 / 7)["tolerance against calibrated_gap"]
    assert negative.cure == "raise tolerance above 0.00246858, at most to 0.25"
    # 12 - 82944 x 0.0001401 = 0.3795456
    assert "= 0.379545 is needed" in failing(calibrated_gap=0.0001401)["epsilon"].explanation


@each(
    ("tolerance", "calibrated_gap", "offered"),
    [
        (1 / 48, 0.0, True),  # epsilon = 1
        (1.0005 / 48, 0.0, False),  # epsilon = 1.0005
        (0.245, 0.00014, True),  # epsilon = 48 x (0.245 - 0.24192) = 0.14784
        (0.26, 0.00014, False),  # epsilon = 48 x (0.26 - 0.24192) = 0.868, but 0.26 is more than margin / 4
        (0.01728, 1e-5, False),  # epsilon = 0
    ],
)
def test_only_an_epsilon_that_the_theorem_admits_is_offered(tolerance: Any, calibrated_gap: Any, offered: Any) -> None:
    condition = failing(tolerance=tolerance, calibrated_gap=calibrated_gap)["tolerance against epsilon"]
    assert ("stands for" in condition.cure) == offered


@each(
    ("used", "changes", "name", "argument", "words"),
    [
        (3.0, {}, "calibrated_gap", "calibrated_gap", "lower calibrated_gap to"),
        (3.0, {}, "calibrated_gap", "margin", "a margin of at least"),
        (3.0, {}, "epsilon", "calibrated_gap", "lower calibrated_gap to"),
        (3.0, {}, "epsilon", "margin", "a margin of at least"),
        (3.0, {"epsilon": 2.0}, "calibrated_gap", "calibrated_gap", "lower calibrated_gap to"),
        (0.97, {}, "epsilon", "epsilon", "lower epsilon to"),
        (0.97, {}, "epsilon", "calibrated_gap", "lower calibrated_gap to"),
        (0.97, {}, "epsilon", "margin", "a margin of at least"),
        (0.97, {"epsilon": 3.0}, "epsilon", "epsilon", "at most"),
        (0.97, {"tolerance": 9.0}, "tolerance against margin", "tolerance", "at most"),
        (0.1, {"mismatch_gap": 1e-7 / 3}, "separation", "calibrated_gap", "lower calibrated_gap to at most"),
        (0.1, {"mismatch_gap": 1e-7 / 3}, "separation", "mismatch_gap", "raise mismatch_gap to at least"),
    ],
)
@each("margin", [1.0, 0.7, 0.3, 2.0 / 3.0])
@each("horizon", [7, 12, 13])
def test_typing_in_what_a_cure_says_mends_its_condition(
    used: Any, changes: Any, name: Any, argument: Any, words: Any, margin: Any, horizon: Any
) -> None:
    """`used` is the share of margin / (4 H^3) that the calibrated gap takes up."""
    gap = float(f"{used * margin / (4 * horizon**3):.4g}")
    changes = {"calibrated_gap": gap, "margin": margin, "horizon": horizon, **changes}
    value = cured_number(failing(**changes)[name].cure, words)
    assert name not in failing(**{**changes, argument: value})
    # and it says little more than is needed
    nearly = value * (1 - 2e-5 if words.endswith("at least") else 1 + 2e-5)
    assert name in failing(**{**changes, argument: nearly})


@each(
    ("changes", "lost"),
    [
        ({"mismatch_gap": 1.2}, NEEDED_BY_ALL),
        ({"margin": 13.0}, NEEDED_BY_ALL),
        ({"delta": 1.0}, NEEDED_BY_ALL),
        ({"calibrated_gap": 0.01}, {Guarantee.ACCURACY, Guarantee.TERMINATION}),
        ({"epsilon": 2.0}, {Guarantee.ACCURACY, Guarantee.TERMINATION}),
        ({"tolerance": 0.3}, {Guarantee.ACCURACY, Guarantee.TERMINATION}),
        ({"tolerance": 0.2}, {Guarantee.ACCURACY}),  # stops sooner than the theorem's, and plans worse
        ({"tolerance": 0.02}, {Guarantee.TERMINATION}),  # stops later, and plans better
        ({"tolerance": 0.01}, {Guarantee.TERMINATION}),  # need not stop
    ],
)
def test_which_claims_a_failing_condition_costs(changes: Any, lost: Any) -> None:
    conditions = theory.check_conditions(**{**CHECK, **changes})
    assert {guarantee for guarantee in Guarantee if not conditions.hold_for(guarantee)} == lost
    for guarantee in Guarantee:
        said = "NOT guaranteed" if guarantee in lost else "applies"
        assert f"\n  {guarantee.value}: {said}\n" in conditions.describe()
    for condition in conditions.failing:
        assert f"FAILS  {condition.name} (needed for {', '.join(condition.needed_for)})" in conditions.describe()
        assert f"{condition.explanation}. Cure: {condition.cure}" in conditions.describe()


def test_which_claims_rest_on_which_condition() -> None:
    needed = {condition.name: set(condition.needed_for) for condition in theory.check_conditions(**CHECK).items}
    assert {name for name, claims in needed.items() if Guarantee.SAFETY in claims} == {"separation", "margin", "delta"}
    assert needed["calibrated_gap"] == needed["tolerance against calibrated_gap"] == {Guarantee.TERMINATION}
    later = {Guarantee.ACCURACY, Guarantee.TERMINATION}
    assert needed["epsilon"] == needed["tolerance against margin"] == needed["tolerance against epsilon"] == later


@each(
    "changes",
    [
        {"mismatch_gap": 1e-5},  # equal gaps
        {"mismatch_gap": 1.0},
        {"calibrated_gap": 0.0},
        {"margin": 12.0},
        {"epsilon": 1.0},
        {"tolerance": theory.tolerance_for(0.5, horizon=12, margin=1.0, calibrated_gap=1e-5)},
        {"calibrated_gap": 0.0, "horizon": 1, "epsilon": 1.0},  # tau = xi / 4 exactly
        {"epsilon": 0.1, "margin": 0.3, "calibrated_gap": 0.3 * 11.9 / 82944},  # the same, up to rounding
    ],
)
def test_the_ends_of_every_interval_belong_to_it(changes: Any) -> None:
    assert failing(**changes) == {}


@each("argument", [*CHECK, "tolerance"])
def test_only_unreadable_numbers_stop_a_check(argument: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{argument} is nan; "):
        theory.check_conditions(**{**CHECK, argument: math.nan})


def test_numpy_numbers_do_as_well_as_pythons() -> None:
    """Also where powers of the horizon leave 64 bits."""
    plain: Setting = {**CHECK, "horizon": 60_000}
    assert theory.check_conditions(**{**plain, "horizon": np.int64(60_000)}) == theory.check_conditions(**plain)


def test_results_are_frozen() -> None:
    conditions = theory.check_conditions(**CHECK)
    assert_frozen(conditions)
    assert_frozen(conditions.items[0])


def test_no_cure_is_out_of_reach() -> None:
    """16^3 x 0.08 = 327.68: no tolerance is so large, and no margin either."""
    found = failing(tolerance=0.25, horizon=16, calibrated_gap=0.08)["tolerance against calibrated_gap"]
    assert "327.68 is needed" in found.explanation
    assert "327" not in found.cure
    assert "raise tolerance" not in found.cure
    assert found.cure.startswith(
        f"lower calibrated_gap below 6.10351e-05{ONLY_IF_TRUE}; runs are safe and plans are certified without it"
    )
    assert [one.name for one in found.changes] == ["calibrated_gap"]
    assert "tolerance against calibrated_gap" not in failing(
        tolerance=0.25, horizon=16, calibrated_gap=found.changes[0].value
    )


def test_a_margin_is_not_asked_for_beyond_what_the_threshold_leaves() -> None:
    # 6912 x 0.001 = 6.912 is below the horizon 12, but above what a threshold of 8 leaves
    assert "margin of at least 6.912" in failing(calibrated_gap=0.001)["calibrated_gap"].cure
    assert "margin" not in failing(calibrated_gap=0.001, largest_margin=4.0)["calibrated_gap"].cure
    assert failing(margin=12.5, largest_margin=4.0)["margin"].changes[0].value == 4.0
    assert failing(margin=5.0, largest_margin=4.0, calibrated_gap=0.01)["calibrated_gap"].changes == ()


@each(
    "changes",
    [
        {"mismatch_gap": 5e-6},
        {"margin": 12.5},
        {"calibrated_gap": 0.0005},
        {"calibrated_gap": 0.01},
        {"tolerance": 0.01},
        {"horizon": 2, "calibrated_gap": 1 / 32},
    ],
)
def test_a_margin_or_a_gap_is_proposed_only_if_it_is_true(changes: Any) -> None:
    """A program that types in what mends a condition must see that it would claim something."""
    claims = {"margin", "calibrated_gap", "mismatch_gap"}
    proposed = [(condition, one) for condition in failing(**changes).values() for one in condition.changes]
    assert any(one.name in claims for _, one in proposed)
    for condition, one in proposed:
        document = one.to_document()
        assert document["only_if_true"] is one.only_if_true is (one.name in claims)
        assert str(document["text"]).endswith(ONLY_IF_TRUE) == (one.name in claims)
        if one.name in claims:
            assert ONLY_IF_TRUE in condition.cure
