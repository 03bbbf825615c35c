"""What a user says of a finite system that its table does not: costs of states, what follows the end, the start."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.validation import Floats, distributions, finite_floats, shown
from safe2real.systems.arrival_costs import ENDED, Arrival, Outcomes


def costs_paid(arrivals: Mapping[Arrival, int], cost: ArrayLike | None, outcomes: Outcomes) -> Floats:
    """The cost [S, A] of every state of the numbering."""
    shape = (outcomes.num_states, outcomes.num_actions)
    own = np.zeros(shape)
    if cost is not None:
        given = finite_floats("cost", cost)
        if given.shape not in (shape, shape[:1]):
            raise InvalidInput(
                f"cost has shape {given.shape}; give one entry for each of the environment's states, {shape[:1]}, or for "
                f"each state and action, {shape}; or a function cost(state, action, next_state, reward, terminated)"
            )
        own = np.broadcast_to(given[:, None], shape) if given.ndim == 1 else given
    paid = np.empty((len(arrivals), outcomes.num_actions))
    for (state, on_arrival, _), index in arrivals.items():
        paid[index] = on_arrival if state == ENDED else own[state] + on_arrival
    return paid


def costs_after_end(ended: ArrayLike | None, outcomes: Outcomes, *, required: bool) -> Floats:
    """What a step costs after an episode that ended in each of the environment's states [S]."""
    if ended is None:
        if required and outcomes.terminated.any():
            raise InvalidInput(
                "episodes of this environment can end before the horizon; give ended=, what every step after the end "
                "costs in [0, 1]: 0 where an ended episode is as good as a safe one; one number, or one for each state"
            )
        ended = 0.0
    given = finite_floats("ended", ended)
    if given.shape not in ((), (outcomes.num_states,)):
        raise InvalidInput(
            f"ended has shape {given.shape}; give one number, or one for each of the {outcomes.num_states} states"
        )
    if ((given < 0.0) | (given > 1.0)).any():
        raise InvalidInput(f"ended is {shown(ended)}; what a step after the end costs lies in [0, 1]")
    return np.array(np.broadcast_to(given, (outcomes.num_states,)))


def start_distribution(start: int | ArrayLike, num_states: int) -> Floats:
    """[S] of one state, or of a distribution."""
    given = np.asarray(start)
    if given.ndim == 0 and given.dtype.kind in "iu" and 0 <= given < num_states:
        return np.asarray(np.arange(num_states) == given, dtype=np.float64)
    if given.shape != (num_states,):
        raise InvalidInput(f"start is {shown(start)}; give one of the environment's {num_states} states, or a distribution")
    return distributions("start", given)
