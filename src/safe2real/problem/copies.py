"""States that are copies of one another by construction: what is seen in one is seen in all."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.checks import whole_numbers
from safe2real.model.encoding import numbers_from_json
from safe2real.model.kernel import Kernel


def check_copies(copies: ArrayLike | None, kernel: Kernel) -> NDArray[np.int64]:
    """[S] the state whose rows each state has, which has its own; each is itself where nothing is declared.

    Raises:
        InvalidInput: the simulator's rows of a copy are not those of the state it is one of, or it is a copy of a copy.
    """
    every = np.arange(kernel.num_states)
    if copies is None:
        return every
    given = whole_numbers("copies", numbers_from_json(copies, "copies"), below=kernel.num_states, what="states")
    if given.shape != every.shape:
        raise InvalidInput(
            f"copies has shape {given.shape}; give for each of the {every.size} states the one it is a copy of"
        )
    if (given[given] != given).any():
        state = int(np.flatnonzero(given[given] != given)[0])
        raise InvalidInput(
            f"copies[{state}] is {given[state]}, which is itself a copy of {given[given[state]]}; name one state for both"
        )
    for step in range(kernel.horizon or 1):
        for state in np.flatnonzero(given != every).tolist():
            for action in range(kernel.num_actions):
                first = step * kernel.rows_per_step + action
                mine = kernel.row(first + state * kernel.num_actions)
                other = kernel.row(first + int(given[state]) * kernel.num_actions)
                if not (np.array_equal(mine[0], other[0]) and np.array_equal(mine[1], other[1])):
                    raise InvalidInput(
                        f"copies[{state}] is {given[state]}, but the simulator's rows of action {action} differ; a copy "
                        "has the same rows: correct them, or let the state be itself"
                    )
    return given
