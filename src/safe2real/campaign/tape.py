"""Everything that was counted into a learner, in order, packed: what it knows is a function of this alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.exploration.learner import Learner
from safe2real.model.checks import frozen

_LOOSE = 256  # entries before they are joined: a worker counts one episode at a time


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of `Learner.count`; or of `Learner.leave_model`, with one episode and no ends."""

    states: NDArray[np.uint32]
    actions: NDArray[np.uint32]
    ends: NDArray[np.int64] | None
    of_baseline: NDArray[np.bool_]
    at_once: bool  # a log: counted as a whole, so never joined with others


class Tape:
    """Counts into a learner, and keeps what was counted."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries = list(entries)
        self._joined = len(self._entries)

    def count(self, learner: Learner, entry: Entry) -> None:
        _play(learner, entry)
        self._entries.append(entry)
        if len(self._entries) - self._joined > _LOOSE:
            self._join()

    def play(self, learner: Learner) -> None:
        """Count all of it into a new learner."""
        for entry in self._entries:
            _play(learner, entry)

    def entries(self) -> list[Entry]:
        self._join()
        return list(self._entries)

    def _join(self) -> None:
        """Episodes that follow each other count the same in one call as in many."""
        joined: list[Entry] = []
        run: list[Entry] = []
        for entry in self._entries:
            if entry.ends is not None and not entry.at_once:
                run.append(entry)
                continue
            joined += [*_as_one(run), entry]
            run = []
        self._entries = joined + _as_one(run)
        self._joined = len(self._entries)


def _as_one(run: list[Entry]) -> list[Entry]:
    if len(run) < 2:
        return run
    lengths = np.concatenate([[0], *(np.diff(entry.ends) for entry in run if entry.ends is not None)])
    kept = ([getattr(entry, name) for entry in run] for name in ("states", "actions", "of_baseline"))
    states, actions, of_baseline = map(np.concatenate, kept)
    return [Entry(states, actions, np.cumsum(lengths, dtype=np.int64), of_baseline, False)]


def _play(learner: Learner, entry: Entry) -> None:
    if entry.ends is None:
        learner.leave_model(entry.states.tolist(), entry.actions.tolist(), of_baseline=bool(entry.of_baseline[0]))
        return
    learner.count(
        frozen(entry.states), frozen(entry.actions), entry.ends, of_baseline=entry.of_baseline, at_once=entry.at_once
    )


def entry_of(states: Any, actions: Any, ends: Any, of_baseline: Any, *, at_once: bool = False) -> Entry:
    """Numbers that were checked to be in range; `ends` is None for an episode that left the model."""
    return Entry(
        np.asarray(states, dtype=np.uint32),
        np.asarray(actions, dtype=np.uint32),
        None if ends is None else np.asarray(ends, dtype=np.int64),
        np.atleast_1d(np.asarray(of_baseline, dtype=np.bool_)),
        at_once,
    )
