"""Logged episodes in one form: numbered states and actions, and whether the environment ended the episode.

Read are lists of (states, actions, terminated), of `LoggedEpisode` where there are rewards or costs, and of `Trajectory`;
and Minari datasets (an object, or an id). Observations that are not state numbers need a discretiser.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from safe2real.errors import InvalidInput, needed_for
from safe2real.model.environment_seeds import refuse_repeated
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import Floats, check_function, finite_floats, frozen, positive_integer, shown, whole_numbers
from safe2real.systems.discretise import Discretised

READABLE = "a list of (states, actions, terminated), or a Minari dataset or its id (like D4RL/door/human-v2)"
_MINARI_ID = re.compile(r"([\w:.-]+/)*[\w:.-]+-v\d+")


def _load_minari(dataset_id: str) -> Any:
    """Load the dataset of that id, as Minari keeps it on this machine."""
    if not _MINARI_ID.fullmatch(dataset_id):
        raise InvalidInput(f"{dataset_id!r} is not the id of a dataset; give {READABLE}")
    with needed_for("Minari datasets", "minari"):
        import h5py  # noqa: F401 (how Minari keeps a dataset; it does not say when it is missing)
        import minari
    try:
        return minari.load_dataset(dataset_id)
    except (FileNotFoundError, ValueError) as error:
        raise InvalidInput(
            f"there is no Minari dataset {dataset_id!r} here ({error}); get it with: minari download {dataset_id}, or set "
            "MINARI_DATASETS_PATH to where it is"
        ) from error


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
        """Return whether the environment ended the episode with a step.

        Args:
            step: counted from 0.

        Returns:
            True for the last step of a terminated episode.
        """
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

    def too_short(self, horizon: int) -> tuple[int, ...]:
        """Return the episodes that stop before the horizon although the environment did not end them.

        Args:
            horizon: steps of a whole episode.

        Returns:
            Their places in `episodes`.
        """
        return tuple(i for i, one in enumerate(self.episodes) if one.length < horizon and not one.terminated)


def _checked_episode(
    place: str, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: Any, costs: Any, terminated: Any
) -> LoggedEpisode:
    """Make an episode whose parts fit together; `place` is for the message if they do not."""
    n = actions.size
    if n == 0 or states.size != n + 1:
        raise InvalidInput(
            f"{place} has {states.size} states and {n} actions; it needs at least one action and one state more"
        )
    columns: list[Floats | None] = []
    for name, column in (("rewards", rewards), ("costs", costs)):
        values = None
        if column is not None:
            values = finite_floats(f"{place}, {name}", _array_of(f"{place}, {name}", column)).reshape(-1)
        if values is not None and values.size != n:
            raise InvalidInput(f"{place} has {values.size} {name} for {n} steps; give one per step")
        columns.append(None if values is None else frozen(values))
    return LoggedEpisode(frozen(states), frozen(actions), columns[0], columns[1], truth(f"{place}, terminated", terminated))


def _array_of(name: str, values: Any) -> NDArray[Any]:
    """Return an array of one entry per step; gaps are named before numpy makes NaN of them."""
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


def _whole_entries(name: str, values: Any, first: int, cure: str) -> NDArray[np.int64]:
    """Read what are numbers already: whole, one per step, counted from `first`; the result is counted from 0."""
    array = _array_of(name, values)
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


def _numbered(name: str, values: Any, number: Numbering) -> NDArray[np.int64]:
    """Number values by a function of the user's."""
    return whole_numbers(name, [number(value) for value in values], below=_LARGEST, what="states and actions")


