"""The conditions of Theorem 1 that valid settings can miss: when each holds, and whether its cure mends it."""

from typing import Any

import numpy as np
import pytest

from safe2real.problem import theorem as theory
from safe2real.problem.theorem import Condition, Guarantee
from tests.problem.checking import Setting, assert_frozen, assert_refused, wrong_uses

# 1 x 0.5 / 48 + 12^3 x 1e-5: the tolerance of epsilon 0.5
CHECK: Setting = {
    "tolerance": 0.5 / 48 + 0.01728,
    "horizon": 12,
    "margin": 1.0,
    "calibrated_gap": 1e-5,
    "mismatch_gap": 0.68,
}
CLAIMS = {"margin", "calibrated_gap", "mismatch_gap"}
ONLY_IF_TRUE = " (claims about the real system only if they are true)"


def failing(**changes: Any) -> dict[str, Condition]:
    return {one.name: one for one in theory.check_conditions(**{**CHECK, **changes}) if not one.holds}


def offered(condition: Condition) -> dict[str, float]:
    """The settings that the cure changes, with the values it names."""
    return {one.name: one.value for one in condition.changes}


def test_a_setting_that_meets_every_condition() -> None:
    conditions = theory.check_conditions(**CHECK)
    names = ["calibrated_gap", "epsilon", "tolerance against margin", "tolerance against calibrated_gap"]
    assert [one.name for one in conditions] == names
    assert all(one.holds and one.cure == "" and one.changes == () for one in conditions)
    assert "stands for an epsilon of 0.5;" in conditions[1].explanation
    assert_frozen(conditions[0])


def test_calibrated_gap_too_large() -> None:
    # 1 / (4 x 12^3) = 1 / 6912 = 0.000144675..., and 0.01 x 6912 = 69.12 exceeds the horizon
    found = failing(calibrated_gap=0.01, tolerance=17.29)
    assert set(found) == {"calibrated_gap", "epsilon", "tolerance against margin"}
    gap, epsilon = found["calibrated_gap"], found["epsilon"]
    assert "margin / (4 H^3) = 0.000144675" in gap.explanation
    assert gap.cure == "lower calibrated_gap to 0.000144675" + ONLY_IF_TRUE
    assert offered(gap) == {"calibrated_gap": 0.000144675}
    # H - 4 x 12^4 x 0.01 = 12 - 829.44; for epsilon 48 x (17.29 - 17.28) = 0.48 a gap of 11.52 / 82944
    assert "= -817.44 is needed" in epsilon.explanation
    assert offered(epsilon) == {"calibrated_gap": pytest.approx(0.000138888, rel=1e-5)}  # a margin of 72 cannot be had
    assert offered(found["tolerance against margin"]) == {"tolerance": 0.25}


def test_a_margin_that_would_help_is_not_called_impossible() -> None:
    # 0.0005 x 6912 = 3.456
    gap = failing(calibrated_gap=0.0005)["calibrated_gap"]
    assert gap.cure == "lower calibrated_gap to 0.000144675, or ask for a margin of at least 3.456" + ONLY_IF_TRUE
    # 4 x 2^3 / 16 = 2, the horizon itself
    assert offered(failing(horizon=2, calibrated_gap=1 / 16)["calibrated_gap"]) == {"calibrated_gap": 0.03125, "margin": 2}


def test_no_epsilon_is_left_at_the_largest_calibrated_gap() -> None:
    """Theorem 1 admits eps_s = xi / (4 H^3), where its interval for epsilon is empty."""
    for epsilon in (1e-6, 0.5, 1.0):
        found = failing(horizon=2, calibrated_gap=1 / 32, tolerance=0.25 + epsilon / 8)
        assert set(found) == {"epsilon", "tolerance against margin"}
        assert "= 0 is needed" in found["epsilon"].explanation
    # a tolerance for a larger epsilon is judged by 1: (2 - 1) / 64 = 0.015625, 64 / 32 / (2 - 1) = 2
    large = failing(horizon=2, calibrated_gap=1 / 32, tolerance=1.0)["epsilon"]
    assert "the largest one, 1, is looked at instead" in large.explanation
    assert offered(large) == {"calibrated_gap": 0.015625, "margin": 2.0}


