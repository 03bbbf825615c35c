"""Every deployment of a campaign as pages read it, kept up with the record: no event is read twice.

A campaign of a million samples has some ten thousand deployments. What is kept of each is a few numbers and texts, not its
policies and not its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.campaign.episodes import transitions_in
from safe2real.campaign.events import ABANDON, ASK, TELL, WITHDRAW, AskBody, Event
from safe2real.campaign.history import ABANDONED, CUT_SHORT, LEFT_MODEL, OUT, TOLD, WITHDRAWN
from safe2real.campaign.replay import as_recorded
from safe2real.errors import InvalidInput
from safe2real.methods.base import Reason
from safe2real.model.cmdp import CMDP
from safe2real.model.serialization import finite_or_none, from_text
from safe2real.model.trajectory import utilities_along
from safe2real.service.request import READERS, Call, Endpoint

OUTCOMES = (OUT, TOLD, CUT_SHORT, LEFT_MODEL, ABANDONED, WITHDRAWN)
_POINTS = 600  # of a course
_PAGE = 50  # deployments in one answer


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


def deployments(campaign: Campaign, call: Call) -> Any:
    """The newest first; `outcome` chooses some of them, separated by commas."""
    wanted = call.query.get("outcome", ",".join(OUTCOMES)).split(",")
    if not set(wanted) <= set(OUTCOMES):
        raise InvalidInput(f"outcome has a word that is not known; give some of: {', '.join(OUTCOMES)}")
    found = [line for line in call.history.lines(campaign) if line.outcome in wanted]
    offset, limit = call.number("offset", 0), call.number("limit", _PAGE, least=1, most=1000)
    chosen = found[::-1][offset : offset + limit]
    return {"total": len(found), "offset": offset, "deployments": [_document(campaign, line) for line in chosen]}


def _document(campaign: Campaign, line: Line) -> dict[str, Any]:
    words = campaign.problem.simulator.wordings
    document: dict[str, Any] = {name: getattr(line, name) for name in Line.__slots__}
    proved = [finite_or_none(one.number(low)) for one, low in zip(words, line.lower_bounds, strict=True)]
    observed = None if line.observed is None else [one.number(sum_) for one, sum_ in zip(words, line.observed, strict=True)]
    return {**document, "proved": proved, "observed": observed}


def course(campaign: Campaign, call: Call) -> Any:
    """Columns of one length, in the user's words; of many deployments the lowest and highest values are kept."""
    model, lines = campaign.problem.simulator, call.history.lines(campaign)
    uncertainty = np.array([np.nan if line.uncertainty is None else line.uncertainty for line in lines])
    weights = np.array([line.exploration_weight for line in lines])
    shape = (len(lines), model.num_constraints)
    proved = np.array([line.lower_bounds for line in lines], dtype=np.float64).reshape(shape)
    sums = [(np.nan,) * model.num_constraints if line.observed is None else line.observed for line in lines]
    observed = np.array(sums, dtype=np.float64).reshape(shape)
    kept = _kept([uncertainty, weights, *proved.T, *observed.T], call.number("points", _POINTS, least=10, most=10_000))
    constraints = []
    for k, words in enumerate(model.wordings):
        seen = observed[~np.isnan(observed[:, k]), k]
        constraints.append(
            {
                "name": words.label,
                "relation": words.relation,
                "limit": finite_or_none(words.number(model.thresholds[k])),
                "proved": [finite_or_none(words.number(low)) for low in proved[kept, k]],
                "observed": [finite_or_none(words.number(sum_)) for sum_ in observed[kept, k]],
                "observed_mean": words.number(float(seen.mean())) if len(seen) else None,
                "observed_count": len(seen),
            }
        )
    return {
        "total": len(lines),
        "number": [lines[index].number for index in kept],
        "at": [lines[index].at for index in kept],
        "baseline": [lines[index].reason == Reason.BASELINE.name for index in kept],
        "uncertainty": [lines[index].uncertainty for index in kept],
        "exploration_weight": [lines[index].exploration_weight for index in kept],
        "constraints": constraints,
    }


def _kept(columns: list[Any], points: int) -> list[int]:
    """Which deployments a picture of so many points needs: in each stretch the lowest and the highest of every column."""
    total = len(columns[0])
    if total <= points:
        return list(range(total))
    kept: set[int] = set()
    for column in columns:
        there = np.flatnonzero(~np.isnan(column))
        for stretch in np.array_split(there, min(points // 2, len(there)) or 1):
            if len(stretch):
                kept |= {int(stretch[np.argmin(column[stretch])]), int(stretch[np.argmax(column[stretch])])}
    return sorted(kept)


ENDPOINTS = (
    Endpoint(
        *("GET", "/deployments", READERS, deployments, "Every deployment and what became of it, the newest first."),
        query={"outcome": f"some of {', '.join(OUTCOMES)}", "offset": "passed over", "limit": "at most 1,000"},
        answer={"total": 1, "offset": 0, "deployments": [{"id": "1f0c2a9b-17-8e4d21", "outcome": "out"}]},
    ),
    Endpoint(
        *("GET", "/course", READERS, course, "What was proved and observed, deployment after deployment."),
        query={"points": "about so many deployments are answered"},
        answer={"total": 1, "number": [1], "constraints": [{"name": "falls", "proved": [1.7], "observed": [1.0]}]},
    ),
)
