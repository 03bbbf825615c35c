"""Two states, two actions, two steps: small enough to work on paper."""

import numpy as np

import safe2real as s2r
from safe2real.problem.settings import Settings

# Two states, two actions, two steps. State 0 is safe, state 1 is not. Action 0 stays in 0, action 1 leads to 1; 1 absorbs.
ROWS = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])


SAFE = np.array([[1.0, 1.0], [0.0, 0.0]])


def tiny(threshold=0.5, horizon=2):
    return s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), horizon, 0, s2r.AtLeast(SAFE, threshold))


def stay(horizon=2):
    return s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=horizon)


PLAIN = {"margin": 1.0, "calibrated_gap": 0.0, "mismatch_gap": 0.8, "tolerance": 0.25, "delta": 0.1}


def settings(**changes):
    return Settings.paper(**(PLAIN | changes))
