"""Theorem 1 in numbers: against hand computations, against the inequalities themselves, and condition by condition."""

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from safe2real.errors import InvalidInput
from safe2real.uncertainty import theory
from safe2real.uncertainty.theory import Guarantee

Setting = dict[str, Any]

# one row, one step: 2 S A H / delta = 4, and the gap is 1
TINY: Setting = {"num_states": 1, "num_actions": 1, "horizon": 1, "delta": 0.5}
SMALL: Setting = {"num_states": 2, "num_actions": 3, "horizon": 5, "delta": 0.1}
GAPS: Setting = {"mismatch_gap": 0.68, "calibrated_gap": 1e-6}
PAPER: Setting = {"num_states": 25, "num_actions": 4, "horizon": 12, "delta": 0.05}  # the paper's grid
RUN: Setting = {**PAPER, **GAPS, "epsilon": 0.5, "margin": 1.0, "mismatch_size": 144}
ONLINE: Setting = {name: RUN[name] for name in ("num_states", "num_actions", "horizon", "delta", "epsilon", "margin")}
CHECK: Setting = {"epsilon": 0.5, "horizon": 12, "margin": 1.0, "calibrated_gap": 1e-5, "mismatch_gap": 0.68, "delta": 0.05}
TABLE: Setting = {
    "num_states": 5,
    "num_actions": 3,
    "horizon": 2,
    "margin": 0.5,
    "epsilon": 0.1,
    "mismatch_size": 7,
    "mismatch_gap": 0.6,
    "calibrated_gap": 0.1,
    "reachability": 0.2,
    "return_dimension": 4,
}

NEEDED_BY_ALL = {Guarantee.SAFETY, Guarantee.ACCURACY, Guarantee.TERMINATION}


def beta_by_formula(n: Any, num_states: Any, num_actions: Any, horizon: Any, delta: Any) -> Any:
    """The paper's beta as it is printed, apart from the code under test."""
    return math.log(2 * num_states * num_actions * horizon / delta) + num_states * math.log(8 * math.e * (n + 1))


def radius_by_formula(n: Any, **sizes: Any) -> Any:
    return min(1.0, math.sqrt(beta_by_formula(n, **sizes) / max(2 * n, 1)))


def phi_by_formula(z: Any, **sizes: Any) -> Any:
    beta = beta_by_formula(z, **sizes)
    return beta if z <= 4 * beta else beta * (1 + math.log(z / (4 * beta)))


def right_hand_side(
    T: Any, n: Any, *, epsilon: Any, margin: Any, mismatch_size: Any, mismatch_gap: Any, calibrated_gap: Any, **sizes: Any
) -> Any:
    """eq. finite-stopping-bound, as printed."""
    H, B, M = sizes["horizon"], mismatch_size, sizes["horizon"] * sizes["num_states"] * sizes["num_actions"]
    eta = margin * epsilon / (5 * H)
    N0 = M - B
    return (
        32 * math.e**2 * H**3 * B * beta_by_formula(T, **sizes) / eta**2
        + 8 * math.sqrt(2) * math.e * H * N0 * math.sqrt(5 * beta_by_formula(5 * n, **sizes) * n) / eta
        + 32 * math.e * H**3 * (B * phi_by_formula(T, **sizes) + N0 * phi_by_formula(5 * n, **sizes)) / eta
    )


def online_right_hand_side(T: Any, *, epsilon: Any, margin: Any, **sizes: Any) -> Any:
    """eq. finite-online-bound, as printed."""
    H, M = sizes["horizon"], sizes["horizon"] * sizes["num_states"] * sizes["num_actions"]
    eta = margin * epsilon / (5 * H)
    return (
        32 * math.e**2 * H**3 * M * beta_by_formula(T, **sizes) / eta**2
        + 32 * math.e * H**3 * M * phi_by_formula(T, **sizes) / eta
    )


# ------------------------------------------------------------------------------------------------------ Theorem 1's numbers


