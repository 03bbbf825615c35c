"""The rows of a finite system: from an environment's table to outcomes, and from outcomes to a kernel in a numbering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput, OutsideModel
from safe2real.model.kernel import Kernel, TransitionTable, read_table
from safe2real.systems.arrival_costs import ENDED, Arrival, ArrivalCost, Outcomes, after_end, cost_on_arrival, reached_within
from safe2real.systems.finite_env import name_of

if TYPE_CHECKING:
    import gymnasium


def outcomes_of(env: gymnasium.Env[Any, Any] | TransitionTable, arrival_cost: ArrivalCost | None) -> Outcomes:
    """All that the table of `env` says can happen, with the cost of each transition."""
    table = env if isinstance(env, Mapping) else getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        raise InvalidInput(
            f"{name_of(env)} has no transition table (env.unwrapped.P); sample it with estimate_model(env, ...) instead"
        )
    listed = read_table(table)
    costs = np.zeros(listed.states.size)
    if arrival_cost is not None:
        columns = (listed.states, listed.actions, listed.successors, listed.rewards, listed.terminated)
        listing = zip(*(column.tolist() for column in columns), strict=True)
        costs = np.array([cost_on_arrival(arrival_cost, *outcome) for outcome in listing])
    return Outcomes(**{field.name: getattr(listed, field.name) for field in fields(listed)}, costs=costs)


def kernel_in(outcomes: Outcomes, arrivals: Mapping[Arrival, int], start: NDArray[Any], horizon: int) -> Kernel:
    """Rows for every state of the numbering: the environment's own, or those after the end.

    A state that only the last step enters takes no action; where its rows lead out of the numbering, it stays instead.
    """
    columns: list[tuple[NDArray[Any], ...]] = []
    acting: set[Arrival] | None = None
    every = np.arange(outcomes.num_actions)
    for arrival, index in arrivals.items():
        state, _, terminated = arrival
        row, actions, probabilities = outcomes.of(state), every, np.ones(every.size)
        if terminated:
            after = [index if state == ENDED else arrivals[after_end(outcomes, state)]] * every.size
        else:
            actions, probabilities = outcomes.actions[row], outcomes.probabilities[row]
            after = [arrivals.get(key, -1) for key in outcomes.arrivals_of(row)]
        if -1 in after:
            if acting is None:
                acting = reached_within(outcomes, start, horizon - 1)
            if arrival in acting:
                first = after.index(-1)
                missing = outcomes.arrivals_of(row)[first]
                raise not_here(f"action {actions[first]} in state {state} leads to state {missing[0]}", missing)
            actions, after, probabilities = every, [index] * every.size, np.ones(every.size)
        columns.append((np.full(len(after), index), actions, np.array(after), probabilities))
    states, actions, successors, probabilities = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Kernel.from_triples(
        states, actions, successors, probabilities, num_states=len(arrivals), num_actions=outcomes.num_actions
    )


def not_here(event: str, arrival: Arrival) -> OutsideModel:
    """The error for what a system has no state for."""
    _, cost, terminated = arrival
    return OutsideModel(
        f"{event} (cost {cost:g}, {'' if terminated else 'not '}terminated), which this system does not have; build it "
        "from an environment that can get there (without drop_unreachable), or from samples that have shown it"
    )
