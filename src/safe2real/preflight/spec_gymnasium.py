"""The part of a specification file that names a Gymnasium environment with a table as the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.model.serialization import check_keys, numbers_from_json, within
from safe2real.model.validation import boolean, finite_number, shown, whole_numbers
from safe2real.preflight.array_files import ArrayFiles
from safe2real.problem.ties import Ties
from safe2real.systems.arrivals import ENDED, ArrivalCost
from safe2real.systems.finite import FiniteSystem, from_gymnasium
from safe2real.systems.finite_env import check_spaces

_PAID = ("state", "arrival")
_COSTS = ("cost", "unsafe", "unsafe_reward")


@dataclass(frozen=True, eq=False, slots=True)
class Environment:
    """The simulator's environment as a finite system; arrays of the file are over the environment's own states."""

    system: FiniteSystem
    num_states: int  # of the environment
    pools_copies: bool = False  # whether what is seen in one copy of a state counts for all

    def over_states(self, array: NDArray[Any], axes: int, name: str) -> NDArray[Any]:
        """[S] (`axes` 1) or [S, A] (2) over the environment's states, or with steps before it, as one over the model's."""
        axis = array.ndim - axes
        if axis not in (0, 1) or array.shape[axis] != self.num_states:
            raise InvalidInput(
                f"{name} has shape {array.shape}; give one entry for each of the environment's {self.num_states} states"
            )
        return np.moveaxis(self.system.per_state(np.moveaxis(array, axis, 0)), 0, axis)

    def reality(self, value: Any, name: str = "real") -> Kernel:
        """The rows of the environment that [real], or another table of that `name`, names."""
        given = check_keys(value, name, required=("gymnasium",), optional=("arguments",))
        with within(name):
            return self.system.kernel_of(_made(given, name))


def environment_of(
    value: Any, horizon: int, start: Any, files: ArrayFiles, ties: Ties | None = None, names: Mapping[str, Any] | None = None
) -> Environment | None:
    """The system of [simulator] where that names an environment; None where it holds arrays."""
    if not isinstance(value, dict) or "gymnasium" not in value:
        return None
    given = check_keys(
        value,
        "simulator",
        required=("gymnasium",),
        optional=("arguments", *_COSTS, "paid", "limit", "ended", "name", "drop_unreachable", "pool_copies"),
    )
    stated = [key for key in _COSTS if key in given]
    if len(stated) > 1:
        raise InvalidInput(f"simulator has {' and '.join(stated)}; keep one of them")
    env = _made(given, "simulator")
    num_states = int(env.observation_space.n)
    cost = _cost(given, num_states, files)
    paid = given.get("paid", "state")
    if paid not in _PAID:
        raise InvalidInput(f"simulator.paid is {shown(paid)}; give one of {', '.join(_PAID)}")
    if paid == "arrival" and isinstance(cost, np.ndarray):
        cost = _on_arrival(cost, num_states)
    ended = files.maybe(given.get("ended"), "simulator.ended")
    with within("simulator"):
        system = from_gymnasium(
            env,
            horizon,
            cost=cost,
            limit=given.get("limit"),
            ended=ended,
            start=start,
            drop_unreachable=boolean("simulator.drop_unreachable", given.get("drop_unreachable", False)),
            name=str(given.get("name", "cost")),
            ties=ties,
            **(names or {}),
        )
    return Environment(system, num_states, boolean("simulator.pool_copies", given.get("pool_copies", False)))


def _cost(given: dict[str, Any], num_states: int, files: ArrayFiles) -> NDArray[Any] | ArrivalCost | None:
    if "unsafe_reward" in given:
        worst = finite_number("simulator.unsafe_reward", given["unsafe_reward"])
        return lambda state, action, next_state, reward, terminated: float(reward <= worst)
    if "unsafe" in given:
        unsafe = whole_numbers("simulator.unsafe", given["unsafe"], below=num_states, what="states")
        return np.isin(np.arange(num_states), unsafe).astype(np.float64)
    if "cost" not in given:
        return None
    named = given["cost"]
    array = files.array(named, "simulator.cost") if isinstance(named, str) else named
    return numbers_from_json(array, "simulator.cost")


def _on_arrival(cost: NDArray[Any], num_states: int) -> ArrivalCost:
    """The cost of the next state, paid once when it is entered."""
    if cost.shape != (num_states,):
        raise InvalidInput(
            f"simulator.cost has shape {cost.shape}; what is paid on arrival is one number for each of the {num_states} "
            "states, or leave out paid"
        )

    def paid(state: int, action: int, next_state: int, reward: float, terminated: bool) -> float:
        # To stay where one is, is no arrival.
        return float(cost[next_state]) if next_state != state or terminated else 0.0

    return paid


def _made(given: dict[str, Any], name: str) -> Any:
    id, arguments = given["gymnasium"], given.get("arguments", {})
    if not isinstance(id, str) or not isinstance(arguments, dict):
        raise InvalidInput(
            f'{name}.gymnasium is {shown(id)} with arguments {shown(arguments)}; give an id like "FrozenLake-v1" and '
            "arguments = {map_name = ...}"
        )
    try:
        env: Any = gymnasium.make(id, **arguments)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError, KeyError, AssertionError) as error:
        raise InvalidInput(
            f"{name}.gymnasium is {id!r}, which could not be made ({error}); check the id and the arguments, and install "
            "the package that registers it. With module:id the module is imported first and must be importable: for one "
            "beside the file, go to its folder and set PYTHONPATH=."
        ) from error
    with within(f"{name}.gymnasium is {id!r}"):
        check_spaces(env)
        if getattr(env.unwrapped, "P", None) is None:
            raise InvalidInput(
                "the environment has no transition table (env.unwrapped.P), and a file can only name one that has; in "
                "Python, sample it with estimate_model(env, ...)"
            )
    return env


def numbering_of(system: FiniteSystem) -> list[dict[str, Any]]:
    """What each state of the model stands for, in order; a controller needs it to tell episodes.

    After the end of an episode `environment_state` is None, and `cost` is what every step there costs.
    """
    ways = sorted(system.arrivals.items(), key=lambda item: item[1])
    return [
        {
            "state": index,
            "name": system.model.legend.state(index),
            "environment_state": None if state == ENDED else state,
            "cost_on_arrival": cost,
            "ended": ended,
        }
        for (state, cost, ended), index in ways
    ]
