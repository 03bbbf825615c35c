"""Logged episodes in one form: numbered states and actions, and whether the environment ended the episode.

Read are lists of (states, actions, terminated), of `LoggedEpisode` where there are rewards or costs, and of `Trajectory`;
and Minari datasets (an object, or an id). Observations that are not state numbers need a discretiser.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
"""observation -> state"""
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


def _checked_episode(
    place: str, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: Any, costs: Any, terminated: Any
) -> LoggedEpisode:
    """Make an episode whose parts fit together; `place` is for the message if they do not."""
    n = actions.size
    if n == 0 or states.size != n + 1:
        raise InvalidInput(
            f"{place} has {states.size} states and {n} actions; it needs at least one action and one state more"
        )
    return LoggedEpisode(
        frozen(states),
        frozen(actions),
        rewards=_per_step(f"{place}, rewards", rewards, n),
        costs=_per_step(f"{place}, costs", costs, n),
        terminated=truth(f"{place}, terminated", terminated),
    )


def _per_step(name: str, values: Any, steps: int) -> Floats | None:
    """One finite number for each step [n]; None where nothing was recorded."""
    if values is None:
        return None
    column = finite_floats(name, _array_of(name, values)).reshape(-1)
    if column.size != steps:
        raise InvalidInput(f"{name} has {column.size} entries for {steps} steps; give one per step")
    return frozen(column)


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


def truth(place: str, value: Any) -> bool:
    """Return a flag as a bool; a value that is no flag is refused with its `place`."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise InvalidInput(f"{place} is {shown(value)}; give True where the environment ended the episode, else False")


_COSTS = ("cost", "costs")  # what Minari's infos call it
_NO_STATES = "Discretised(env, bins=...) or a function observation -> state: discretiser="
_NO_ACTIONS = "numbers, or a Discretised(env, bins=..., action_bins=...) as discretiser="


@dataclass(frozen=True, slots=True)
class _Numbers:
    """How observations or actions become numbers: by a function, or they are numbers already."""

    cure: str  # where a function is needed
    number: Numbering | None = None
    size: int | None = None  # how many there are, if known
    first: int = 0  # from which numbers count

    def of_space(self, space: Any) -> _Numbers:
        """Return the numbering with size and start of a Discrete space, if no function makes the numbers."""
        if self.number is not None or not isinstance(space, Discrete):
            return self
        return replace(self, size=int(space.n), first=int(space.start))

    def read(self, name: str, values: Any) -> NDArray[np.int64]:
        if self.number is None:
            return _whole_entries(name, values, self.first, self.cure)
        return whole_numbers(name, [self.number(value) for value in values], below=_LARGEST, what="states and actions")


