"""Small learners whose simulators are wrong in a known way."""

import numpy as np

import safe2real as s2r
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.row_rule import NOTHING_STATED, Separation, StatedRows
from safe2real.problem import RowAccuracy
from safe2real.radii import Radius

UTILITY = np.array([[0.8, 0.8], [1.0, 1.0], [0.0, 0.0]])


def forked(real: bool) -> s2r.Kernel:
    """Action 0 stays at the start; action 1 leads to the good end, says the simulator, and to the bad one in reality."""
    table = np.zeros((3, 2, 3))
    table[0, 0, 0] = table[1, :, 1] = table[2, :, 2] = 1.0
    table[0, 1, 2 if real else 1] = 1.0
    return s2r.Kernel.from_dense(table)


def forked_learner(growth: float, *, known_is_true: bool = False, method: object = None, **others: object) -> s2r.Learner:
    """The wrong row stands in front of the only suspects, which are never reached: nothing but that row ever grows."""
    model = s2r.CMDP.of(forked(known_is_true), 3, 0, s2r.AtLeast(UTILITY, 2.0))
    known = np.array([[True, True], [False, False], [True, True]])
    settings = s2r.Settings(
        **{"margin": 0.4, "calibrated_gap": 0.0, "mismatch_gap": 0.5, "tolerance": 0.1, "replan_growth": growth, **others}
    )
    return s2r.Learner(s2r.Problem(model, stay(3, 3), settings, known=known), method)


def stay(horizon: int, states: int, actions: int = 2) -> s2r.MarkovPolicy:
    return s2r.MarkovPolicy.deterministic(np.zeros(states, dtype=int), num_actions=actions, horizon=horizon)


def returns_learner(growth: float = 0.0, **others: object) -> tuple[s2r.Learner, s2r.Kernel]:
    """On the simulator the baseline earns 2 in two steps; in reality every step costs everything."""
    good, bad = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    good[:, :, 0] = bad[:, :, 1] = 1.0
    utility = np.array([[1.0, 1.0], [0.0, 0.0]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(good), 2, 0, s2r.AtLeast(utility, 1.2, "speed"))
    settings = s2r.Settings(
        **{"margin": 0.5, "calibrated_gap": 0.0, "mismatch_gap": 0.9, "tolerance": 0.01, "replan_growth": growth, **others}
    )
    return s2r.Learner(s2r.Problem(model, stay(2, 2), settings)), s2r.Kernel.from_dense(bad)


def coarse(learner: s2r.Learner) -> RowAccuracy:
    """The simulator's rows were estimated, to 0.1, and the calibrated gap does not cover that."""
    return RowAccuracy(np.full((3, 2), 0.1), np.full((3, 2), 50), delta=0.01, certified=True)


def hybrid_model(
    kernel: s2r.Kernel,
    horizon: int,
    *,
    separation: Separation | None,
    radius: Radius,
    delta: float,
    stated: StatedRows = NOTHING_STATED,
    refinements: tuple = (),
) -> HybridModel:
    """Without refinements, if none are given; rows are never cleared without a separation."""
    gaps = separation or Separation(0.0, 0.0)
    numbers = {"calibrated_gap": gaps.calibrated_gap, "mismatch_gap": gaps.mismatch_gap, "delta": delta}
    settings = s2r.Settings(margin=1.0, tolerance=0.1, radius=radius, refinements=refinements, **numbers)
    return HybridModel(kernel, horizon, settings, stated, reuses_simulator=separation is not None)
