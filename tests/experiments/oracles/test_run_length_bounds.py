"""Clearing a row and the length of a run: against hand computations, and against the inequalities themselves."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from experiments.oracles import run_length_bounds as bounds
from safe2real.errors import InvalidInput
from tests.cases import each
from tests.problem.checking import DOWN, UP, Setting, assert_frozen, assert_monotone, assert_refused, wrong_uses

# one row, one step: 2 S A H / delta = 4, and the gap is 1
TINY: Setting = {"num_states": 1, "num_actions": 1, "horizon": 1, "delta": 0.5}
SMALL: Setting = {"num_states": 2, "num_actions": 3, "horizon": 5, "delta": 0.1}
GAPS: Setting = {"mismatch_gap": 0.68, "calibrated_gap": 1e-6}
PAPER: Setting = {"num_states": 25, "num_actions": 4, "horizon": 12, "delta": 0.05}  # the paper's grid
RUN: Setting = {**PAPER, **GAPS, "epsilon": 0.5, "margin": 1.0, "mismatch_size": 144}
ONLINE: Setting = {name: RUN[name] for name in ("num_states", "num_actions", "horizon", "delta", "epsilon", "margin")}
CLEAR: Setting = {**PAPER, **GAPS}


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


# ------------------------------------------------------------------------------------------ confidence, and clearing a row


def test_literal_beta_by_hand() -> None:
    # log 600 + 2 log(8 e) = 6.3969296552 + 2 x 3.0794415417; ten times the n + 1 adds 2 log 10 = 4.6051701860
    assert bounds.literal_beta(0, **SMALL) == pytest.approx(12.5558127386, rel=1e-11)
    assert bounds.literal_beta(9, **SMALL) == pytest.approx(17.1609829246, rel=1e-11)


def test_phi_by_hand() -> None:
    # beta(50) = 20.4194640040, four times which exceeds 50: the logarithm is cut off
    assert bounds.phi(50, **SMALL) == pytest.approx(20.4194640040, rel=1e-11)
    assert bounds.phi(0, **SMALL) == pytest.approx(12.5558127386, rel=1e-11)
    # beta(1000) = 26.3733222972; 1000 / 105.4932891888 = 9.4792759...; its log is 2.2491080...; 26.37... x 3.2491080...
    assert bounds.phi(1000, **SMALL) == pytest.approx(85.6897708187, rel=1e-11)


def test_visits_to_clear_by_hand() -> None:
    # 1 + 16 (log 4 + log 8e) + 16 log 16 = 1 + 16 x 4.4657359028 + 16 x 2.7725887222
    setting: Setting = {**TINY, "mismatch_gap": 1.0, "calibrated_gap": 0.0}
    assert bounds.visits_to_clear(**setting) == pytest.approx(116.8131940006, rel=1e-11)
    # halving the gap: 1 + 64 x 4.4657359028 + 64 log 64 = 1 + 285.8070977791 + 64 x 4.1588830834
    assert bounds.visits_to_clear(**{**setting, "calibrated_gap": 0.5}) == pytest.approx(552.9756151, rel=1e-9)
    # two states: 1 + 16 (log 8 + 2 log 8e) + 32 log 32 = 1 + 16 x 8.2383246250 + 32 x 3.4657359028
    assert bounds.visits_to_clear(**{**setting, "num_states": 2}) == pytest.approx(243.7167428897, rel=1e-11)


def test_visits_to_clear_exact_by_hand() -> None:
    # n >= 8 (log 4 + log(8e (n + 1))): at 69 the right is 8 x 8.7142311 = 69.71, at 70 it is 8 x 8.7284156 = 69.83
    assert bounds.visits_to_clear_exact(**TINY, mismatch_gap=1.0, calibrated_gap=0.0) == 70


@each("gap", [1.0, 0.68, 0.3, 0.01, 1e-4])
@each("sizes", [TINY, SMALL, PAPER])
def test_exact_visits_are_the_fewest_and_within_the_lemma(sizes: Any, gap: Any) -> None:
    setting: Setting = {**sizes, "mismatch_gap": gap, "calibrated_gap": 0.0}
    exact = bounds.visits_to_clear_exact(**setting)
    assert isinstance(exact, int)
    assert radius_by_formula(exact, **sizes) <= gap / 4 < radius_by_formula(exact - 1, **sizes)
    assert exact <= bounds.visits_to_clear(**setting) <= 2.5 * exact


def test_equal_gaps_never_clear() -> None:
    setting: Setting = {**SMALL, "mismatch_gap": 0.2, "calibrated_gap": 0.2}
    assert bounds.visits_to_clear(**setting) == math.inf
    with pytest.raises(InvalidInput, match=r"mismatch_gap - calibrated_gap is 0; .* make it larger"):
        bounds.visits_to_clear_exact(**setting)
    assert bounds.visits_to_clear(**{**setting, "mismatch_gap": 5e-324, "calibrated_gap": 0.0}) == math.inf


# ------------------------------------------------------------------------------------------------- how long a run can last


def test_stopping_bound_by_hand() -> None:
    # |B| = 0, so nothing on the right depends on T: eta = 0.2, n = 116.8131940, beta(5n) = 10.8374605, and
    # Phi(5n) = 10.8374605 (1 + log(584.0659700 / 43.3498420)) = 39.0225620
    # 8 sqrt(2) e sqrt(5 x 10.8374605 x 116.8131940) / 0.2 = 30.7537... x 79.5603... / 0.2 = 12233.879
    # 32 e x 39.0225620 / 0.2 = 16971.891; the sum is 29205.77
    setting: Setting = {**TINY, "epsilon": 1.0, "margin": 1.0, "mismatch_gap": 1.0, "calibrated_gap": 0.0}
    assert bounds.stopping_bound(**setting, mismatch_size=0) == bounds.RunLength(29205.0, 29205.0)


def test_online_bound_by_hand() -> None:
    # at T = 160179: beta = 16.44978936, Phi = 144.7160380; 32 e^2 beta / 0.04 = 97238.733, 32 e Phi / 0.2 = 62940.636
    # sum 160179.369 >= 160179; one more episode adds 0.103 to the sum: 160179.472 < 160180
    assert bounds.online_bound(**TINY, epsilon=1.0, margin=1.0) == bounds.RunLength(160179.0, 160179.0)


@each(
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
    n = bounds.visits_to_clear(**clear)
    both = bounds.run_length_bounds(**setting)
    assert both.stopping == bounds.stopping_bound(**setting)
    assert both.online == bounds.online_bound(**online)
    assert both.shortest == min(both.stopping, both.online, key=lambda length: length.iterations)
    inequalities: list[tuple[bounds.RunLength, Callable[[float], Any]]] = [
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
    both = bounds.run_length_bounds(**{**RUN, "mismatch_size": 12 * 25 * 4})
    assert both.stopping == both.online == both.shortest


def test_each_bound_is_sometimes_the_shorter() -> None:
    near = bounds.run_length_bounds(**{**RUN, "mismatch_size": 12})
    assert near.shortest == near.stopping
    assert near.stopping.iterations < near.online.iterations
    blurred = bounds.run_length_bounds(**{**RUN, "mismatch_gap": 2e-6})
    assert blurred.shortest == blurred.online
    assert blurred.online.iterations < blurred.stopping.iterations


def test_equal_gaps_leave_the_online_bound() -> None:
    equal: Setting = {**RUN, "mismatch_gap": 0.1, "calibrated_gap": 0.1}
    both = bounds.run_length_bounds(**equal)
    assert both.stopping == bounds.RunLength(math.inf, math.inf)
    assert both.shortest == both.online == bounds.online_bound(**ONLINE)
    everything = bounds.stopping_bound(**{**equal, "mismatch_size": 1200})  # nothing to clear, so nothing infinite
    assert everything == both.online


def test_a_bound_beyond_every_number_is_infinite() -> None:
    assert bounds.online_bound(**{**ONLINE, "epsilon": 1e-200}).samples == math.inf
    assert bounds.online_bound(**{**ONLINE, "epsilon": 1e-200, "margin": 1e-200}).iterations == math.inf


@each(
    ("function", "setting", "argument", "values", "direction"),
    [
        *(
            (function, {**SMALL, place: 1000}, argument, values, direction)
            for function, place in ((bounds.literal_beta, "n"), (bounds.phi, "z"))
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
            for function in (bounds.visits_to_clear, bounds.visits_to_clear_exact)
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
            for bound, start in ((bounds.stopping_bound, RUN), (bounds.online_bound, ONLINE))
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
            (lambda **setting: bounds.stopping_bound(**setting).iterations, RUN, argument, values, direction)
            for argument, values, direction in (
                ("mismatch_size", (0, 1, 144, 1200), UP),
                ("mismatch_gap", (0.01, 0.1, 1.0), DOWN),
                ("calibrated_gap", (0.0, 0.1, 0.5), UP),
            )
        ),
    ],
)
def test_monotone_in_every_argument(function: Any, setting: Any, argument: Any, values: Any, direction: Any) -> None:
    assert_monotone(function, setting, argument, values, direction)


# -------------------------------------------------------------------------------------------------------------- wrong input


@each(
    ("function", "setting", "argument", "value"),
    wrong_uses(
        (bounds.literal_beta, {"n": 3, **SMALL}),
        (bounds.phi, {"z": 3, **SMALL}),
        (bounds.visits_to_clear, CLEAR),
        (bounds.visits_to_clear_exact, CLEAR),
        (bounds.stopping_bound, RUN),
        (bounds.online_bound, ONLINE),
        (bounds.run_length_bounds, RUN),
    ),
)
def test_wrong_input_is_refused_with_its_name_and_value(function: Any, setting: Any, argument: Any, value: Any) -> None:
    assert_refused(function, setting, argument, value)


@each("function", [bounds.visits_to_clear, bounds.visits_to_clear_exact])
def test_gaps_in_the_wrong_order_are_refused(function: Any) -> None:
    with pytest.raises(InvalidInput, match=r"calibrated_gap is 0.3, above mismatch_gap = 0.2; make it the smaller"):
        function(**PAPER, mismatch_gap=0.2, calibrated_gap=0.3)


def test_numpy_numbers_do_as_well_as_pythons() -> None:
    """Also where powers of the horizon leave 64 bits."""
    setting: Setting = {**RUN, "horizon": 60_000, "mismatch_size": 10}
    wide: Setting = {
        name: np.int64(value) if isinstance(value, int) else np.float64(value) for name, value in setting.items()
    }
    assert bounds.run_length_bounds(**wide) == bounds.run_length_bounds(**setting)


def test_results_are_frozen() -> None:
    both = bounds.run_length_bounds(**RUN)
    assert_frozen(both)
    assert_frozen(both.online)