def read_episodes(
    source: Any,
    *,
    discretiser: Discretised | Numbering | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
) -> EpisodeLog:
    """Read logged episodes into the environment's numbers, which count from 0.

    Args:
        source: a Minari dataset or its id; an `EpisodeLog`; or a sequence of episodes, each one (states [n + 1],
            actions [n], terminated), `LoggedEpisode`, (states, actions) or `Trajectory`. The last two count as NOT
            terminated: say which episodes the environment ended, or the model will not know that it can.
        discretiser: turns an observation into a state: any function, or a `Discretised` environment, which also finds the
            nearest representative action. Discrete spaces of a Minari dataset that start elsewhere are counted from 0.
        num_states: where the log may have missed the last ones; if neither the dataset nor the discretiser has the number,
            it is one more than the largest state seen.
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
    states, actions = _Numbers(_NO_STATES), _Numbers(_NO_ACTIONS)
    if isinstance(discretiser, Discretised):
        states = replace(states, number=discretiser.state_of, size=discretiser.num_states)
        actions = replace(actions, number=discretiser.nearest_action, size=discretiser.num_actions)
    elif discretiser is not None:
        check_function("discretiser", discretiser, "observation")
        states = replace(states, number=discretiser)
    if isinstance(source, EpisodeLog):
        if num_states in (None, source.num_states) and num_actions in (None, source.num_actions):
            _refuse_discretiser("the log", states)
            return source
        source = source.episodes
    if isinstance(source, (str, os.PathLike)):
        source = _load_minari(os.fspath(source))
    if hasattr(source, "iterate_episodes"):
        states = states.of_space(getattr(source, "observation_space", None))
        actions = actions.of_space(getattr(source, "action_space", None))
        episodes = _minari(source, states, actions)
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        given = list(source)
        refuse_repeated(one.seed for one in given if isinstance(one, Trajectory))
        episodes = _listed(given, states, actions)
    else:
        raise InvalidInput(f"the dataset is a {type(source).__name__}; give {READABLE}")
    found = tuple(episodes)
    if not found:
        raise InvalidInput("the dataset has no episode; nothing can be learnt from it")
    return EpisodeLog(
        found,
        _size("states", num_states, states.size, (episode.states for episode in found)),
        _size("actions", num_actions, actions.size, (episode.actions for episode in found)),
    )


def _refuse_discretiser(what: str, states: _Numbers) -> None:
    if states.number is not None:
        raise InvalidInput(f"{what} is in the environment's numbers already; leave discretiser out")


def _minari(dataset: Any, states: _Numbers, actions: _Numbers) -> Iterator[LoggedEpisode]:
    for i, episode in enumerate(dataset.iterate_episodes()):
        place, n = f"episode {i}", len(episode.rewards)
        infos = episode.infos if isinstance(episode.infos, Mapping) else {}
        costs = next((infos[key] for key in _COSTS if key in infos), None)
        if costs is not None and len(costs) == n + 1:
            costs = costs[1:]  # Minari keeps what reset said too
        seen = states.read(f"{place}, observations", _unstacked(episode.observations, n + 1))
        done = actions.read(f"{place}, actions", _unstacked(episode.actions, n))
        yield _checked_episode(place, seen, done, episode.rewards, costs, bool(np.any(episode.terminations)))


def _unstacked(values: Any, count: int) -> Any:
    """Dict and Tuple spaces are stacked part by part in Minari; here one entry per step."""

    def at(part: Any, i: int) -> Any:
        if isinstance(part, Mapping):
            return {key: at(inner, i) for key, inner in part.items()}
        return tuple(at(inner, i) for inner in part) if isinstance(part, tuple) else part[i]

    return [at(values, i) for i in range(count)] if isinstance(values, (Mapping, tuple)) else values


def _listed(source: Iterable[Any], states: _Numbers, actions: _Numbers) -> Iterator[LoggedEpisode]:
    for i, entry in enumerate(source):
        place, rewards, costs, terminated = f"episode {i}", None, None, False
        if isinstance(entry, LoggedEpisode):
            _refuse_discretiser(place, states)
            rewards, costs, terminated = entry.rewards, entry.costs, entry.terminated
        if hasattr(entry, "states") and hasattr(entry, "actions"):
            seen, done = entry.states, entry.actions
        elif isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) in (2, 3):
            seen, done, terminated = entry if len(entry) == 3 else (*entry, False)
        else:
            raise InvalidInput(f"{place} is {shown(entry)}; give (states, actions, terminated), or (states, actions)")
        seen, done = states.read(f"{place}, states", seen), actions.read(f"{place}, actions", done)
        yield _checked_episode(place, seen, done, rewards, costs, terminated)


def _size(what: str, given: int | None, told: int | None, seen: Iterable[NDArray[np.int64]]) -> int:
    largest = max(int(numbers.max()) for numbers in seen)
    size = told if given is None else positive_integer(f"num_{what}", given)
    if size is not None and largest >= size:
        raise InvalidInput(
            f"the dataset has {what[:-1]} {largest}, but there are {size} {what}; they run from 0 to {size - 1}"
        )
    return largest + 1 if size is None else size
