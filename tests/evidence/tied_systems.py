"""Small systems with structure, true and false."""

from __future__ import annotations

from typing import Any

import numpy as np

import safe2real as s2r
from safe2real.problem import Problem, Ties
from safe2real.systems.dynamics import Dynamics, Noise, from_dynamics
from safe2real.systems.finite import SystemDescription

# Three cells in a row: the move goes on with 0.7 and stays with 0.3. At the right end both labels stay: the map clips.
LEADS = np.array([[[1, 0]], [[2, 1]], [[2, 2]]])  # [S, A, L]: moves, stays
ROWS = np.array([[[0.3, 0.7, 0.0]], [[0.0, 0.3, 0.7]], [[0.0, 0.0, 1.0]]])
CLASSES = np.zeros((3, 1), dtype=int)


def chain(ties: Ties | None = None, horizon: int = 3, rows: np.ndarray = ROWS, **given: Any) -> Problem:
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), horizon, 0, s2r.AtLeast(np.ones(rows.shape[-3:-1]), 1.0))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    baseline = s2r.MarkovPolicy.deterministic(np.zeros(3, dtype=int), num_actions=1, horizon=horizon)
    return Problem(model, baseline, settings, ties=ties, **given)


MOVES = {"up": (-1, 0), "right": (0, 1), "left": (0, -1), "wait": (0, 0)}


def ledge(slip: tuple[float, float], **given: Any) -> Dynamics:
    """Two rows of four cells above a drop: from the lower row a slip falls, which costs, to the start.

    `slip` is the probability of it in the upper and in the lower row; the simulator says what is given.
    """
    cells = [(row, column) for row in range(2) for column in range(4)] + ["fell"]

    def step(cell: Any, action: str, noise: str) -> Any:
        if cell == "fell":
            return (0, 0)
        row, column = cell[0] + (noise == "slips"), cell[1]
        if row == 2:
            return "fell"
        row, column = row + MOVES[action][0], column + MOVES[action][1]
        return (min(1, max(0, row)), min(3, max(0, column)))

    def ground(cell: Any, action: str) -> Any:
        return "level" if cell == "fell" or cell[0] == 0 else "edge"

    return from_dynamics(
        cells,
        tuple(MOVES),
        step,
        Noise(
            ("holds", "slips"),
            given.pop("law", {"level": [1 - slip[0], slip[0]], "edge": [1 - slip[1], slip[1]]}),
            classes=given.pop("classes", ground),
            **given,
        ),
        8,
        SystemDescription(start=(0, 0), cost=lambda cell, action: cell == "fell", limit=1.0),
        reward=lambda cell, action: cell == (1, 3),
    )


def ledge_problem(simulated: Dynamics, ties: Ties | None, seed: int = 0, **given: Any) -> Problem:
    """The baseline climbs and waits: it falls hardly ever."""
    climb = np.zeros(9, dtype=int)
    climb[:4] = 3
    baseline = s2r.MarkovPolicy.deterministic(climb, num_actions=4, horizon=8)
    settings = s2r.Settings(margin=0.3, calibrated_gap=0.0, mismatch_gap=0.2, tolerance=0.07, seed=seed)
    return Problem(simulated.model, baseline, settings, ties=ties, **given)
