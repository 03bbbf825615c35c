"""Settings that cannot be are refused by name, before anything is learnt."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from tests.exploration.tiny import PLAIN, settings, stay, tiny


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tolerance": "0.1"}, "tolerance is not an array of numbers"),
        ({"calibrated_gap": [0.0]}, "calibrated_gap has shape"),
        ({"calibrated_gap": 0.9, "mismatch_gap": 0.8}, "calibrated_gap is 0.9 and mismatch_gap 0.8"),
        ({"mismatch_gap": float("nan")}, "mismatch_gap is nan"),
        ({"margin": "1"}, "margin is not an array of numbers"),
        ({"margin": [[1.0]]}, r"margin has shape \(1, 1\)"),
        ({"delta": 0.0}, "delta is 0"),
        ({"delta": 1.0}, "delta is 1"),
        ({"delta": 95}, "delta is 95; the probability of failure lies strictly between 0 and 1"),
        ({"delta": float("nan")}, "delta is nan"),
        ({"tolerance": 0.0}, "tolerance is 0"),
        ({"bonus_scale": 0.0}, "bonus_scale is 0"),
        ({"bonus_scale": "1"}, "bonus_scale is not"),
        ({"seed": -1}, "seed is -1"),
        ({"radius": 0.4}, "radius is 0.4"),
        ({"mismatch_gap": 1.2}, "mismatch_gap 1.2"),
    ],
)
def test_settings_that_cannot_be_are_refused_when_constructed(changes, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        settings(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulator": tiny().kernel}, "simulator is a Kernel; give a CMDP"),
        ({"baseline": s2r.Mixture.of([1.0], [stay()])}, "baseline is a Mixture; give one MarkovPolicy"),
        ({"baseline": stay(3)}, r"baseline has shape \(H, S, A\) = \(3, 2, 2\)"),
        ({"settings": dict(PLAIN)}, r"settings is a dict; give Settings\(\.\.\.\)"),
        ({"settings": settings(tolerance=0.3)}, r"tolerance is 0.3; .*margin / 4 = 0.25"),
        ({"settings": settings(margin=0.0)}, "margin of constraint is 0"),
        ({"settings": settings(margin=-0.5)}, "margin of constraint is -0.5"),
        ({"settings": settings(margin=1.6)}, "at most 1.5"),
        ({"settings": settings(margin=(1.0, 1.0))}, "one per constraint"),
        ({"known": [[True]]}, r"known has shape \(1, 1\)"),
        ({"known": np.zeros((2, 2))}, "type float64; give booleans"),
        ({"within": np.full((2, 2), 1.5)}, "values from 1.5 to 1.5; give TV distances"),
        ({"support": np.ones((2, 2, 2))}, r"support is an array; give Kernel.uniform_over\(array\)"),
        ({"support": s2r.Kernel.from_dense([[[1.0]]])}, "support is for"),
        ({"ties": {"classes": [[0, 0]]}}, r"ties is a dict; give Ties\(classes, successors\)"),
        ({"estimated": 0.1}, "estimated is a float; give the row_accuracy"),
        ({"copies": [0, 2]}, "copies"),
    ],
)
def test_a_problem_whose_parts_do_not_fit_is_refused_when_constructed(changes, message):
    parts = {"simulator": tiny(), "baseline": stay(), "settings": settings()}
    Problem(**parts)
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        Problem(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replan_growth": -0.1}, "replan_growth is -0.1; give a fraction"),
        ({"replan_growth": 1.5}, "replan_growth is 1.5"),
        ({"replan_growth": float("nan")}, "replan_growth is nan"),
        ({"span_bonus": 1}, "span_bonus is 1; give True or False"),
        ({"robust_safety": None}, "robust_safety is None"),
    ],
)
def test_settings_of_lazy_plans_that_cannot_be_are_refused(changes, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        Settings(**PLAIN, **changes)
