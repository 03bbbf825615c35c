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
from safe2real.preflight import Effort, Preflight


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


QUICK = {"runs": 1, "max_rounds": 150, "compare": False}


def look(problem: s2r.Problem | None = None, reality: Any = None, **options: Any) -> Preflight:
    """Check a problem, the tiny one if None; options of `Effort` and of `check_problem` side by side."""
    effort = {name: options.pop(name, QUICK.get(name)) for name in ("runs", "max_rounds", "compare", "seconds")}
    return s2r.check_problem(tiny() if problem is None else problem, reality=reality, effort=Effort(**effort), **options)


def write(folder: Path, text: str = TOML, name: str = "spec.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


WALK = 8  # states of `ring`


def ring(**changes: Any) -> s2r.Problem:
    """States in a ring; a step goes on, stays, or goes back. State 4 costs, and the baseline walks on the spot."""
    rows = np.zeros((WALK, 2, WALK))
    for state in range(WALK):
        for action, (on, stay, back) in enumerate(((0.05, 0.9, 0.05), (0.7, 0.2, 0.1))):
            for step, share in ((1, on), (0, stay), (-1, back)):
                rows[state, action, (state + step) % WALK] = share
    cost = np.repeat(np.arange(WALK) == 4, 2).reshape(WALK, 2)
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 6, 0, s2r.AtMost(cost, 2.0, "pit"))
    baseline = s2r.MarkovPolicy.deterministic([0] * WALK, num_actions=2, horizon=6)
    settings = s2r.Settings(**({"margin": 1.5, "calibrated_gap": 0.0, "mismatch_gap": 0.4, "tolerance": 0.375} | changes))
    return s2r.Problem(model, baseline, settings)
