"""What is counted into a learner, in order; kept, packed, where what the learner knows cannot be kept itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from safe2real.exploration.episode_log import Entry, entry_of, play
from safe2real.exploration.learner import Learner

_LOOSE = 256  # entries before they are joined: a worker counts one episode at a time


class Tape:
    """Counts into a learner, and keeps what was counted if it `keeps` anything."""

    def __init__(self, entries: Sequence[Entry] = (), *, keeps: bool = True) -> None:
        self._entries, self.keeps = list(entries), keeps
        self._joined = len(self._entries)

    def count(self, learner: Learner, entry: Entry) -> None:
        play(learner, entry)
        if not self.keeps:
            return
        self._entries.append(entry)
        if len(self._entries) - self._joined > _LOOSE:
            self._join()

    def play(self, learner: Learner) -> None:
        """Count all of it into a new learner."""
        for entry in self._entries:
            play(learner, entry)

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
        self._entries = [*joined, *_as_one(run)]
        self._joined = len(self._entries)


def _as_one(run: list[Entry]) -> list[Entry]:
    if len(run) < 2:
        return run
    lengths = np.concatenate([[0], *(np.diff(entry.ends) for entry in run if entry.ends is not None)])
    kept = ([getattr(entry, name) for entry in run] for name in ("states", "actions", "of_baseline", "of_candidate"))
    states, actions, of_baseline, of_candidate = map(np.concatenate, kept)
    return [entry_of(states, actions, np.cumsum(lengths, dtype=np.int64), of_baseline, of_candidate)]