def test_tolerance_by_hand() -> None:
    # 1 x 0.5 / (4 x 2) + 2^3 x 0.01 = 0.0625 + 0.08
    assert theory.tolerance_for(0.5, horizon=2, margin=1.0, calibrated_gap=0.01) == pytest.approx(0.1425, rel=1e-14)
    # 2 x 0.5 / (4 x 2) + 0.08 = 0.125 + 0.08
    assert theory.tolerance_for(0.5, horizon=2, margin=2.0, calibrated_gap=0.01) == pytest.approx(0.205, rel=1e-14)


def test_accuracy_by_hand() -> None:
    # 2 x 3 x 0.2 / 1.5 + 2 x 0.2 = 0.8 + 0.4
    assert theory.accuracy_of(0.2, 3, 1.5) == pytest.approx(1.2, rel=1e-14)
    # exactly margin / 4 is still the lemma's: 2 x 3 / 4 + 2 x 0.375
    assert theory.accuracy_of(0.375, 3, 1.5) == pytest.approx(2.25, rel=1e-14)


def test_promised_accuracy_by_hand() -> None:
    # 0.5 + 4 x 0.01 x 2^4 / 1.6 = 0.5 + 0.4
    assert theory.promised_accuracy(0.5, horizon=2, margin=1.6, calibrated_gap=0.01) == pytest.approx(0.9, rel=1e-14)


@pytest.mark.parametrize("margin", [0.3, 1.0, 2.9, 3.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.4, 1.0])
def test_the_tolerance_delivers_the_promise(epsilon: Any, margin: Any) -> None:
    """(2 + 2 H / xi) tau <= eps + 4 H^4 eps_s / xi (eq. planning-integrated-bound), with equality at xi = H."""
    setting: Setting = {"horizon": 3, "margin": margin, "calibrated_gap": margin / 400}
    reached = theory.accuracy_of(theory.tolerance_for(epsilon, **setting), 3, margin)
    promised = theory.promised_accuracy(epsilon, **setting)
    assert reached <= promised * (1 + 1e-12)
    assert (margin == 3.0) == math.isclose(reached, promised, rel_tol=1e-12)


# ---------------------------------------------------------------------------------------------------------------- conditions


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


@pytest.mark.parametrize(
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
    assert gap.cure == (
        "lower calibrated_gap to 0.000144675, or ask for a margin of at least 69.12, "
        "which is impossible because no margin exceeds the horizon 12"
    )
    # H - 4 x 12^4 x 0.01 = 12 - 829.44
    assert "= -817.44 is needed" in found["epsilon"].explanation
    # for epsilon 0.5: gap 11.5 / (4 x 12^4) = 11.5 / 82944 = 0.000138647..., margin 829.44 / 11.5 = 72.1252...
    assert found["epsilon"].cure.startswith(
        "no epsilon is small enough: for an epsilon of 0.5, lower calibrated_gap to 0.000138647"
    )
    assert "a margin of at least 72.1253, which is impossible" in found["epsilon"].cure
    assert found["tolerance against margin"].cure == "it follows from epsilon: mend that condition"


def test_a_margin_that_would_help_is_not_called_impossible() -> None:
    # 0.0005 x 6912 = 3.456
    (gap,) = (failing(calibrated_gap=0.0005)[name] for name in ["calibrated_gap"])
    assert gap.cure == "lower calibrated_gap to 0.000144675, or ask for a margin of at least 3.456"
    # 4 x 2^3 / 16 = 2, the horizon itself
    largest = failing(horizon=2, calibrated_gap=1 / 16)["calibrated_gap"]
    assert largest.cure == "lower calibrated_gap to 0.03125, or ask for a margin of at least 2"


def test_a_calibrated_gap_above_every_mismatch_gap() -> None:
    assert failing(mismatch_gap=1.0, calibrated_gap=1.5)["separation"].cure.startswith(
        "lower calibrated_gap to at most 1.0,"
    )


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
        "or ask for a margin of at least 2"
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
    )


def test_one_step_leaves_no_room_for_epsilon_one_and_a_gap() -> None:
    # H = 1, epsilon = 1: H - epsilon = 0, so only a gap of 0 will do, whatever the margin
    found = failing(horizon=1, epsilon=1.0)
    assert found["epsilon"].cure == "lower epsilon to 0.99996, or lower calibrated_gap to 0"
    assert failing(horizon=1, epsilon=1.0, calibrated_gap=0.0) == {}
    # at epsilon = 0.5 a margin of 4 x 0.2 / 0.5 = 1.6 would do, if it could be had
    assert (
        "or ask for a margin of at least 1.6, which is impossible" in failing(horizon=1, calibrated_gap=0.2)["epsilon"].cure
    )


