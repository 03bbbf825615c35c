"""The course of a campaign for pages: what was proved of each deployment, what was observed in it, what became of it.

A record of a million samples is read once; after that only what is new. What is drawn is thinned to what a picture can show,
and keeps the lowest and the highest value of every column, so that no deployment that stands out is left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.campaign.episodes import transitions_in
from safe2real.campaign.events import ABANDON, ASK, TELL, WITHDRAW, AskBody, Event
from safe2real.campaign.history import ABANDONED, CUT_SHORT, LEFT_MODEL, OUT, TOLD, WITHDRAWN
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.model.checks import Floats, shown
from safe2real.model.cmdp import CMDP
from safe2real.model.encoding import finite_or_none, from_text
from safe2real.service.calls import READERS, Call, Endpoint

_COLUMNS = 400  # of a picture
_OUTCOMES = (OUT, TOLD, CUT_SHORT, LEFT_MODEL, ABANDONED, WITHDRAWN)


class Chronicle:
    """What pages show of every deployment, in columns: n deployments, K constraints."""

    def __init__(self, name: str, model: CMDP) -> None:
        self._name, self._model = name, model
        self._sequence = 0  # of the last event that was read
        self._index: dict[int, int] = {}  # number -> place in the columns
        self.numbers, self.baseline = array("q"), array("b")
        self.uncertainty, self.weight = array("d"), array("d")  # nan where it is unbounded
        self.bounds, self.observed = array("d"), array("d")  # n times K, on V_c and of the episode; nan where none was told
        self.asked: list[tuple[str, str, str]] = []  # (id, worker, at)
        self.closed: list[tuple[str, str | None, int, str]] = []  # (outcome, at, samples, why it was given up)

    def catch_up(self, campaign: Campaign) -> Chronicle:
        """Read what is new."""
        with campaign.journal.reading() as transaction:
            self.take(transaction.events(self._sequence))
        return self

    def take(self, events: Iterable[Event]) -> None:
        """Add events in their order.

        Raises:
            StorageFailure: One is about a deployment that was never handed out, or is not as it was recorded.
        """
        for event in events:
            if event.kind == ASK:
                self._hand_out(event)
            elif event.kind in (TELL, ABANDON, WITHDRAW):
                self._close(event)
            self._sequence = event.sequence

    def _hand_out(self, event: Event) -> None:
        body, number = AskBody.read(event), event.deployment
        if number is None or len(body.lower_bounds) != self._model.num_constraints:
            raise StorageFailure(f"event {event.sequence} is not a deployment of this problem; run verify")
        self._index[number] = len(self.numbers)
        self.numbers.append(number)
        self.baseline.append(body.reason == "BASELINE")
        self.uncertainty.append(np.nan if body.uncertainty is None else body.uncertainty)
        self.weight.append(body.exploration_weight)
        self.bounds.extend(body.lower_bounds)
        self.observed.extend([np.nan] * self._model.num_constraints)
        self.asked.append((id_of(self._name, event), event.worker or "", event.at))
        self.closed.append((OUT, None, 0, ""))

    def _close(self, event: Event) -> None:
        place = self._index.get(-1 if event.deployment is None else event.deployment)
        if place is None:
            raise StorageFailure(f"event {event.sequence} is about a deployment that was never handed out; run verify")
        content, (_, _, _, why) = from_text(event.body, f"event {event.sequence}"), self.closed[place]
        if event.kind != TELL:
            outcome = ABANDONED if event.kind == ABANDON else WITHDRAWN
            self.closed[place] = (outcome, event.at, 0, str(content["reason"]))
            return
        samples, left = transitions_in(content), bool(content.get("left_model", False))
        whole = samples == self._model.horizon and not left
        self.closed[place] = (LEFT_MODEL if left else TOLD if whole else CUT_SHORT, event.at, samples, why)
        if whole:  # the sum of a part says nothing about the whole
            K = self._model.num_constraints
            self.observed[K * place : K * (place + 1)] = array("d", self._sums(content))

    def _sums(self, content: Any) -> list[float]:
        """[K] the utilities of one whole episode."""
        actions = np.asarray(content["actions"], dtype=np.int64)
        states, steps = np.asarray(content["states"], dtype=np.int64)[: actions.size], np.arange(actions.size)
        return [float(table[steps if len(table) > 1 else 0, states, actions].sum()) for table in self._model.utilities]

    def course(self, columns: int) -> dict[str, Any]:
        """Columns of equal length, thinned; every constraint in the words in which it was written."""
        model, n, K = self._model, len(self.numbers), self._model.num_constraints
        bounds, observed = _floats(self.bounds).reshape(n, K), _floats(self.observed).reshape(n, K)
        uncertainty, weight = _floats(self.uncertainty), _floats(self.weight)
        kept = thinned([uncertainty, *bounds.T, *observed.T], n, columns)
        constraints = []
        for k, words in enumerate(model.wordings):
            seen = observed[:, k][~np.isnan(observed[:, k])]
            constraints.append(
                {
                    "name": words.label,
                    "relation": words.relation,
                    words.bound_word: words.number(model.thresholds[k]),
                    "proved": [finite_or_none(words.number(value)) for value in bounds[kept, k]],
                    "observed": [finite_or_none(words.number(value)) for value in observed[kept, k]],
                    "observed_mean": finite_or_none(words.number(seen.mean())) if seen.size else None,
                    "observed_count": int(seen.size),
                }
            )
        return {
            "total": n,
            "number": [self.numbers[place] for place in kept],
            "baseline": [bool(self.baseline[place]) for place in kept],
            "uncertainty": [finite_or_none(value) for value in uncertainty[kept]],
            "exploration_weight": weight[kept].tolist(),
            "constraints": constraints,
        }

    def deployments(self, outcomes: frozenset[str], offset: int, limit: int) -> dict[str, Any]:
        """Those with one of these outcomes, the newest first."""
        found = [place for place in range(len(self.numbers) - 1, -1, -1) if self.closed[place][0] in outcomes]
        return {
            "total": len(found),
            "offset": offset,
            "deployments": [self._document(place) for place in found[offset : offset + limit]],
        }

    def _document(self, place: int) -> dict[str, Any]:
        (id, worker, at), (outcome, closed_at, samples, why) = self.asked[place], self.closed[place]
        return {
            "id": id,
            "number": self.numbers[place],
            "worker": worker,
            "at": at,
            "reason": "BASELINE" if self.baseline[place] else "MIXTURE",
            "exploration_weight": self.weight[place],
            "uncertainty": finite_or_none(self.uncertainty[place]),
            "outcome": outcome,
            "closed_at": closed_at,
            "samples": samples,
            "why_given_up": why,
        }


def thinned(series: list[Floats], n: int, columns: int) -> NDArray[np.int64]:
    """Which of `n` points to draw: all if they are few, else the lowest and the highest of each series in each column."""
    if n <= 2 * columns:
        return np.arange(n)
    edges = np.linspace(0, n, columns + 1).astype(np.int64)[:-1]
    column = np.searchsorted(edges, np.arange(n), side="right") - 1
    kept = [np.array([0, n - 1])]
    for values in series:
        for signed in (values, -values):
            lowest = np.where(np.isnan(signed), np.inf, signed)
            # Sorted by column and within it by value: the first of each column is its lowest.
            kept.append(np.lexsort((lowest, column))[edges])
    return np.unique(np.concatenate(kept))


_CHRONICLES: WeakKeyDictionary[Campaign, Chronicle] = WeakKeyDictionary()  # of campaigns that are open, each in its thread


def chronicle_of(campaign: Campaign) -> Chronicle:
    """The chronicle of an open campaign, up to date; it goes when the campaign is closed and forgotten."""
    found = _CHRONICLES.get(campaign)
    if found is None:
        found = _CHRONICLES[campaign] = Chronicle(campaign.name, campaign.problem.simulator)
    return found.catch_up(campaign)


def course(campaign: Campaign, call: Call) -> Any:
    return chronicle_of(campaign).course(call.number("columns", _COLUMNS, least=10, most=5_000))


def deployments(campaign: Campaign, call: Call) -> Any:
    wanted = frozenset(filter(None, call.query.get("outcome", "").split(",")))
    if not wanted <= frozenset(_OUTCOMES):
        given = shown(call.query["outcome"])
        raise InvalidInput(f"outcome is {given}; give some of {', '.join(_OUTCOMES)}, with commas between them")
    offset, limit = call.number("offset", 0), call.number("limit", 50, least=1, most=1_000)
    return chronicle_of(campaign).deployments(wanted or frozenset(_OUTCOMES), offset, limit)


def _floats(column: array[float]) -> Floats:
    return np.array(column, dtype=np.float64)  # a copy: a view would keep the column from growing


ENDPOINTS = (
    Endpoint(
        *("GET", "/course", READERS, course, "What was proved and observed of deployments, thinned for a picture."),
        query={"columns": "of the picture, 10 to 5,000; about two points each"},
        answer={
            "total": 1,
            "number": [1],
            "baseline": [True],
            "uncertainty": [None],
            "exploration_weight": [0.0],
            "constraints": [
                {
                    "name": "falls",
                    "relation": "<=",
                    "limit": 2.0,
                    "proved": [1.7],
                    "observed": [1.0],
                    "observed_mean": 1.0,
                    "observed_count": 1,
                }
            ],
        },
    ),
    Endpoint(
        *("GET", "/deployments", READERS, deployments, "What was handed out and what became of it, the newest first."),
        query={
            "outcome": f"some of {', '.join(_OUTCOMES)}, with commas between them; all if it is left out",
            "offset": "deployments passed over",
            "limit": "deployments in the answer, up to 1,000",
        },
        answer={"total": 0, "offset": 0, "deployments": []},
    ),
)
