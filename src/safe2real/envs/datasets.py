"""Logged episodes, from the layouts that are in use, in one simple form: numbered states and actions.

Read are Minari datasets (an object, or an id), the flat layout of OSRL and DSRL (a mapping of arrays, or an .hdf5, .h5 or
.npz file with observations, next_observations, actions, rewards, costs, terminals, timeouts), and plain (states, actions)
pairs. Observations that are not state numbers need a discretiser.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.envs.discretise import Discretised
from safe2real.envs.episodes import EpisodeLog, LoggedEpisode, checked_episode
from safe2real.errors import InvalidInput
from safe2real.model.checks import positive_integer, shown, whole_numbers

_REQUIRED = ("observations", "next_observations", "actions", "terminals", "timeouts")
_FLAT = (*_REQUIRED, "rewards", "costs")
_COSTS = ("cost", "costs")  # what Minari's infos call it
_LARGEST = 2**31  # a state number beyond this is no state number
_NO_PACKAGE = (
    "reading {what} needs the package {package}, which is not installed; get it with: pip install 'safe2real[minari]'"
)

Numbering = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class _Reader:
    """How observations and actions become numbers."""

    discretiser: Discretised | Numbering | None
    action_of: Numbering | None

    def states(self, name: str, observations: Any) -> NDArray[np.int64]:
        if self.discretiser is None:
            return _numbers(
                name, observations, "Discretised(env, bins=...) or a function observation -> state: discretiser="
            )
        number = self.discretiser.state_of if isinstance(self.discretiser, Discretised) else self.discretiser
        return _numbered(name, observations, number)

    def actions(self, name: str, actions: Any) -> NDArray[np.int64]:
        if self.action_of is not None:
            return _numbered(name, actions, self.action_of)
        if isinstance(self.discretiser, Discretised):
            return _numbered(name, actions, self.discretiser.nearest_action)
        return _numbers(
            name, actions, "Discretised(env, bins=..., action_bins=...), or a function action -> number: action_of="
        )


def read_episodes(
    source: Any,
    *,
    discretiser: Discretised | Numbering | None = None,
    action_of: Numbering | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
) -> EpisodeLog:
    """Logged episodes in the environment's numbers.

    `source` is a Minari dataset or its id; a mapping or a file with the arrays of OSRL and DSRL; a sequence of pairs
    (states [n + 1], actions [n]), of `LoggedEpisode` or of `Trajectory`; or a log, which is returned. `discretiser` turns an
    observation into a state: a `Discretised` environment (which also finds the nearest representative action) or any
    function; `action_of` does it for actions. Sizes that neither the dataset nor the discretiser tells are one more than
    the largest number seen, so give `num_states` and `num_actions` where the log may have missed the last ones.
    """
    if isinstance(source, EpisodeLog):
        sizes_given = num_states in (None, source.num_states) and num_actions in (None, source.num_actions)
        return source if sizes_given else read_episodes(source.episodes, num_states=num_states, num_actions=num_actions)
    reader = _Reader(discretiser, action_of)
    sizes: tuple[int | None, int | None] = (None, None)
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix in (".hdf5", ".h5", ".npz"):
        episodes = _flat(_arrays_of(Path(source)), reader)
    elif isinstance(source, str):
        dataset = _load_minari(source)
        episodes, sizes = _minari(dataset, reader), _minari_sizes(dataset)
    elif hasattr(source, "iterate_episodes"):
        episodes, sizes = _minari(source, reader), _minari_sizes(source)
    elif isinstance(source, Mapping):
        episodes = _flat(source, reader)
    elif isinstance(source, Iterable):
        episodes = _pairs(source, reader)
    else:
        raise InvalidInput(
            f"the dataset is a {type(source).__name__}; give a Minari dataset or its id, a mapping or a file of OSRL's "
            "arrays, or a list of (states, actions) pairs"
        )
    found = tuple(episodes)
    if not found:
        raise InvalidInput("the dataset has no episode; nothing can be learnt from it")
    if isinstance(discretiser, Discretised):
        sizes = (discretiser.num_states, discretiser.num_actions if action_of is None else None)
    return EpisodeLog(
        found,
        _size("states", num_states, sizes[0], (episode.states for episode in found)),
        _size("actions", num_actions, sizes[1], (episode.actions for episode in found)),
    )


# --------------------------------------------------------------------------------------------------- the layouts


def _minari(dataset: Any, reader: _Reader) -> Iterator[LoggedEpisode]:
    for i, episode in enumerate(dataset.iterate_episodes()):
        infos = episode.infos if isinstance(episode.infos, Mapping) else {}
        costs = next((infos[key] for key in _COSTS if key in infos), None)
        n = len(episode.rewards)
        if costs is not None and len(costs) == n + 1:
            costs = costs[1:]  # Minari keeps what reset said too
        yield checked_episode(
            f"episode {i}",
            reader.states(f"episode {i}, observations", _unstacked(episode.observations, n + 1)),
            reader.actions(f"episode {i}, actions", _unstacked(episode.actions, n)),
            episode.rewards,
            costs,
            bool(np.any(episode.terminations)),
        )


def _unstacked(values: Any, count: int) -> Any:
    """Dict and Tuple spaces are stacked part by part in Minari; here one entry per step."""

    def at(part: Any, i: int) -> Any:
        if isinstance(part, Mapping):
            return {key: at(inner, i) for key, inner in part.items()}
        return tuple(at(inner, i) for inner in part) if isinstance(part, tuple) else part[i]

    return [at(values, i) for i in range(count)] if isinstance(values, (Mapping, tuple)) else values


def _flat(arrays: Mapping[str, Any], reader: _Reader) -> Iterator[LoggedEpisode]:
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        have = ", ".join(sorted(map(str, arrays))[:10])
        raise InvalidInput(
            f"the dataset has no {' and no '.join(missing)} (it has {have}); the layout of OSRL and DSRL has flat arrays "
            f"{', '.join(_FLAT)}. A Minari dataset is given by its id"
        )
    columns = {key: np.asarray(arrays[key]) for key in _FLAT if key in arrays}
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidInput(f"the arrays have different lengths {lengths}; every one has an entry for every step")
    terminals, timeouts = (columns[key].reshape(-1).astype(np.bool_) for key in ("terminals", "timeouts"))
    ends = np.flatnonzero(terminals | timeouts) + 1
    total = lengths["observations"]
    if not ends.size or ends[-1] < total:
        ends = np.append(ends, total)  # an episode that was being recorded when the log was closed
    first = 0
    for i, end in enumerate(ends.tolist()):
        span = slice(first, end)
        states = reader.states(f"episode {i}, observations", columns["observations"][span])
        last = reader.states(f"episode {i}, next_observations", columns["next_observations"][end - 1 : end])
        _check_order(columns, first, end, states, reader)
        yield checked_episode(
            f"episode {i}",
            np.concatenate([states, last]),
            reader.actions(f"episode {i}, actions", columns["actions"][span]),
            columns["rewards"][span] if "rewards" in columns else None,
            columns["costs"][span] if "costs" in columns else None,
            bool(terminals[end - 1]),
        )
        first = end


def _check_order(
    columns: Mapping[str, NDArray[Any]], first: int, end: int, states: NDArray[np.int64], reader: _Reader
) -> None:
    """Every step of an episode must begin where the one before it ended, or the transitions are not in the order of time."""
    after, before = columns["next_observations"][first : end - 1], columns["observations"][first + 1 : end]
    differ = np.flatnonzero((after != before).reshape(len(after), -1).any(axis=1))
    if not differ.size:
        return
    reached = reader.states("next_observations", after[differ])
    wrong = np.flatnonzero(reached != states[differ + 1])
    if wrong.size:
        i = int(differ[wrong[0]])
        raise InvalidInput(
            f"next_observations[{first + i}] is state {reached[wrong[0]]} but observations[{first + i + 1}], the next step "
            f"of the same episode, is state {states[i + 1]}; keep the steps in the order of time and set timeouts where an "
            "episode was cut off"
        )


def _pairs(source: Iterable[Any], reader: _Reader) -> Iterator[LoggedEpisode]:
    for i, entry in enumerate(source):
        if isinstance(entry, LoggedEpisode):
            yield entry
            continue
        if hasattr(entry, "states") and hasattr(entry, "actions"):
            entry = (entry.states, entry.actions)
        if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 2:
            raise InvalidInput(f"episode {i} is {shown(entry)}; give a pair (states, actions)")
        states, actions = entry
        yield checked_episode(
            f"episode {i}",
            reader.states(f"episode {i}, states", states),
            reader.actions(f"episode {i}, actions", actions),
            None,
            None,
            False,
        )


# ------------------------------------------------------------------------------------------------ numbers, files, sizes


def _numbers(name: str, values: Any, cure: str) -> NDArray[np.int64]:
    """What is meant to be numbers already: whole, one per step."""
    array = np.asarray(values)
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    whole = flat.dtype.kind in "iu" or (flat.dtype.kind == "f" and bool((flat == np.floor(flat)).all()))
    if flat.ndim != 1 or not whole:
        raise InvalidInput(
            f"{name} have shape {array.shape} and type {array.dtype}: they are not whole numbers, so a discretiser is "
            f"needed; give {cure}"
        )
    return whole_numbers(name, flat, below=_LARGEST, what="states and actions")


def _numbered(name: str, values: Any, number: Numbering) -> NDArray[np.int64]:
    return whole_numbers(name, [number(value) for value in values], below=_LARGEST, what="states and actions")


def _arrays_of(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}; give the path of a dataset")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        try:
            import h5py
        except ImportError as error:
            raise InvalidInput(_NO_PACKAGE.format(what=path.name, package="h5py")) from error
        with h5py.File(path, "r") as stored:
            return {key: stored[key][()] for key in stored if isinstance(stored[key], h5py.Dataset)}
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} cannot be read as a dataset ({error}); give an .hdf5 or .npz file of arrays") from error


def _load_minari(dataset_id: str) -> Any:
    try:
        import h5py  # noqa: F401 (how Minari keeps a dataset; it does not say when it is missing)
        import minari
    except ImportError as error:
        raise InvalidInput(_NO_PACKAGE.format(what=f"the Minari dataset {dataset_id}", package="minari")) from error
    try:
        return minari.load_dataset(dataset_id)
    except (FileNotFoundError, ValueError) as error:
        raise InvalidInput(
            f"there is no Minari dataset {dataset_id!r} here ({error}); get it with: minari download {dataset_id}, or set "
            "MINARI_DATASETS_PATH to where it is"
        ) from error


def _minari_sizes(dataset: Any) -> tuple[int | None, int | None]:
    """What the spaces of the dataset say, where they are discrete and count from 0."""
    spaces: list[Any] = [getattr(dataset, name, None) for name in ("observation_space", "action_space")]
    first, second = (int(one.n) if hasattr(one, "n") and int(getattr(one, "start", 0)) == 0 else None for one in spaces)
    return first, second


def _size(what: str, given: int | None, told: int | None, seen: Iterable[NDArray[np.int64]]) -> int:
    largest = max(int(numbers.max()) for numbers in seen)
    size = told if given is None else positive_integer(f"num_{what}", given)
    if size is not None and largest >= size:
        raise InvalidInput(
            f"the dataset has {what[:-1]} {largest}, but there are {size} {what}; they run from 0 to {size - 1}"
        )
    return largest + 1 if size is None else size
