"""Recorded episodes as numbers laid end to end: 4 bytes for each state and action, where Python objects take 8 to 36."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_KEYS = {"states", "actions", "left_model", "id"}
_NUMBER = "I"  # uint32, as everywhere
_PLACE = "q"


class PackedEpisodes(Sequence[Any]):
    """A read-only list of episode objects; each is made anew when it is asked for."""

    __slots__ = ("_action_ends", "_actions", "_ids", "_left", "_state_ends", "_states")

    def __init__(self) -> None:
        self._states, self._actions = array(_NUMBER), array(_NUMBER)
        self._state_ends, self._action_ends = array(_PLACE, [0]), array(_PLACE, [0])
        self._left: set[int] = set()  # places of those that left the model
        self._ids: dict[int, str] = {}  # by place

    @classmethod
    def of(cls, episodes: Iterable[Any]) -> PackedEpisodes:
        """Pack episode objects, such as `Seen.to_json` gives.

        Raises:
            TypeError: an object has other keys, or something else than whole numbers.
            OverflowError: a number is not from 0 to 2^32 - 1.
        """
        made = cls()
        for episode in episodes:
            made._add(episode)
        return made

    def _add(self, episode: Any) -> None:
        if not isinstance(episode, dict) or not {"states", "actions"} <= episode.keys() <= _KEYS:
            raise TypeError("an episode object has states and actions, and may have left_model and id")
        place, left, id = len(self), episode.get("left_model", False), episode.get("id")
        if not isinstance(left, bool) or not isinstance(id, str | None):
            raise TypeError("left_model is true or false, and id a text")
        self._states.extend(array(_NUMBER, episode["states"]))
        self._actions.extend(array(_NUMBER, episode["actions"]))
        self._state_ends.append(len(self._states))
        self._action_ends.append(len(self._actions))
        if left:
            self._left.add(place)
        if id is not None:
            self._ids[place] = id

    def __repr__(self) -> str:
        return f"PackedEpisodes.of({list(self)!r})"

    def __len__(self) -> int:
        return len(self._state_ends) - 1

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i = range(len(self))[place]
        found: dict[str, Any] = {
            "states": self._states[self._state_ends[i] : self._state_ends[i + 1]].tolist(),
            "actions": self._actions[self._action_ends[i] : self._action_ends[i + 1]].tolist(),
        }
        if i in self._left:
            found["left_model"] = True
        if i in self._ids:
            found["id"] = self._ids[i]
        return found

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def where(self, wanted: Sequence[bool]) -> PackedEpisodes:
        """Those whose entry in `wanted` [n] is true; itself where all are."""
        return self if all(wanted) else PackedEpisodes.of(compress(self, wanted))

    @property
    def ids(self) -> Sequence[str]:
        """Of the episodes that have one."""
        return list(self._ids.values())

    @property
    def first_states(self) -> NDArray[np.uint32]:
        """[n] where each began; 0 for one without a state."""
        numbers = np.frombuffer(self._states, dtype=np.uint32) if self._states else np.zeros(0, dtype=np.uint32)
        begins, ends = (np.array(self._state_ends)[place] for place in (slice(None, -1), slice(1, None)))
        found = np.zeros(len(self), dtype=np.uint32)
        found[ends > begins] = numbers[begins[ends > begins]]
        return found

    @property
    def left_model(self) -> NDArray[np.bool_]:
        """[n] whether each says that it left the model."""
        found = np.zeros(len(self), dtype=np.bool_)
        found[list(self._left)] = True
        return found

    def laid_out(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """(states, actions, how many actions each has [n]), without a copy of the numbers."""
        states, actions = (np.frombuffer(one or b"", dtype=np.uint32) for one in (self._states, self._actions))
        return states, actions, np.diff(np.array(self._action_ends))


def packed(episodes: list[Any]) -> Sequence[Any]:
    """The same episodes in less memory; as they are where a record that was changed holds something else."""
    try:
        return PackedEpisodes.of(episodes)
    except (TypeError, OverflowError):
        return episodes
