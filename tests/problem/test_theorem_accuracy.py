"""Theorem 1's numbers against hand computations; `check_conditions` has tests of its own, in test_theorem.py."""

import math
from typing import Any

import numpy as np
import pytest

from safe2real.errors import InvalidInput
from safe2real.problem import theorem as theory
from tests.problem.checking import DOWN, UP, Setting, assert_monotone, assert_refused, wrong_uses

TOLERANCE: Setting = {"epsilon": 0.1, "horizon": 3, "margin": 1.0, "calibrated_gap": 0.01}
ACCURACY: Setting = {"tolerance": 0.1, "horizon": 3, "margin": 1.0}


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


@pytest.mark.parametrize("margin", [0.3, 1.0, 2.9, 3.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.4, 1.0])
def test_the_tolerance_delivers_the_promise(epsilon: Any, margin: Any) -> None:
    """(2 + 2 H / xi) tau <= eps + 4 H^4 eps_s / xi (eq. planning-integrated-bound), with equality at xi = H."""
    setting: Setting = {"horizon": 3, "margin": margin, "calibrated_gap": margin / 400}
    reached = theory.accuracy_of(theory.tolerance_for(epsilon, **setting), 3, margin)
    promised = epsilon + 4.0 * (margin / 400) * 3**4 / margin
    assert reached <= promised * (1 + 1e-12)
    assert (margin == 3.0) == math.isclose(reached, promised, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("function", "setting", "argument", "values", "direction"),
    [
        (theory.tolerance_for, {"horizon": 3, "margin": 1.0, "calibrated_gap": 0.01}, "epsilon", (0.1, 0.2, 1.0), UP),
        (theory.tolerance_for, {"epsilon": 0.1, "horizon": 3, "calibrated_gap": 0.01}, "margin", (0.1, 1.0, 3.0), UP),
        (theory.tolerance_for, {"epsilon": 0.1, "horizon": 3, "margin": 1.0}, "calibrated_gap", (0.0, 0.1, 1.0), UP),
        (theory.accuracy_of, {"horizon": 3, "margin": 1.0}, "tolerance", (0.01, 0.1, 0.25), UP),
        (theory.accuracy_of, {"tolerance": 0.1, "margin": 1.0}, "horizon", (1, 2, 9), UP),
        (theory.accuracy_of, {"tolerance": 0.1, "horizon": 3}, "margin", (0.5, 1.0, 3.0), DOWN),
    ],
)
def test_monotone_in_every_argument(function: Any, setting: Any, argument: Any, values: Any, direction: Any) -> None:
    assert_monotone(function, setting, argument, values, direction)


@pytest.mark.parametrize(
    ("function", "setting", "argument", "value"),
    wrong_uses(
        (theory.tolerance_for, TOLERANCE),
        (theory.accuracy_of, ACCURACY),
    ),
)
def test_wrong_input_is_refused_with_its_name_and_value(function: Any, setting: Any, argument: Any, value: Any) -> None:
    assert_refused(function, setting, argument, value)


def test_a_tolerance_beyond_the_lemma_is_told_the_largest_one() -> None:
    # margin / 4 = 0.16666..., rounded down
    with pytest.raises(InvalidInput, match=r"^tolerance is 0.17; .* margin / 4 = 0.166666: lower it to that$"):
        theory.accuracy_of(0.17, 12, 2 / 3)


def test_numpy_numbers_do_as_well_as_pythons() -> None:
    """Also where powers of the horizon leave 64 bits."""
    promise: Setting = {"epsilon": 0.5, "horizon": 3_000_000, "margin": 1.0, "calibrated_gap": 1e-9}
    wide: Setting = {**promise, "horizon": np.int64(3_000_000)}
    assert theory.tolerance_for(**wide) == theory.tolerance_for(**promise)
