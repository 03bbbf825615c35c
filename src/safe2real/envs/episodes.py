"""Logged episodes in numbers of the environment: what every layout of a dataset is read into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, finite_floats, frozen


@dataclass(frozen=True, eq=False, slots=True)
class LoggedEpisode:
    """One episode of n steps, in the numbers of the environment."""

    states: NDArray[np.int64]  # [n + 1]
    actions: NDArray[np.int64]  # [n]
    rewards: Floats | None  # [n]
    costs: Floats | None  # [n] of each step, paid on arrival
    terminated: bool  # whether the environment ended it, after the last step

    @property
    def length(self) -> int:
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
        return sum(episode.length for episode in self.episodes)

    @property
    def has_costs(self) -> bool:
        return all(episode.costs is not None for episode in self.episodes)

    def too_short(self, horizon: int) -> tuple[int, ...]:
        """The episodes that stop before `horizon` steps although the environment did not end them."""
        return tuple(i for i, one in enumerate(self.episodes) if one.length < horizon and not one.terminated)


def checked_episode(
    place: str, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: Any, costs: Any, terminated: bool
) -> LoggedEpisode:
    """An episode whose parts fit together; `place` is for the message if they do not."""
    n = actions.size
    if n == 0 or states.size != n + 1:
        raise InvalidInput(
            f"{place} has {states.size} states and {n} actions; it needs at least one action and one state more"
        )
    columns: list[Floats | None] = []
    for name, column in (("rewards", rewards), ("costs", costs)):
        values = None if column is None else finite_floats(f"{place}, {name}", column).reshape(-1)
        if values is not None and values.size != n:
            raise InvalidInput(f"{place} has {values.size} {name} for {n} steps; give one per step")
        columns.append(None if values is None else frozen(values))
    return LoggedEpisode(frozen(states), frozen(actions), columns[0], columns[1], terminated)
