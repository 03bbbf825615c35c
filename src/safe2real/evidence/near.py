"""Near successors: those that the simulator has from a state, by any action."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.rows import Reach
from safe2real.evidence.counts import distinct, places_of
from safe2real.model.kernel import Kernel


def near_of(simulator: Kernel, reach: Reach) -> Reach:
    """The near successors of every row [R], sorted; none (length 0) where they would be all that are possible.

    Rows of one state, at one step, have the same. A row whose support is declared has none: that is worth more.
    """
    states, actions = simulator.num_states, simulator.num_actions
    stored = np.repeat(
        (simulator.length.reshape(-1, actions) > 0).all(axis=1), actions
    )  # else a row is uniform: all are near
    owner = np.repeat(np.arange(stored.size)[stored] // actions, simulator.length[stored])
    successor = simulator.successor[places_of(simulator.begin[stored], simulator.length[stored])]
    pairs = distinct(owner * states + successor)
    size = np.bincount(pairs // states, minlength=stored.size // actions)
    pairs, size = pairs[(size < states)[pairs // states]], np.where(size < states, size, 0)
    begin, length = np.repeat(np.cumsum(size) - size, actions), np.repeat(size, actions)
    if reach.length.size:
        length[reach.length > 0] = 0
    near = (pairs % states).astype(np.uint32) if pairs.size else np.zeros(1, dtype=np.uint32)
    return Reach(begin.astype(np.uint32), length.astype(np.uint32), near)
