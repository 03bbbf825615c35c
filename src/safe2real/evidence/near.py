"""Near successors: those that the simulator has from a state, by any action."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.rows import Reach
from safe2real.model.kernel import Kernel


def near_of(simulator: Kernel, reach: Reach) -> Reach:
    """The near successors of every row [R], sorted; none (length 0) where they would be all that are possible.

    Rows of one state, at one step, have the same. A row whose support is declared has none: that is worth more.
    """
    states, actions, rows = simulator.num_states, simulator.num_actions, simulator.num_rows
    begin, length = np.zeros(rows, dtype=np.uint32), np.zeros(rows, dtype=np.uint32)
    found: list[np.ndarray] = []
    stored = 0
    for first in range(0, rows, actions):
        own = slice(first, first + actions)
        if (simulator.length[own] == 0).any():
            continue  # a uniform row: everything is near
        near = np.unique(np.concatenate([simulator.row(row)[0] for row in range(first, first + actions)]))
        if near.size >= states:
            continue
        begin[own], length[own] = stored, near.size
        found.append(near.astype(np.uint32))
        stored += near.size
    if reach.length.size:
        length[reach.length > 0] = 0
    return Reach(begin, length, np.concatenate(found) if found else np.zeros(1, dtype=np.uint32))