def test_epsilon_above_the_limit_that_the_calibrated_gap_leaves() -> None:
    # 12 - 82944 x 0.00014 = 0.38784; 11.5 / 82944 = 0.000138647..., 82944 x 0.00014 / 11.5 = 1.0097530...
    found = failing(calibrated_gap=0.00014, tolerance=0.5 / 48 + 0.24192)
    assert set(found) == {"epsilon", "tolerance against margin"}
    assert "= 0.38784 is needed" in found["epsilon"].explanation
    assert offered(found["epsilon"]) == {"calibrated_gap": 0.000138647, "margin": 1.00976}


def test_one_step_leaves_no_room_for_epsilon_one_and_a_gap() -> None:
    # H = 1, epsilon = 1: H - epsilon = 0, so only a gap of 0 will do, whatever the margin
    assert offered(failing(horizon=1, tolerance=0.26)["epsilon"]) == {"calibrated_gap": 0.0}
    assert failing(horizon=1, tolerance=0.25, calibrated_gap=0.0) == {}
    # at epsilon = 0.5 a margin of 4 x 0.2 / 0.5 = 1.6 would do, but cannot be had
    assert offered(failing(horizon=1, calibrated_gap=0.2, tolerance=0.325)["epsilon"]) == {"calibrated_gap": 0.125}


def test_a_tolerance_above_a_quarter_of_the_margin() -> None:
    found = failing(tolerance=0.3)
    assert set(found) == {"tolerance against margin"}
    assert offered(found["tolerance against margin"]) == {"tolerance": 0.25}


def test_a_tolerance_below_the_simulators_residual() -> None:
    # 12^3 x 1e-5 = 0.01728; 0.01 / 1728 = 5.787037e-06
    found = failing(tolerance=0.01)
    assert set(found) == {"tolerance against calibrated_gap"}
    assert found["tolerance against calibrated_gap"].cure == (
        f"raise tolerance above 0.01728, at most to 0.25, or lower calibrated_gap below 5.78703e-06{ONLY_IF_TRUE}"
    )
    assert "tolerance against calibrated_gap" in failing(tolerance=0.01728)  # strictly more


def test_limits_are_rounded_to_the_side_that_meets_them() -> None:
    # margin / 4 = 0.16666...; 1728 x 1e-5 / 7 = 0.002468571...; 0.002 / 1728 = 1.157407...e-06
    assert offered(failing(tolerance=0.17, margin=2 / 3)["tolerance against margin"]) == {"tolerance": 0.166666}
    low = failing(tolerance=0.002, calibrated_gap=1e-5 / 7)["tolerance against calibrated_gap"]
    assert low.explanation.endswith("more than H^3 calibrated_gap = 0.00246858 is needed")
    assert low.cure == (
        f"raise tolerance above 0.00246858, at most to 0.25, or lower calibrated_gap below 1.1574e-06{ONLY_IF_TRUE}"
    )
    # 12 - 82944 x 0.0001401 = 0.3795456
    assert "= 0.379545 is needed" in failing(calibrated_gap=0.0001401, tolerance=0.26)["epsilon"].explanation


@pytest.mark.parametrize(
    ("used", "epsilon", "name", "argument"),
    [
        (3.0, 0.5, "calibrated_gap", "calibrated_gap"),
        (3.0, 0.5, "calibrated_gap", "margin"),
        (3.0, 0.5, "epsilon", "calibrated_gap"),
        (0.97, 0.5, "epsilon", "calibrated_gap"),
        (0.97, 0.5, "tolerance against margin", "tolerance"),
    ],
)
@pytest.mark.parametrize("margin", [1.0, 0.7, 0.3, 2.0 / 3.0])
@pytest.mark.parametrize("horizon", [7, 12, 13])
def test_typing_in_what_a_cure_says_mends_its_condition(
    used: float, epsilon: float, name: str, argument: str, margin: float, horizon: int
) -> None:
    """`used` is the share of margin / (4 H^3) that the calibrated gap takes up; a change of it keeps epsilon."""

    def setting(**changes: float) -> Setting:
        found = {"calibrated_gap": float(f"{used * margin / (4 * horizon**3):.4g}"), "margin": margin, **changes}
        sizes = {"horizon": horizon, "margin": found["margin"], "calibrated_gap": found["calibrated_gap"]}
        return {"horizon": horizon, "tolerance": theory.tolerance_for(epsilon, **sizes), **found}  # type: ignore[arg-type]

    value = offered(failing(**setting())[name])[argument]
    assert name not in failing(**setting(**{argument: value}))
    # and it says little more than is needed
    nearly = value * (1 - 2e-5 if argument == "margin" else 1 + 2e-5)
    assert name in failing(**setting(**{argument: nearly}))


