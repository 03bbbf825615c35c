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

MOST_NAMED, _FEW = 5_000, 12  # states, and numbers in the name of one
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
        self._seen = list(_numbers_in(env.observation_space, "observation"))
        self._taken = list(_numbers_in(env.action_space, "action"))
        self.num_states, self.num_actions = _product(self._seen), _product(self._taken)
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
        number = 0
        for (size, first), value in zip(self._seen, _flat(self.env.observation_space, observation), strict=True):
            if not 0 <= value - first < size or value != int(value):
                raise InvalidInput(
                    f"an observation is {shown(observation)}, which its space does not have; mend the one or the other"
                )
            number = number * size + int(value - first)
        return number

    def observation_of(self, state: int) -> Any:
        """Return the observation with a number, in the environment's own form.

        Args:
            state: the number.

        Returns:
            The observation.

        Raises:
            InvalidInput: there is no such number.
        """
        return _shaped(self.env.observation_space, _values(self._seen, state, "state"))

    def action_of(self, action: int) -> Any:
        """Return the environment's own action for a number.

        Args:
            action: the number.

        Returns:
            The action.

        Raises:
            InvalidInput: there is no such number.
        """
        return _shaped(self.env.action_space, _values(self._taken, action, "action"))

    @property
    def legend(self) -> Legend:
        """States and actions by their numbers of the environment, where there are not too many to name."""
        return Legend.of(_names("state", self._seen), _names("action", self._taken))


def _numbers_in(space: Any, what: str) -> Iterator[tuple[int, int]]:
    """(how many values, the first of them) of each whole number that the space is made of."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        for part in _parts(space):
            yield from _numbers_in(part, what)
    elif isinstance(space, WHOLE):
        leaf: Any = space
        sizes = (
            2 if isinstance(leaf, spaces.MultiBinary) else leaf.nvec if isinstance(leaf, spaces.MultiDiscrete) else leaf.n
        )
        columns = (np.broadcast_to(one, leaf.shape).reshape(-1) for one in (sizes, getattr(leaf, "start", 0)))
        yield from zip(*(column.tolist() for column in columns), strict=True)
    else:
        raise InvalidInput(
            f"the {what} space has a part {shown(space)}, which is no whole number; cut it up: "
            "safe2real.systems.Discretised(env, bins=..., features=...)"
        )


def _parts(space: Any) -> list[Any]:
    return list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)


def _flat(space: Any, value: Any) -> Iterator[int]:
    """The whole numbers of a value."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _flat(part, value[key])
    elif isinstance(space, spaces.Tuple):
        for part, one in zip(space.spaces, value, strict=True):
            yield from _flat(part, one)
    else:
        yield from np.asarray(value).reshape(-1).tolist()


def _shaped(space: Any, values: Iterator[int]) -> Any:
    """A value of the space from its whole numbers."""
    if isinstance(space, spaces.Dict):
        return {key: _shaped(part, values) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_shaped(part, values) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        return next(values)
    return np.array([next(values) for _ in range(math.prod(space.shape))]).reshape(space.shape).astype(space.dtype)


def _product(numbers: list[tuple[int, int]]) -> int:
    sizes = [size for size, _ in numbers]
    total = math.prod(sizes)
    if total > MOST_CELLS:
        raise InvalidInput(
            f"{' x '.join(map(str, sizes))} = {total} are more than {MOST_CELLS}, and some hundreds are what data can fill; "
            "keep fewer of the numbers: gymnasium.wrappers.TransformObservation, or Discretised(env, bins=..., features=...)"
        )
    return total


def _values(numbers: list[tuple[int, int]], number: int, what: str) -> Iterator[int]:
    """The whole numbers that stand for `number`, the last counted fastest."""
    sizes = [size for size, _ in numbers]
    checked = whole_numbers(what, [number], below=math.prod(sizes), what=f"{what}s")[0]
    return (int(digit) + first for digit, (_, first) in zip(np.unravel_index(checked, sizes), numbers, strict=True))


def _names(what: str, numbers: list[tuple[int, int]]) -> list[str] | None:
    total = math.prod(size for size, _ in numbers)
    if total > MOST_NAMED or not 1 < len(numbers) <= _FEW:
        return None
    return [f"({', '.join(map(str, _values(numbers, number, what)))})" for number in range(total)]