@pytest.mark.parametrize("epsilon", [0.0, -0.5])
def test_epsilon_that_is_not_positive(epsilon: Any) -> None:
    found = failing(epsilon=epsilon)
    assert {"epsilon", "tolerance against calibrated_gap"} <= set(found)
    assert found["epsilon"].cure == "choose an epsilon above 0 and at most 1"
    assert found["tolerance against calibrated_gap"].cure == "it follows from margin and epsilon: mend those conditions"


@pytest.mark.parametrize("margin", [0.0, -1.0])
def test_no_margin_at_all(margin: Any) -> None:
    conditions = theory.check_conditions(**{**CHECK, "margin": margin})
    found = {condition.name: condition for condition in conditions.failing}
    assert "above the threshold" in found["margin"].cure
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
    assert condition.cure == "raise tolerance above 0.01728, or lower calibrated_gap below 5.78703e-06"
    assert "tolerance against calibrated_gap" in failing(tolerance=0.01728)  # strictly more


def test_a_chosen_tolerance_that_is_not_positive() -> None:
    found = failing(tolerance=0.0, calibrated_gap=0.0)
    assert set(found) == {"tolerance against margin", "tolerance against calibrated_gap", "tolerance against epsilon"}
    assert found["tolerance against calibrated_gap"].cure == "raise tolerance above 0"


def test_a_chosen_tolerance_and_the_epsilon_it_stands_for() -> None:
    # 48 x (0.02 - 0.01728) / 0.8 = 0.1632
    (condition,) = failing(tolerance=0.02, margin=0.8).values()
    meant = cured_number(condition.cure, "stands for,")
    assert meant == pytest.approx(0.1632, rel=1e-9)
    assert failing(tolerance=0.02, margin=0.8, epsilon=meant) == {}
    assert failing(tolerance=cured_number(condition.cure, "use a tolerance of"), margin=0.8) == {}


def test_limits_are_rounded_to_the_side_that_meets_them() -> None:
    # margin / 4 = 0.16666...; 1728 x 1e-5 / 7 = 0.002468571...; 0.002 / 1728 = 1.157407...e-06
    with pytest.raises(InvalidInput, match=r"^tolerance is 0.17; .* margin / 4 = 0.166666: lower it to that$"):
        theory.accuracy_of(0.17, 12, 2 / 3)
    assert "margin / 4 = 0.166666 is needed" in failing(tolerance=0.17, margin=2 / 3)["tolerance against margin"].explanation
    low = failing(tolerance=0.002, calibrated_gap=1e-5 / 7)["tolerance against calibrated_gap"]
    assert low.explanation.endswith("more than H^3 calibrated_gap = 0.00246858 is needed")
    assert low.cure == "raise tolerance above 0.00246858, or lower calibrated_gap below 1.1574e-06"
    negative = failing(tolerance=-1.0, calibrated_gap=1e-5 / 7)["tolerance against calibrated_gap"]
    assert negative.cure == "raise tolerance above 0.00246858"
    # 12 - 82944 x 0.0001401 = 0.3795456
    assert "= 0.379545 is needed" in failing(calibrated_gap=0.0001401)["epsilon"].explanation


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("margin", [1.0, 0.7, 0.3, 2.0 / 3.0])
@pytest.mark.parametrize("horizon", [7, 12, 13])
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


# ------------------------------------------------------------------------------------------ confidence, and clearing a row


def test_literal_beta_by_hand() -> None:
    # log 600 + 2 log(8 e) = 6.3969296552 + 2 x 3.0794415417; ten times the n + 1 adds 2 log 10 = 4.6051701860
    assert theory.literal_beta(0, **SMALL) == pytest.approx(12.5558127386, rel=1e-11)
    assert theory.literal_beta(9, **SMALL) == pytest.approx(17.1609829246, rel=1e-11)


