"""The record as people read it: one entry for each deployment, and one for each episode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import ABANDON, ASK, IMPORT, TELL, WITHDRAW, AskBody, Event
from safe2real.campaign.replay import as_recorded
from safe2real.errors import StorageFailure
from safe2real.exploration.episode_log import transitions_in
from safe2real.model.cmdp import CMDP
from safe2real.model.serialization import from_text
from safe2real.model.trajectory import utilities_along

TOLD, CUT_SHORT, ABANDONED, OUT = "told", "cut short", "abandoned", "out"
LEFT_MODEL, WITHDRAWN = "left the model", "withdrawn"
OUTCOMES = (OUT, TOLD, CUT_SHORT, LEFT_MODEL, ABANDONED, WITHDRAWN)
_Found = TypeVar("_Found")
_Whose = tuple[str | None, str | None, str | None]  # deployment, worker, source


@dataclass(frozen=True, slots=True)
class Entry:
    """One deployment and its outcome."""

    id: str
    number: int
    worker: str
    asked_at: str
    body: AskBody
    outcome: str = OUT  # told, cut short (told, with fewer steps), left the model (told so), abandoned, withdrawn, or out
    closed_at: str | None = None  # when it was told, or else given up
    closed_by: str | None = None  # who told it or gave it up
    samples: int = 0
    why_given_up: str = ""  # abandoned or withdrawn, also where it was told later
    observed: Sequence[float] | None = None  # [K] sums of utilities over a whole episode

    @property
    def policy(self) -> str:
        """The digest of the policy that was run."""
        return self.body.policies[self.body.drawn]


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode, told or imported."""

    sequence: int  # of the event it is in
    number: int  # 1, 2, 3, ... through the whole record
    deployment: str | None  # None for an imported one
    worker: str | None
    source: str | None  # of an imported one
    policy: str  # digest
    at: str  # when it was told or imported
    partial: bool
    left_model: bool  # the last action, or the beginning, led where the model has no state
    states: Sequence[int]
    actions: Sequence[int]  # one fewer than states; as many where the model was left
    id: str | None = None  # that of an imported one, where its log has them


class DeploymentHistory:
    """Every deployment of a record, in the order in which they were handed out; kept up with it, no event is read twice.

    Args:
        name: The campaign's.
        model: Its simulator.
    """

    def __init__(self, name: str, model: CMDP) -> None:
        self._name, self._model = name, model
        self._entries: dict[int, Entry] = {}
        self.sequence = 0  # of the last event that was read

    @property
    def entries(self) -> list[Entry]:
        return list(self._entries.values())

    def read(self, events: Iterable[Event]) -> None:
        """Take in what follows the events that were read before."""
        for event in events:
            with as_recorded(event):
                if event.deployment is not None:
                    self._take(event, event.deployment)
            self.sequence = event.sequence

    def _take(self, event: Event, number: int) -> None:
        if event.kind == ASK:
            body = AskBody.read(event)
            if len(body.lower_bounds) != self._model.num_constraints:
                count = f"{len(body.lower_bounds)} lower bounds for {self._model.num_constraints} constraints"
                raise StorageFailure(f"event {event.sequence} has {count}; run verify")
            self._entries[number] = Entry(id_of(self._name, event), number, event.worker or "", event.at, body)
        elif event.kind == TELL:
            content, model = _body(event), self._model
            samples, left = transitions_in(content), content.get("left_model", False)
            outcome = LEFT_MODEL if left else TOLD if samples == model.steps else CUT_SHORT
            path = content["states"], content["actions"]
            observed = utilities_along(model, *path).sum(axis=1).tolist() if outcome == TOLD else None
            self._close(event, number, outcome=outcome, samples=samples, observed=observed)
        elif event.kind in (ABANDON, WITHDRAW):
            outcome, why = ABANDONED if event.kind == ABANDON else WITHDRAWN, str(_body(event)["reason"])
            self._close(event, number, outcome=outcome, why_given_up=why)

    def _close(self, event: Event, number: int, **how: Any) -> None:
        entry = _asked_for(self._entries, number, event)
        self._entries[number] = replace(entry, closed_at=event.at, closed_by=event.worker, **how)


def entries_of(name: str, events: Iterable[Event], model: CMDP) -> list[Entry]:
    """Every deployment of campaign `name` in the order in which they were handed out; `model` is its simulator."""
    history = DeploymentHistory(name, model)
    history.read(events)
    return history.entries


def episodes_of(name: str, events: Iterable[Event], model: CMDP) -> Iterator[Episode]:
    """Every episode of campaign `name` in the order in which they were recorded."""
    asked: dict[int, tuple[Event, str]] = {}  # number -> ask, policy
    found = 0
    for event in events:
        number = event.deployment
        if event.kind == ASK and number is not None:
            body = AskBody.read(event)
            asked[number] = (event, body.policies[body.drawn])
        elif event.kind == TELL and number is not None:
            ask, policy = _asked_for(asked, number, event)
            found += 1
            yield _episode(event, found, (id_of(name, ask), ask.worker, None), policy, _body(event), model.steps)
        elif event.kind == IMPORT:
            body = _body(event)
            for content in body["episodes"]:
                found += 1
                yield _episode(event, found, (None, None, event.worker), body["policy"], content, model.steps)


def _asked_for(asked: Mapping[int, _Found], number: int, event: Event) -> _Found:
    if number not in asked:
        raise StorageFailure(f"event {event.sequence} is about deployment {number}, which was never handed out; run verify")
    return asked[number]


def _body(event: Event) -> Any:
    return from_text(event.body, f"event {event.sequence}")


def _episode(event: Event, number: int, whose: _Whose, policy: str, content: Any, steps: int) -> Episode:
    partial, left = transitions_in(content) < steps, bool(content.get("left_model", False))
    states, actions = content["states"], content["actions"]
    return Episode(event.sequence, number, *whose, policy, event.at, partial, left, states, actions, content.get("id"))