def truth(place: str, value: Any) -> bool:
    """Return a flag as a bool; `place` is for the message if it is none."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise InvalidInput(f"{place} is {shown(value)}; give True where the environment ended the episode, else False")


_COSTS = ("cost", "costs")  # what Minari's infos call it


@dataclass(frozen=True, slots=True)
class _Reader:
    """How observations and actions become numbers; without a function they are numbers that count from the first."""

    state_of: Numbering | None
    action_of: Numbering | None
    first_state: int = 0
    first_action: int = 0

    def states(self, name: str, observations: Any) -> NDArray[np.int64]:
        if self.state_of is not None:
            return _numbered(name, observations, self.state_of)
        cure = "Discretised(env, bins=...) or a function observation -> state: discretiser="
        return _whole_entries(name, observations, self.first_state, cure)

    def episode(self, place: str, name: str, observations: Any, actions: Any, *others: Any) -> LoggedEpisode:
        """`others` are rewards, costs and whether it terminated."""
        states = self.states(f"{place}, {name}", observations)
        return _checked_episode(place, states, self.actions(f"{place}, actions", actions), *others)

    def actions(self, name: str, actions: Any) -> NDArray[np.int64]:
        if self.action_of is not None:
            return _numbered(name, actions, self.action_of)
        cure = "Discretised(env, bins=..., action_bins=...), or a function action -> number: action_of="
        return _whole_entries(name, actions, self.first_action, cure)


def read_episodes(
    source: Any,
    *,
    discretiser: Discretised | Numbering | None = None,
    action_of: Numbering | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
) -> EpisodeLog:
    """Read logged episodes into the environment's numbers, which count from 0.

    Args:
        source: a Minari dataset or its id; a log, as it is; or a
            sequence of episodes, each one (states [n + 1], actions [n], terminated), `LoggedEpisode`, (states, actions) or
            `Trajectory`. The last two count as NOT terminated: say which episodes the environment ended, or the model will
            not know that it can.
        discretiser: turns an observation into a state: a `Discretised` environment (which also finds the nearest
            representative action) or any function.
        action_of: does it for actions. Discrete spaces of a Minari dataset that start elsewhere are counted from 0.
        num_states: where the log may have missed the last ones; what neither the dataset nor the discretiser tells is one
            more than the largest number seen.
        num_actions: likewise.

    Returns:
        The episodes, checked, and the sizes of their system.

    Raises:
        InvalidInput: where the source cannot be read, or an episode does not fit together; names the episode.
        Conflict: two trajectories had the same environment seed.

    Example:
        >>> read_episodes([([0, 1, 2], [1, 0], True)]).episodes[0].terminated
        True
    """
    for name, function, argument in (("discretiser", discretiser, "observation"), ("action_of", action_of, "action")):
        if function is not None and not isinstance(function, Discretised):
            check_function(name, function, argument)
    if isinstance(source, EpisodeLog):
        if num_states in (None, source.num_states) and num_actions in (None, source.num_actions):
            _refuse_functions("the log", discretiser, action_of)
            return source
        source = source.episodes
    state_of: Numbering | None = discretiser.state_of if isinstance(discretiser, Discretised) else discretiser
    sizes: list[int | None] = [None, None]
    if isinstance(discretiser, Discretised):
        sizes[0] = discretiser.num_states
        if action_of is None:
            action_of, sizes[1] = discretiser.nearest_action, discretiser.num_actions
    reader = _Reader(state_of, action_of)
    if isinstance(source, (str, os.PathLike)):
        source = _load_minari(os.fspath(source))
    if hasattr(source, "iterate_episodes"):
        # What the spaces say, where they are discrete and nothing else numbers them.
        spaces: list[Any] = [getattr(source, name, None) for name in ("observation_space", "action_space")]
        firsts = [0, 0]
        for i, (space, number) in enumerate(zip(spaces, (state_of, action_of), strict=True)):
            if isinstance(space, Discrete) and number is None:
                sizes[i], firsts[i] = int(space.n), int(space.start)
        episodes = _minari(source, _Reader(state_of, action_of, *firsts))
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        given = list(source)
        refuse_repeated(one.seed for one in given if isinstance(one, Trajectory))
        episodes = _listed(given, reader)
    else:
        raise InvalidInput(f"the dataset is a {type(source).__name__}; give {READABLE}")
    found = tuple(episodes)
    if not found:
        raise InvalidInput("the dataset has no episode; nothing can be learnt from it")
    return EpisodeLog(
        found,
        _size("states", num_states, sizes[0], (episode.states for episode in found)),
        _size("actions", num_actions, sizes[1], (episode.actions for episode in found)),
    )


def _refuse_functions(what: str, *functions: Any) -> None:
    if any(function is not None for function in functions):
        raise InvalidInput(f"{what} is in the environment's numbers already; leave discretiser and action_of out")


def _minari(dataset: Any, reader: _Reader) -> Iterator[LoggedEpisode]:
    for i, episode in enumerate(dataset.iterate_episodes()):
        infos = episode.infos if isinstance(episode.infos, Mapping) else {}
        costs = next((infos[key] for key in _COSTS if key in infos), None)
        n = len(episode.rewards)
        if costs is not None and len(costs) == n + 1:
            costs = costs[1:]  # Minari keeps what reset said too
        observations, actions = _unstacked(episode.observations, n + 1), _unstacked(episode.actions, n)
        others = (episode.rewards, costs, bool(np.any(episode.terminations)))
        yield reader.episode(f"episode {i}", "observations", observations, actions, *others)


def _unstacked(values: Any, count: int) -> Any:
    """Dict and Tuple spaces are stacked part by part in Minari; here one entry per step."""

    def at(part: Any, i: int) -> Any:
        if isinstance(part, Mapping):
            return {key: at(inner, i) for key, inner in part.items()}
        return tuple(at(inner, i) for inner in part) if isinstance(part, tuple) else part[i]

    return [at(values, i) for i in range(count)] if isinstance(values, (Mapping, tuple)) else values


def _listed(source: Iterable[Any], reader: _Reader) -> Iterator[LoggedEpisode]:
    for i, entry in enumerate(source):
        place, rewards, costs, terminated = f"episode {i}", None, None, False
        if isinstance(entry, LoggedEpisode):
            _refuse_functions(place, reader.state_of, reader.action_of)
            states, actions = entry.states, entry.actions
            rewards, costs, terminated = entry.rewards, entry.costs, entry.terminated
        elif hasattr(entry, "states") and hasattr(entry, "actions"):
            states, actions = entry.states, entry.actions
        elif isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) in (2, 3):
            states, actions, terminated = entry if len(entry) == 3 else (*entry, False)
        else:
            raise InvalidInput(f"{place} is {shown(entry)}; give (states, actions, terminated), or (states, actions)")
        yield reader.episode(place, "states", states, actions, rewards, costs, terminated)


def _size(what: str, given: int | None, told: int | None, seen: Iterable[NDArray[np.int64]]) -> int:
    largest = max(int(numbers.max()) for numbers in seen)
    size = told if given is None else positive_integer(f"num_{what}", given)
    if size is not None and largest >= size:
        raise InvalidInput(
            f"the dataset has {what[:-1]} {largest}, but there are {size} {what}; they run from 0 to {size - 1}"
        )
    return largest + 1 if size is None else size