def test_phi_by_hand() -> None:
    # beta(50) = 20.4194640040, four times which exceeds 50: the logarithm is cut off
    assert theory.phi(50, **SMALL) == pytest.approx(20.4194640040, rel=1e-11)
    assert theory.phi(0, **SMALL) == pytest.approx(12.5558127386, rel=1e-11)
    # beta(1000) = 26.3733222972; 1000 / 105.4932891888 = 9.4792759...; its log is 2.2491080...; 26.37... x 3.2491080...
    assert theory.phi(1000, **SMALL) == pytest.approx(85.6897708187, rel=1e-11)


def test_visits_to_clear_by_hand() -> None:
    # 1 + 16 (log 4 + log 8e) + 16 log 16 = 1 + 16 x 4.4657359028 + 16 x 2.7725887222
    setting: Setting = {**TINY, "mismatch_gap": 1.0, "calibrated_gap": 0.0}
    assert theory.visits_to_clear(**setting) == pytest.approx(116.8131940006, rel=1e-11)
    # halving the gap: 1 + 64 x 4.4657359028 + 64 log 64 = 1 + 285.8070977791 + 64 x 4.1588830834
    assert theory.visits_to_clear(**{**setting, "calibrated_gap": 0.5}) == pytest.approx(552.9756151, rel=1e-9)
    # two states: 1 + 16 (log 8 + 2 log 8e) + 32 log 32 = 1 + 16 x 8.2383246250 + 32 x 3.4657359028
    assert theory.visits_to_clear(**{**setting, "num_states": 2}) == pytest.approx(243.7167428897, rel=1e-11)


def test_visits_to_clear_exact_by_hand() -> None:
    # n >= 8 (log 4 + log(8e (n + 1))): at 69 the right is 8 x 8.7142311 = 69.71, at 70 it is 8 x 8.7284156 = 69.83
    assert theory.visits_to_clear_exact(**TINY, mismatch_gap=1.0, calibrated_gap=0.0) == 70


@pytest.mark.parametrize("gap", [1.0, 0.68, 0.3, 0.01, 1e-4])
@pytest.mark.parametrize("sizes", [TINY, SMALL, PAPER])
def test_exact_visits_are_the_fewest_and_within_the_lemma(sizes: Any, gap: Any) -> None:
    setting: Setting = {**sizes, "mismatch_gap": gap, "calibrated_gap": 0.0}
    exact = theory.visits_to_clear_exact(**setting)
    assert isinstance(exact, int)
    assert radius_by_formula(exact, **sizes) <= gap / 4 < radius_by_formula(exact - 1, **sizes)
    assert exact <= theory.visits_to_clear(**setting) <= 2.5 * exact


def test_equal_gaps_never_clear() -> None:
    setting: Setting = {**SMALL, "mismatch_gap": 0.2, "calibrated_gap": 0.2}
    assert theory.visits_to_clear(**setting) == math.inf
    with pytest.raises(InvalidInput, match=r"mismatch_gap - calibrated_gap is 0; .* make it larger"):
        theory.visits_to_clear_exact(**setting)
    assert theory.visits_to_clear(**{**setting, "mismatch_gap": 5e-324, "calibrated_gap": 0.0}) == math.inf


# ------------------------------------------------------------------------------------------------- how long a run can last


def test_stopping_bound_by_hand() -> None:
    # |B| = 0, so nothing on the right depends on T: eta = 0.2, n = 116.8131940, beta(5n) = 10.8374605, and
    # Phi(5n) = 10.8374605 (1 + log(584.0659700 / 43.3498420)) = 39.0225620
    # 8 sqrt(2) e sqrt(5 x 10.8374605 x 116.8131940) / 0.2 = 30.7537... x 79.5603... / 0.2 = 12233.879
    # 32 e x 39.0225620 / 0.2 = 16971.891; the sum is 29205.77
    setting: Setting = {**TINY, "epsilon": 1.0, "margin": 1.0, "mismatch_gap": 1.0, "calibrated_gap": 0.0}
    assert theory.stopping_bound(**setting, mismatch_size=0) == theory.RunLength(29205.0, 29205.0)