def test_which_claims_rest_on_which_condition() -> None:
    later = (Guarantee.ACCURACY, Guarantee.TERMINATION)
    assert {one.name: one.needed_for for one in theory.check_conditions(**CHECK)} == {
        "calibrated_gap": (Guarantee.TERMINATION,),
        "epsilon": later,
        "tolerance against margin": later,
        "tolerance against calibrated_gap": (Guarantee.TERMINATION,),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"mismatch_gap": 1e-5},  # equal gaps
        {"mismatch_gap": 1.0},
        {"calibrated_gap": 0.0},
        {"margin": 12.0},
        {"tolerance": 1 / 48 + 0.01728},  # epsilon = 1
        {"calibrated_gap": 0.0, "horizon": 1, "tolerance": 0.25},  # tau = xi / 4 exactly
        {"tolerance": 0.075, "margin": 0.3, "calibrated_gap": 0.3 * 11.9 / 82944},  # the same, up to rounding
    ],
)
def test_the_ends_of_every_interval_belong_to_it(changes: Setting) -> None:
    assert failing(**changes) == {}


@pytest.mark.parametrize(
    ("function", "setting", "argument", "value"),
    [case for case in wrong_uses((theory.check_conditions, CHECK)) if case[2:] != ("tolerance", 0.2501)],
)
def test_arguments_that_settings_refuse_are_refused(function: Any, setting: Any, argument: Any, value: Any) -> None:
    assert_refused(function, setting, argument, value)


def test_swapped_gaps_are_refused() -> None:
    assert_refused(theory.check_conditions, CHECK, "calibrated_gap", 0.7)


def test_numpy_numbers_do_as_well_as_pythons() -> None:
    """Also where powers of the horizon leave 64 bits."""
    plain: Setting = {**CHECK, "horizon": 60_000}
    assert theory.check_conditions(**{**plain, "horizon": np.int64(60_000)}) == theory.check_conditions(**plain)


def test_no_cure_is_out_of_reach() -> None:
    """16^3 x 0.08 = 327.68: no tolerance is so large, and no margin either."""
    found = failing(tolerance=0.25, horizon=16, calibrated_gap=0.08)["tolerance against calibrated_gap"]
    assert "327.68 is needed" in found.explanation
    assert "327" not in found.cure
    assert found.cure.startswith(
        f"lower calibrated_gap below 6.10351e-05{ONLY_IF_TRUE}; runs are safe and plans are certified without it"
    )
    assert list(offered(found)) == ["calibrated_gap"]
    mended = offered(found)["calibrated_gap"]
    assert "tolerance against calibrated_gap" not in failing(tolerance=0.25, horizon=16, calibrated_gap=mended)


def test_a_margin_is_not_asked_for_beyond_what_the_threshold_leaves() -> None:
    # 6912 x 0.001 = 6.912 is below the horizon 12, but above what a threshold of 8 leaves
    assert offered(failing(calibrated_gap=0.001)["calibrated_gap"])["margin"] == 6.912
    assert "margin" not in offered(failing(calibrated_gap=0.001, largest_margin=4.0)["calibrated_gap"])


@pytest.mark.parametrize(
    "changes",
    [{"calibrated_gap": 0.0005}, {"calibrated_gap": 0.01}, {"tolerance": 0.01}, {"horizon": 2, "calibrated_gap": 1 / 32}],
)
def test_a_margin_or_a_gap_is_proposed_only_if_it_is_true(changes: Setting) -> None:
    """A program that types in what mends a condition must see that it would claim something."""
    proposed = [(condition, one) for condition in failing(**changes).values() for one in condition.changes]
    assert any(one.name in CLAIMS for _, one in proposed)
    for condition, one in proposed:
        document = one.to_document()
        assert document["only_if_true"] is one.only_if_true is (one.name in CLAIMS)
        assert str(document["text"]).endswith(ONLY_IF_TRUE) == (one.name in CLAIMS)
        if one.name in CLAIMS:
            assert ONLY_IF_TRUE in condition.cure
