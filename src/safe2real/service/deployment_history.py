"""Every deployment of a campaign as pages read it, kept up with the record: no event is read twice.

A campaign of a million samples has some ten thousand deployments. What is kept of each is a few numbers and texts, not its
policies and not its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.campaign.episodes import transitions_in
from safe2real.campaign.events import ABANDON, ASK, TELL, WITHDRAW, AskBody, Event
from safe2real.campaign.history import ABANDONED, CUT_SHORT, LEFT_MODEL, OUT, TOLD, WITHDRAWN
from safe2real.campaign.replay import as_recorded
from safe2real.model.cmdp import CMDP
from safe2real.model.serialization import from_text
from safe2real.model.trajectory import utilities_along

OUTCOMES = (OUT, TOLD, CUT_SHORT, LEFT_MODEL, ABANDONED, WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Line:
    """One deployment: what was handed out, and what became of it."""

    id: str
    number: int
    worker: str
    by: str | None  # who asked
    at: str
    reason: str
    exploration_weight: float
    uncertainty: float | None
    lower_bounds: tuple[float, ...]  # [K] on V_c
    outcome: str = OUT
    closed_at: str | None = None
    closed_by: str | None = None  # who told it or gave it up
    samples: int = 0
    why_given_up: str = ""
    observed: tuple[float, ...] | None = None  # [K] sums of utilities over a whole episode


class History:
    """The deployments of one campaign, by number."""

    def __init__(self) -> None:
        self._lines: dict[int, Line] = {}
        self._sequence = 0

    def forget(self) -> None:
        """Begin again: the record was restored from a copy."""
        self.__init__()  # type: ignore[misc]

    def lines(self, campaign: Campaign) -> list[Line]:
        """All of them, in the order in which they were handed out."""
        with campaign.journal.reading() as transaction:
            for event in transaction.events(self._sequence):
                with as_recorded(event):
                    self._take(campaign.name, campaign.problem.simulator, event)
                self._sequence = event.sequence
        return list(self._lines.values())

    def _take(self, name: str, model: CMDP, event: Event) -> None:
        number = event.deployment
        if number is None:
            return
        if event.kind == ASK:
            body = AskBody.read(event)
            self._lines[number] = Line(
                *(id_of(name, event), number, event.worker or "", body.by, event.at, body.reason),
                *(body.exploration_weight, body.uncertainty, tuple(body.lower_bounds)),
            )
        elif number in self._lines and event.kind == TELL:
            self._lines[number] = _told(self._lines[number], model, event)
        elif number in self._lines and event.kind in (ABANDON, WITHDRAW):
            outcome = ABANDONED if event.kind == ABANDON else WITHDRAWN
            why = str(from_text(event.body, f"event {event.sequence}")["reason"])
            closed = replace(self._lines[number], outcome=outcome, closed_at=event.at, closed_by=event.worker)
            self._lines[number] = replace(closed, why_given_up=why)


def _told(line: Line, model: CMDP, event: Event) -> Line:
    content = from_text(event.body, f"event {event.sequence}")
    samples, left = transitions_in(content), bool(content.get("left_model", False))
    outcome = LEFT_MODEL if left else TOLD if samples == model.steps else CUT_SHORT
    observed = None
    if outcome == TOLD:
        observed = tuple(utilities_along(model, content["states"], content["actions"]).sum(axis=1).tolist())
    closed = replace(line, outcome=outcome, closed_at=event.at, closed_by=event.worker)
    return replace(closed, samples=samples, observed=observed)
