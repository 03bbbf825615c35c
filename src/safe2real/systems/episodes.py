"""Logged episodes in numbers of the environment: what every layout of a dataset is read into, with its checks.

`LoggedEpisode` is also how to hand in an episode with everything that is known of it: rewards, costs, and whether the
environment ended it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.validation import Floats, finite_floats, frozen, shown, whole_numbers

Numbering = Callable[[Any], int]
"""observation -> state, or action -> its number"""
_LARGEST = 2**31  # a state number beyond this is no state number


@dataclass(frozen=True, eq=False, slots=True)
class LoggedEpisode:
    """One episode of n steps, in the numbers of the environment, which count from 0."""

    states: NDArray[np.int64]  # [n + 1]
    actions: NDArray[np.int64]  # [n]
    rewards: Floats | None = None  # [n]
    costs: Floats | None = None  # [n] of each step, paid on arrival
    terminated: bool = False  # whether the environment ended it, after the last step

    @property
    def length(self) -> int:
        """Steps that were taken."""
        return self.actions.size

    def ends_at(self, step: int) -> bool:
        """Whether the environment ended the episode with this step, counted from 0."""
        return self.terminated and step == self.length - 1


@dataclass(frozen=True, eq=False, slots=True)
class EpisodeLog:
    """Logged episodes and the sizes of the system that they are from."""

    episodes: tuple[LoggedEpisode, ...]
    num_states: int
    num_actions: int

    @property
    def steps(self) -> int:
        """Steps of all episodes together."""
        return sum(episode.length for episode in self.episodes)

    @property
    def has_costs(self) -> bool:
        """Whether every episode has its costs."""
        return all(episode.costs is not None for episode in self.episodes)

    def too_short(self, horizon: int) -> tuple[int, ...]:
        """The episodes that stop before `horizon` steps although the environment did not end them."""
        return tuple(i for i, one in enumerate(self.episodes) if one.length < horizon and not one.terminated)


def checked_episode(
    place: str, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: Any, costs: Any, terminated: Any
) -> LoggedEpisode:
    """An episode whose parts fit together; `place` is for the message if they do not."""
    n = actions.size
    if n == 0 or states.size != n + 1:
        raise InvalidInput(
            f"{place} has {states.size} states and {n} actions; it needs at least one action and one state more"
        )
    columns: list[Floats | None] = []
    for name, column in (("rewards", rewards), ("costs", costs)):
        values = None
        if column is not None:
            values = finite_floats(f"{place}, {name}", array_of(f"{place}, {name}", column)).reshape(-1)
        if values is not None and values.size != n:
            raise InvalidInput(f"{place} has {values.size} {name} for {n} steps; give one per step")
        columns.append(None if values is None else frozen(values))
    return LoggedEpisode(frozen(states), frozen(actions), columns[0], columns[1], truth(f"{place}, terminated", terminated))


# ------------------------------------------------------------------------------------ what users' data and functions give


def array_of(name: str, values: Any) -> NDArray[Any]:
    """An array of one entry per step; gaps are named before numpy makes NaN of them."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(
            f"{name} is not an array: {shown(values)} ({error}); give one entry of one shape per step"
        ) from error
    if array.ndim == 0:
        raise InvalidInput(f"{name} is {shown(values)}, not an array; give one entry per step")
    if array.dtype.kind == "O":
        for i, value in enumerate(array.reshape(-1).tolist()):
            if value is None:
                raise InvalidInput(f"{name}, entry {i} is None; it must be known: leave out what was not recorded")
    return array


def numbers(name: str, values: Any, first: int, cure: str) -> NDArray[np.int64]:
    """What is meant to be numbers already: whole, one per step, counted from `first`; the result is counted from 0."""
    array = array_of(name, values)
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim == 1 and flat.dtype.kind == "f":
        flat = finite_floats(name, flat)
    whole = flat.dtype.kind in "iu" or (flat.dtype.kind == "f" and bool((flat == np.floor(flat)).all()))
    if flat.ndim != 1 or not whole:
        raise InvalidInput(
            f"{name} have shape {array.shape} and type {array.dtype}: they are not whole numbers, so a discretiser is "
            f"needed; give {cure}"
        )
    if first:
        name, flat = f"{name} (less {first}, the first of their space)", flat.astype(np.int64) - first
    return whole_numbers(name, flat, below=_LARGEST, what="states and actions")


def numbered(name: str, values: Any, number: Numbering) -> NDArray[np.int64]:
    """What becomes numbers by a function of the user's."""
    return whole_numbers(name, [number(value) for value in values], below=_LARGEST, what="states and actions")


def finite_value(place: str, value: Any) -> float:
    """A reward or a cost as an environment or a simulator gives it."""
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{place} is {shown(value)}; it must be a finite number: mend the source")
    return number


def truth(place: str, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise InvalidInput(f"{place} is {shown(value)}; give True where the environment ended the episode, else False")
