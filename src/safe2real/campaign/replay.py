"""The state of a campaign, computed from its events alone.

Episodes are counted in the order in which their policies were handed out, not in the order in which they were told. An
episode that is still out holds back the ones handed out after it: they are recorded, and they are counted as soon as it is
told or abandoned. So it does not matter for the guarantee whether a bad episode takes longer to be reported than a good
one: for every row the counted successors are always the first n of one sequence of independent draws, which is what the
confidence radius is about (docs/campaigns.md). Counting in the order of arrival would let the outcome choose what is
counted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np

from safe2real.campaign.encoding import from_text
from safe2real.campaign.events import ABANDON, ASK, BEFORE_THE_FIRST, CREATE, IMPORT, TELL, Event
from safe2real.campaign.specification import Specification
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.explore.learner import Learner
from safe2real.model.checks import frozen


@dataclass(frozen=True, slots=True)
class Held:
    """A deployment that was handed out and not yet told."""

    number: int
    worker: str
    at: str
    event: Event


class Replay:
    """Applies events in order; `learner` is the model they lead to."""

    def __init__(self, specification: Specification) -> None:
        self._learner = specification.learner(trust_margin=True)
        self.sequence = 0
        self.digest = BEFORE_THE_FIRST
        self.deployments = 0  # handed out so far
        self.held: dict[int, Held] = {}  # by number, oldest first
        self.told = 0
        self.cut_short = 0
        self.abandoned: set[int] = set()  # and not told since
        self.told_late = 0
        self.imported = 0
        self.samples = 0  # recorded, counted or not
        self._next_to_count = 1
        self._waiting: dict[int, Any] = {}  # number -> episode, or None when abandoned
        self._ready: list[Any] = []  # episodes to count, in order

    @property
    def learner(self) -> Learner:
        """The learner with everything counted that may be."""
        if self._ready:
            episodes, self._ready = self._ready, []
            states = np.fromiter(chain.from_iterable(e["states"] for e in episodes), dtype=np.int64)
            actions = np.fromiter(chain.from_iterable(e["actions"] for e in episodes), dtype=np.int64)
            ends = np.fromiter(accumulate((len(e["actions"]) for e in episodes), initial=0), dtype=np.int64)
            learner, model = self._learner, self._learner.simulator
            outside = (states.min() < 0) | (states.max() >= model.num_states)
            if outside or actions.min() < 0 or actions.max() >= model.num_actions:
                raise StorageFailure("a recorded episode has states or actions that this system has not; run verify")
            learner.count(frozen(states.astype(np.uint32)), frozen(actions.astype(np.uint32)), ends)
        return self._learner

    @property
    def uncounted(self) -> int:
        """Episodes that are recorded and wait for an earlier deployment."""
        return sum(episode is not None for episode in self._waiting.values())

    @property
    def blocker(self) -> Held | None:
        """The deployment that the uncounted episodes wait for."""
        return self.held.get(self._next_to_count) if self._waiting else None

    def held_by(self, worker: str) -> list[Held]:
        return [held for held in self.held.values() if held.worker == worker]

    def apply(self, event: Event) -> None:
        """Take in the next event; one that does not follow from the last was changed, and is refused."""
        if event.sequence != self.sequence + 1 or event.digest != event.digest_after(self.digest):
            raise StorageFailure(
                f"event {event.sequence} does not follow event {self.sequence}: the record was changed afterwards, "
                "so nothing more is handed out; run verify to see what is wrong"
            )
        self._take(event)
        self.sequence, self.digest = event.sequence, event.digest

    def take_unchecked(self, event: Event) -> None:
        """`apply` without the chain of digests, for `verify`, which reports instead of refusing."""
        self._take(event)
        self.sequence, self.digest = event.sequence, event.digest

    def _take(self, event: Event) -> None:
        number = event.deployment
        if event.kind == ASK and number is not None:
            self.deployments = number
            self.held[number] = Held(number, event.worker or "", event.at, event)
        elif event.kind == TELL and number is not None:
            self._told(number, from_text(event.body, f"event {event.sequence}"))
        elif event.kind == ABANDON and number is not None:
            if self.held.pop(number, None) is not None:
                self.abandoned.add(number)
                self._waiting[number] = None
        elif event.kind == IMPORT:
            episodes = from_text(event.body, f"event {event.sequence}")["episodes"]
            self._ready.extend(episodes)
            self.imported += len(episodes)
            self.samples += sum(len(episode["actions"]) for episode in episodes)
        elif event.kind != CREATE:
            raise InvalidInput(f"event {event.sequence} is of the unknown kind {event.kind!r}")
        while self._next_to_count in self._waiting:
            episode = self._waiting.pop(self._next_to_count)
            if episode is not None:
                self._ready.append(episode)
            self._next_to_count += 1

    def _told(self, number: int, episode: Any) -> None:
        self.told += 1
        self.samples += len(episode["actions"])
        self.cut_short += len(episode["actions"]) < self._learner.simulator.horizon
        if self.held.pop(number, None) is None:  # told after it was abandoned
            self.abandoned.discard(number)
            self.told_late += 1
        if number >= self._next_to_count:
            self._waiting[number] = episode
        else:  # its place has been passed: it comes now
            self._ready.append(episode)