def test_online_bound_by_hand() -> None:
    # at T = 160179: beta = 16.44978936, Phi = 144.7160380; 32 e^2 beta / 0.04 = 97238.733, 32 e Phi / 0.2 = 62940.636
    # sum 160179.369 >= 160179; one more episode adds 0.103 to the sum: 160179.472 < 160180
    assert theory.online_bound(**TINY, epsilon=1.0, margin=1.0) == theory.RunLength(160179.0, 160179.0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mismatch_size": 0},
        {"mismatch_size": 1200},
        {"mismatch_gap": 0.01},
        {"epsilon": 1e-3},
        {"epsilon": 1.0, "margin": 12.0},
        {"num_states": 1, "num_actions": 2, "horizon": 3, "mismatch_size": 2, "epsilon": 1.0, "margin": 3.0, "delta": 0.9},
    ],
)
def test_bounds_are_the_largest_that_the_inequalities_admit(changes: Any) -> None:
    setting: Setting = {**RUN, **changes}
    online = {name: setting[name] for name in ONLINE}
    clear = {name: setting[name] for name in (*PAPER, *GAPS)}
    n = theory.visits_to_clear(**clear)
    both = theory.run_length_bounds(**setting)
    assert both.stopping == theory.stopping_bound(**setting)
    assert both.online == theory.online_bound(**online)
    assert both.shortest == min(both.stopping, both.online, key=lambda length: length.iterations)
    inequalities: list[tuple[theory.RunLength, Callable[[float], Any]]] = [
        (both.stopping, lambda T: right_hand_side(T, n, **setting)),
        (both.online, lambda T: online_right_hand_side(T, **online)),
    ]
    for length, right in inequalities:
        T = length.iterations
        assert T.is_integer()
        assert length.samples == setting["horizon"] * T
        rounding = 1e-12 * T
        assert right(T) + rounding >= T
        assert right(T + 1) - rounding < T + 1
        beyond = T * 1.0001 + 1
        assert beyond > right(beyond)
        assert all(beyond * factor > right(beyond * factor) for factor in (2, 1e3, 1e9))  # and nothing comes after


def test_the_bounds_agree_when_every_triple_is_mismatched() -> None:
    both = theory.run_length_bounds(**{**RUN, "mismatch_size": 12 * 25 * 4})
    assert both.stopping == both.online == both.shortest


def test_each_bound_is_sometimes_the_shorter() -> None:
    near = theory.run_length_bounds(**{**RUN, "mismatch_size": 12})
    assert near.shortest == near.stopping
    assert near.stopping.iterations < near.online.iterations
    blurred = theory.run_length_bounds(**{**RUN, "mismatch_gap": 2e-6})
    assert blurred.shortest == blurred.online
    assert blurred.online.iterations < blurred.stopping.iterations


def test_equal_gaps_leave_the_online_bound() -> None:
    equal: Setting = {**RUN, "mismatch_gap": 0.1, "calibrated_gap": 0.1}
    both = theory.run_length_bounds(**equal)
    assert both.stopping == theory.RunLength(math.inf, math.inf)
    assert both.shortest == both.online == theory.online_bound(**ONLINE)
    everything = theory.stopping_bound(**{**equal, "mismatch_size": 1200})  # nothing to clear, so nothing infinite
    assert everything == both.online


def test_a_bound_beyond_every_number_is_infinite() -> None:
    assert theory.online_bound(**{**ONLINE, "epsilon": 1e-200}).samples == math.inf
    assert theory.online_bound(**{**ONLINE, "epsilon": 1e-200, "margin": 1e-200}).iterations == math.inf


UP, DOWN = 1, -1


