"""An environment whose observations or actions are several whole numbers, as one whose are one: Discrete on both sides.

MultiDiscrete, MultiBinary, and Tuple and Dict of these and of Discrete are numbered like the cells of a box, the last number
counted fastest. Nothing is lost, so unlike a `Discretised` environment it is as Markov as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from safe2real.errors import InvalidInput
from safe2real.model.names import Legend
from safe2real.model.validation import shown, whole_numbers

_MOST_NAMED, _FEW = 5_000, 12  # states, and numbers in the name of one
MOST_CELLS = 100_000  # more than can be planned with, so a slip
WHOLE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Enumerated(gymnasium.Wrapper[Any, Any, Any, Any]):
    """`env` with Discrete observations and actions.

    Args:
        env: whose observations and actions are made of whole numbers.

    Raises:
        InvalidInput: a space has other parts, or makes too many states; says which.

    Example:
        >>> env = Enumerated(my_env)  # MultiDiscrete([16, 4]) observations
        >>> env.observation_space
        Discrete(64)
        >>> estimate_by_running(env, 20, episodes=1000)
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        if not isinstance(env, gymnasium.Env):
            raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
        super().__init__(env)
        self._seen, self._taken = (list(_sizes(space, what)) for space, what in
                                   ((env.observation_space, "observation"), (env.action_space, "action")))  # fmt: skip
        self.num_states, self.num_actions = (_product(sizes) for sizes in (self._seen, self._taken))
        self.observation_space, self.action_space = spaces.Discrete(self.num_states), spaces.Discrete(self.num_actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode of the environment.

        Args:
            seed: of the environment's random numbers; None goes on with them.
            options: passed to the environment.

        Returns:
            The number of the first observation, and the environment's information.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        return self.state_of(observation), info

    def step(self, action: int) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        """Act for one step.

        Args:
            action: its number.

        Returns:
            The number of the observation; reward, terminated, truncated and information are the environment's.
        """
        observation, *rest = self.env.step(self.action_of(action))
        return (self.state_of(observation), *rest)  # type: ignore[return-value]

    def state_of(self, observation: Any) -> int:
        """Return the number of an observation.

        Args:
            observation: the environment's own, made of whole numbers.

        Returns:
            The state.

        Raises:
            InvalidInput: the space does not have it.
        """
        return _number(self._seen, _flat(self.env.observation_space, observation), observation)

    def observation_of(self, state: int) -> Any:
        """Return the observation with a number, in the environment's own form.

        Args:
            state: the number.

        Returns:
            The observation.

        Raises:
            InvalidInput: there is no such number.
        """
        return _shaped(self.env.observation_space, _digits(self._seen, state, "state"))

    def action_of(self, action: int) -> Any:
        """Return the environment's own action for a number.

        Args:
            action: the number.

        Returns:
            The action.

        Raises:
            InvalidInput: there is no such number.
        """
        return _shaped(self.env.action_space, _digits(self._taken, action, "action"))

    @property
    def legend(self) -> Legend:
        """States and actions by their numbers of the environment, where there are not too many to name."""
        pairs = (("state", self._seen, self.env.observation_space), ("action", self._taken, self.env.action_space))
        return Legend.of(*(_names(*one) for one in pairs))


def _sizes(space: Any, what: str) -> Iterator[int]:
    """How many values each whole number of the space can have."""
    if isinstance(space, spaces.Discrete):
        yield int(space.n)
    elif isinstance(space, spaces.MultiDiscrete):
        yield from np.asarray(space.nvec).reshape(-1).tolist()
    elif isinstance(space, spaces.MultiBinary):
        yield from [2] * math.prod(space.shape)
    elif isinstance(space, spaces.Tuple | spaces.Dict):
        for part in _parts(space):
            yield from _sizes(part, what)
    else:
        raise InvalidInput(
            f"the {what} space has a part {shown(space)}, which is no whole number; cut it up: "
            "safe2real.systems.Discretised(env, bins=..., features=...)"
        )


def _parts(space: Any) -> list[Any]:
    return list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)


def _flat(space: Any, value: Any) -> Iterator[int]:
    """The whole numbers of a value, each from 0."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _flat(part, value[key])
    elif isinstance(space, spaces.Tuple):
        for part, one in zip(space.spaces, value, strict=True):
            yield from _flat(part, one)
    else:
        first = np.asarray(getattr(space, "start", 0)).reshape(-1)
        yield from (np.asarray(value).reshape(-1) - first).tolist()


def _shaped(space: Any, digits: Iterator[int]) -> Any:
    """A value of the space from its whole numbers."""
    if isinstance(space, spaces.Dict):
        return {key: _shaped(part, digits) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_shaped(part, digits) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        return next(digits) + int(space.start)
    taken = np.array([next(digits) for _ in range(math.prod(space.shape))]).reshape(space.shape)
    return (taken + np.asarray(getattr(space, "start", 0))).astype(space.dtype)


def _product(sizes: list[int]) -> int:
    total = math.prod(sizes)
    if total > MOST_CELLS:
        raise InvalidInput(
            f"{' x '.join(map(str, sizes))} = {total} are more than {MOST_CELLS}, and some hundreds are what data can fill; "
            "keep fewer of the numbers: gymnasium.wrappers.TransformObservation, or Discretised(env, bins=..., features=...)"
        )
    return total


def _number(sizes: list[int], digits: Iterator[int], value: Any) -> int:
    number = 0
    for size, digit in zip(sizes, digits, strict=True):
        if not 0 <= digit < size or digit != int(digit):
            raise InvalidInput(f"an observation is {shown(value)}, which its space does not have; mend the one or the other")
        number = number * size + int(digit)
    return number


def _digits(sizes: list[int], number: int, what: str) -> Iterator[int]:
    checked = whole_numbers(what, [number], below=math.prod(sizes), what=f"{what}s")[0]
    return iter(int(digit) for digit in np.unravel_index(checked, sizes))


def _firsts(space: Any) -> Iterator[int]:
    """The least value of each whole number of the space."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        for part in _parts(space):
            yield from _firsts(part)
    else:
        yield from np.broadcast_to(np.asarray(getattr(space, "start", 0)), space.shape).reshape(-1).tolist()


def _names(what: str, sizes: list[int], space: Any) -> list[str] | None:
    total, firsts = math.prod(sizes), list(_firsts(space))
    if total > _MOST_NAMED or not 1 < len(sizes) <= _FEW:
        return None
    values = (zip(firsts, _digits(sizes, number, what), strict=True) for number in range(total))
    return [f"({', '.join(str(first + digit) for first, digit in one)})" for one in values]
