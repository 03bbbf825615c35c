"""One episode: all that crosses from the real system to us."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.checks import Indices, frozen, whole_numbers
from safe2real.model.cmdp import CMDP


@dataclass(frozen=True, eq=False, slots=True)
class Trajectory:
    """States and actions of one whole episode; build one with `Trajectory.of`, which checks it against its system."""

    states: Indices  # [H + 1]
    actions: Indices  # [H]

    @classmethod
    def of(cls, model: CMDP, states: ArrayLike, actions: ArrayLike) -> Trajectory:
        """Check lengths, ranges and the first state. Any transition will do: the real system need not agree with `model`."""
        visited = whole_numbers("states", states, below=model.num_states, what="states")
        chosen = whole_numbers("actions", actions, below=model.num_actions, what="actions")
        if visited.shape != (model.horizon + 1,) or chosen.shape != (model.horizon,):
            raise InvalidInput(
                f"an episode of {model.horizon} steps has {model.horizon + 1} states and {model.horizon} actions; "
                f"got shapes {visited.shape} and {chosen.shape}. An episode that ended early goes on in an absorbing state"
            )
        if model.start[visited[0]] == 0.0:
            possible = np.flatnonzero(model.start)
            raise InvalidInput(f"states[0] is {visited[0]}; episodes of this system start in {possible[:10].tolist()}")
        return cls(frozen(visited.astype(np.uint32)), frozen(chosen.astype(np.uint32)))


def check_trajectory(model: CMDP, trajectory: Trajectory) -> Trajectory:
    """The same episode, checked against `model`: it may have been made for another system, or by hand."""
    if not isinstance(trajectory, Trajectory):
        raise InvalidInput(f"an episode is a {type(trajectory).__name__}; give Trajectory.of(model, states, actions)")
    return Trajectory.of(model, trajectory.states, trajectory.actions)