@pytest.mark.parametrize(
    ("function", "setting", "argument", "values", "direction"),
    [
        (theory.tolerance_for, {"horizon": 3, "margin": 1.0, "calibrated_gap": 0.01}, "epsilon", (0.1, 0.2, 1.0), UP),
        (theory.tolerance_for, {"epsilon": 0.1, "horizon": 3, "calibrated_gap": 0.01}, "margin", (0.1, 1.0, 3.0), UP),
        (theory.tolerance_for, {"epsilon": 0.1, "horizon": 3, "margin": 1.0}, "calibrated_gap", (0.0, 0.1, 1.0), UP),
        (theory.accuracy_of, {"horizon": 3, "margin": 1.0}, "tolerance", (0.01, 0.1, 0.25), UP),
        (theory.accuracy_of, {"tolerance": 0.1, "margin": 1.0}, "horizon", (1, 2, 9), UP),
        (theory.accuracy_of, {"tolerance": 0.1, "horizon": 3}, "margin", (0.5, 1.0, 3.0), DOWN),
        (theory.promised_accuracy, {"horizon": 3, "margin": 1.0, "calibrated_gap": 0.01}, "epsilon", (0.1, 0.5), UP),
        (theory.promised_accuracy, {"epsilon": 0.1, "margin": 1.0, "calibrated_gap": 0.01}, "horizon", (1, 2, 9), UP),
        (theory.promised_accuracy, {"epsilon": 0.1, "horizon": 3, "calibrated_gap": 0.01}, "margin", (0.5, 1.0), DOWN),
        (theory.promised_accuracy, {"epsilon": 0.1, "horizon": 3, "margin": 1.0}, "calibrated_gap", (0.0, 0.5), UP),
        *(
            (function, {**SMALL, place: 1000}, argument, values, direction)
            for function, place in ((theory.literal_beta, "n"), (theory.phi, "z"))
            for argument, values, direction in (
                (place, (0, 1, 50, 1e4, 1e9), UP),
                ("num_states", (1, 2, 3), UP),
                ("num_actions", (1, 2, 30), UP),
                ("horizon", (1, 2, 30), UP),
                ("delta", (0.01, 0.1, 0.9), DOWN),
            )
        ),
        *(
            (function, {**SMALL, **GAPS}, argument, values, direction)
            for function in (theory.visits_to_clear, theory.visits_to_clear_exact)
            for argument, values, direction in (
                ("num_states", (1, 2, 25), UP),
                ("num_actions", (1, 2, 25), UP),
                ("horizon", (1, 2, 25), UP),
                ("delta", (0.01, 0.1, 0.9), DOWN),
                ("mismatch_gap", (0.1, 0.5, 1.0), DOWN),
                ("calibrated_gap", (0.0, 0.1, 0.5), UP),
            )
        ),
        *(
            (lambda bound=bound, **setting: bound(**setting).iterations, dict(start), argument, values, direction)
            for bound, start in ((theory.stopping_bound, RUN), (theory.online_bound, ONLINE))
            for argument, values, direction in (
                ("epsilon", (0.01, 0.1, 1.0), DOWN),
                ("margin", (0.1, 1.0, 12.0), DOWN),
                ("num_states", (10, 11, 25), UP),
                ("num_actions", (3, 4, 9), UP),
                ("horizon", (4, 5, 12), UP),
                ("delta", (0.01, 0.1, 0.9), DOWN),
            )
        ),
        *(
            (lambda **setting: theory.stopping_bound(**setting).iterations, RUN, argument, values, direction)
            for argument, values, direction in (
                ("mismatch_size", (0, 1, 144, 1200), UP),
                ("mismatch_gap", (0.01, 0.1, 1.0), DOWN),
                ("calibrated_gap", (0.0, 0.1, 0.5), UP),
            )
        ),
    ],
)
def test_monotone_in_every_argument(function: Any, setting: Any, argument: Any, values: Any, direction: Any) -> None:
    results = [function(**{**setting, argument: value}) for value in values]
    assert (np.diff(results) * direction > 0.0).all()


# ---------------------------------------------------------------------------------------------------- the comparison table


def table(**changes: Any) -> dict[str, theory.Bound]:
    return {bound.key: bound for bound in theory.comparison(**{**TABLE, **changes})}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("menard2021fast", 120_000),  # 16 x 25 x 3 / 0.01
        ("miryoosefi2022simple", 204_000),  # 4 x 32 x 5 x 3 / 0.01 + 16 x 25 x 3 / 0.1 = 192000 + 12000
        ("huang2023safe", 30_720_000),  # 3 x 25 x 256 / (0.01 x 0.0625)
        ("yu2025improved", 1_920_000),  # 3 x 25 x 64 / (0.01 x 0.25)
        ("ni2025learning", 1_000_000),  # 1 / min(1e-6, 0.015625)
        ("wagenmaker2024overcoming", 6.5536e12),  # 65536 / 1e-8
        ("qu2025hybrid", 24_000),  # min(16 x 3 x 5 / 0.01, 8 x 7 / 0.01 + 8 x 25 x 3 / (0.36 x 0.04) = 5600 + 41666.7)
        ("wu2026unified", 24_000),  # 16 x 3 x 5 / 0.01
        # min(128 x 25 x 3 / 0.0025 = 3840000, 64 x 5 x 7 / 0.0025 + 32 x 5 x 23 x (1 + 1 / (0.5 x 4)) / 0.05)
        ("ours", 1_006_400),  # 896000 + 3680 x 1.5 / 0.05 = 896000 + 110400
    ],
)
def test_comparison_by_hand(key: Any, value: Any) -> None:
    assert table()[key].value == pytest.approx(value, rel=1e-12)


