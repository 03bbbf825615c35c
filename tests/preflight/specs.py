"""Problem files for tests: a system small enough to compute everything by hand.

In state 0 (safe) action 0 stays and action 1 leads to state 1 (unsafe) for good. Over 3 steps V_c is 3 for staying and 1 for
leaving at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import safe2real as s2r


class NoTable(gymnasium.Env[int, int]):
    """Discrete spaces, and nothing that says what follows."""

    observation_space = gymnasium.spaces.Discrete(16)
    action_space = gymnasium.spaces.Discrete(4)


gymnasium.register("NoTable-v0", NoTable)

ROWS = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
SAFE = np.array([[1.0, 1.0], [0.0, 0.0]])
SETTINGS = {"margin": 1.0, "calibrated_gap": 0.0, "mismatch_gap": 0.5, "tolerance": 0.25, "delta": 0.1}

TOML = """
horizon = 3
[simulator]
transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
[[constraints]]
name = "upright"
utility = [[1.0, 1.0], [0.0, 0.0]]
threshold = 1.5
[baseline]
actions = [0, 0]
[settings]
margin = 1.0
calibrated_gap = 0.0
mismatch_gap = 0.5
tolerance = 0.25
delta = 0.1
"""

REAL = """
[real]
transition = [[[1.0, 0.0], [0.6, 0.4]], [[0.0, 1.0], [0.0, 1.0]]]
"""


LAKE = """
horizon = 6
[simulator]
gymnasium = "FrozenLake-v1"
arguments = {map_name = "4x4", is_slippery = false}
unsafe = [5, 7, 11, 12]
paid = "arrival"
limit = 0.5
ended = 0.0
[real]
gymnasium = "FrozenLake-v1"
arguments = {map_name = "4x4", is_slippery = true}
[baseline]
actions = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]
[settings]
margin = 0.1
calibrated_gap = 0.0
mismatch_gap = 0.3
tolerance = 0.025
[run]
rewards = "environment"
"""


def tiny(*, threshold: float = 1.5, known: Any = None, support: Any = None, **changes: Any) -> s2r.Problem:
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, s2r.AtLeast(SAFE, threshold, "upright"))
    baseline = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=3)
    return s2r.Problem(model, baseline, s2r.Settings(**(SETTINGS | changes)), known, support)


def kernel(**rows: list[float]) -> s2r.Kernel:
    """The tiny system with other rows: kernel(s0a1=[0.6, 0.4])."""
    changed = ROWS.copy()
    for name, row in rows.items():
        changed[int(name[1]), int(name[3])] = row
    return s2r.Kernel.from_dense(changed)


def write(folder: Path, text: str = TOML, name: str = "spec.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file
