"""What somebody knows of the windy grid who knows its terrain: where the wind blows alike, moves go astray alike.

Labels are directions relative to the move: ahead, right, back, left. Rows of one class have the same wind and the same
walls around them, turned so that the move goes ahead: at the edge of the grid a slip has fewer cells to go to, so its law is
another one. A move ahead that leaves the grid stays put, and so does one that the wind turns round; a slip never leaves it.
"""

from __future__ import annotations

import numpy as np

from safe2real.problem.ties import Ties
from safe2real.systems.windy_grid import ACTIONS, WindyGrid

_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # [A, 2] up, right, down, left: each is a turn to the right
_LABELS = ("ahead", "right", "back", "left")
_SIDES = (1, 3)


def terrain_ties(grid: WindyGrid, *, exact: bool = False, by_cell: bool = False) -> Ties:
    """Rows tied by terrain: all cells with the same wind, or with `by_cell` only the moves of one cell.

    The law of a class that has wind is not the simulator's, which knows of none; that there is one is what is stated.
    """
    strength = np.zeros(grid.num_states)
    for cell, wind in zip(grid.windy, grid.wind, strict=True):
        strength[grid.state(cell)] = wind
    position = np.stack(np.divmod(np.arange(grid.num_states), grid.size), axis=1)  # [S, 2]
    target = position[:, None, :] + _MOVES  # [S, A, 2] by direction
    inside = ((target >= 0) & (target < grid.size)).all(axis=2)  # [S, A]
    arrival = np.where(inside, target @ np.array([grid.size, 1]), np.arange(grid.num_states)[:, None])
    classes = np.empty(inside.shape, dtype=np.int64)
    successors = np.full((*inside.shape, len(_LABELS)), -1, dtype=np.int64)
    numbers: dict[tuple[object, ...], int] = {}
    for state, action in np.ndindex(inside.shape):
        direction = (action + np.arange(len(_LABELS))) % len(ACTIONS)  # [L] of each label
        open_sides = inside[state, direction]
        ground = state if by_cell else float(strength[state])
        classes[state, action] = numbers.setdefault((ground, *open_sides.tolist()), len(numbers))
        successors[state, action] = arrival[state, direction]
        for side in _SIDES:
            if not open_sides[side]:
                successors[state, action, side] = -1
    return Ties(classes, successors, exact=exact, label_names=_LABELS)