def test_the_other_side_of_every_minimum() -> None:
    assert table(return_dimension=6)["miryoosefi2022simple"].value == pytest.approx(252_000)  # d = 6 > S: 240000 + 12000
    assert table(margin=0.01)["ni2025learning"].value == pytest.approx(1e12)  # xi^6 is the smaller
    assert table(reachability=0.9)["qu2025hybrid"].value == pytest.approx(5600 + 600 / (0.36 * 0.81))
    assert table(mismatch_gap=0.1 + 1e-9)["ours"].value == pytest.approx(3_840_000)


def test_gaps_of_nothing() -> None:
    assert table(mismatch_gap=0.1)["ours"].value == pytest.approx(3_840_000)  # the second bound is infinite
    assert table(mismatch_gap=0.1, mismatch_size=30)["ours"].value == pytest.approx(3_840_000)  # no row to clear
    assert table(mismatch_gap=0.0, calibrated_gap=0.0)["qu2025hybrid"].value == pytest.approx(24_000)


def test_the_columns_of_the_table() -> None:
    """Sim-to-real, any reward, constraints, safe exploration, as printed; ours is the only row with all four."""
    columns = {
        key: "".join(
            "x" if mark else "-" for mark in (bound.sim_to_real, bound.any_reward, bound.constraints, bound.safe_exploration)
        )
        for key, bound in table().items()
    }
    assert columns == {
        "menard2021fast": "-x--",
        "miryoosefi2022simple": "-xx-",
        "huang2023safe": "-xxx",
        "yu2025improved": "--xx",
        "ni2025learning": "--xx",
        "wagenmaker2024overcoming": "x---",
        "qu2025hybrid": "x---",
        "wu2026unified": "x---",
        "ours": "xxxx",
    }
    for key, bound in table().items():
        year = re.search(r"\d{4}", key)
        assert year is None or (
            f"({year[0]})" in bound.citation and bound.citation.lower().startswith(re.split(r"\d", key)[0])
        )
    assert "miss the constraint by eps" in table()["miryoosefi2022simple"].note  # the table's dagger


@pytest.mark.parametrize(
    "changes", [{}, {"reachability": 0.9, "margin": 1.7, "epsilon": 0.3}, {"mismatch_size": 29, "mismatch_gap": 0.11}]
)
def test_every_formula_evaluates_to_its_value(changes: Any) -> None:
    """What is printed and what is computed are the same: the text is turned into Python and evaluated."""
    given = {**TABLE, **changes}
    letters = {
        "S": given["num_states"],
        "A": given["num_actions"],
        "H": given["horizon"],
        "B": given["mismatch_size"],
        "d": given["return_dimension"],
        "xi": given["margin"],
        "eps": given["epsilon"],
        "sigma_s": given["mismatch_gap"],
        "eps_s": given["calibrated_gap"],
        "sigma_r": given["reachability"],
        "min": min,
    }
    for bound in theory.comparison(**given):
        text = bound.formula.replace("|B|", "B").replace("^", "**").replace("{", "(").replace("}", ")")
        python = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text)
        assert bound.value == pytest.approx(eval(python, {"__builtins__": {}}, letters), rel=1e-12), bound.formula


# -------------------------------------------------------------------------------------------------------------- wrong input

