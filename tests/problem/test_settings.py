"""Settings that cannot be are refused by name, before anything is learnt."""

import pytest

import safe2real as s2r
from safe2real.exploration import Learner
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from tests.cases import each
from tests.exploration.tiny import PLAIN, settings, stay, tiny


@each(
    ("changes", "message"),
    [
        ({"tolerance": 0.3}, r"tolerance is 0.3; .*margin / 4 = 0.25"),
        ({"calibrated_gap": 0.9, "mismatch_gap": 0.8}, "calibrated_gap is 0.9 and mismatch_gap 0.8"),
        ({"margin": 0.0}, "margin of constraint is 0"),
        ({"margin": -0.5}, "margin of constraint is -0.5"),
        ({"margin": 1.6}, "at most 1.5"),
        ({"margin": (1.0, 1.0)}, "one per constraint"),
        ({"delta": 0.0}, "delta is 0"),
        ({"delta": 1.0}, "delta is 1"),
        ({"delta": float("nan")}, "delta is nan"),
        ({"tolerance": 0.0}, "tolerance is 0"),
        ({"bonus_scale": 0.0}, "bonus_scale is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"radius": 0.4}, "radius is 0.4"),
        ({"mismatch_gap": 1.2}, "mismatch_gap 1.2"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        Learner(Problem(tiny(), stay(), settings(**changes)))


@each(
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
        Learner(Problem(tiny(), stay(), Settings(**PLAIN, **changes)))