CLEAR: Setting = {**PAPER, **GAPS}
TOLERANCE: Setting = {"epsilon": 0.1, "horizon": 3, "margin": 1.0, "calibrated_gap": 0.01}
ACCURACY: Setting = {"tolerance": 0.1, "horizon": 3, "margin": 1.0}
BETA: Setting = {"n": 3, **SMALL}
PHI: Setting = {"z": 3, **SMALL}
USES = [
    (theory.tolerance_for, TOLERANCE),
    (theory.accuracy_of, ACCURACY),
    (theory.promised_accuracy, TOLERANCE),
    (theory.literal_beta, BETA),
    (theory.phi, PHI),
    (theory.visits_to_clear, CLEAR),
    (theory.visits_to_clear_exact, CLEAR),
    (theory.stopping_bound, RUN),
    (theory.online_bound, ONLINE),
    (theory.run_length_bounds, RUN),
    (theory.comparison, TABLE),
]
WRONG = {
    "epsilon": (0.0, -1.0, math.nan, math.inf),
    "tolerance": (0.0, -1.0, math.nan, 0.2501),
    "margin": (0.0, -1.0, 100.0, math.nan),
    "calibrated_gap": (-0.1, 1.0005, math.nan),
    "mismatch_gap": (-0.1, 1.0005, math.nan),
    "delta": (0.0, 1.0, -0.1, math.nan),
    "horizon": (0, 1.5, True),
    "num_states": (0, 1.5),
    "num_actions": (0, 1.5),
    "mismatch_size": (-1, 1201, 1.5, True, None),
    "reachability": (0.0, 1.1, -0.1),
    "return_dimension": (0, 1.5),
    "n": (-1, math.nan),
    "z": (-1, math.inf),
}


@pytest.mark.parametrize(
    ("function", "setting", "argument", "value"),
    [
        (function, setting, argument, value)
        for function, setting in USES
        for argument in setting
        for value in WRONG[argument]
    ],
)
def test_wrong_input_is_refused_with_its_name_and_value(function: Any, setting: Any, argument: Any, value: Any) -> None:
    function(**setting)
    shown = (
        f"{value:g}" if isinstance(value, float) and math.isfinite(value) and argument != "mismatch_size" else repr(value)
    )
    with pytest.raises(InvalidInput, match=rf"^{argument} is {re.escape(shown)}.*; .*"):
        function(**{**setting, argument: value})


@pytest.mark.parametrize("function", [theory.visits_to_clear, theory.visits_to_clear_exact])
def test_gaps_in_the_wrong_order_are_refused(function: Any) -> None:
    with pytest.raises(InvalidInput, match=r"calibrated_gap is 0.3, above mismatch_gap = 0.2; make it the smaller"):
        function(**PAPER, mismatch_gap=0.2, calibrated_gap=0.3)


@pytest.mark.parametrize("argument", [*CHECK, "tolerance"])
def test_only_unreadable_numbers_stop_a_check(argument: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{argument} is nan; "):
        theory.check_conditions(**{**CHECK, argument: math.nan})


def test_numpy_numbers_do_as_well_as_pythons() -> None:
    """Also where powers of the horizon leave 64 bits."""
    setting: Setting = {**RUN, "horizon": 60_000, "mismatch_size": 10}
    wide: Setting = {
        name: np.int64(value) if isinstance(value, int) else np.float64(value) for name, value in setting.items()
    }
    assert theory.run_length_bounds(**wide) == theory.run_length_bounds(**setting)
    plain: Setting = {**CHECK, "horizon": 60_000}
    assert theory.check_conditions(**{**plain, "horizon": np.int64(60_000)}) == theory.check_conditions(**plain)
    promise: Setting = {"horizon": 60_000, "margin": 1.0, "calibrated_gap": 1e-9}
    assert theory.promised_accuracy(0.5, **{**promise, "horizon": np.int64(60_000)}) == theory.promised_accuracy(
        0.5, **promise
    )
    many: Setting = {**TABLE, "horizon": 60_000}
    assert theory.comparison(**{**many, "horizon": np.int64(60_000)}) == theory.comparison(**many)


@pytest.mark.parametrize(
    "value",
    [
        theory.check_conditions(**CHECK),
        theory.check_conditions(**CHECK).items[0],
        theory.RunLength(1.0, 2.0),
        theory.run_length_bounds(**RUN),
        theory.comparison(**TABLE)[0],
    ],
)
def test_results_are_frozen(value: Any) -> None:
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)
    assert not hasattr(value, "__dict__")
