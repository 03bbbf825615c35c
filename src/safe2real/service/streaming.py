"""What happens, as it happens: server-sent events of one campaign, for pages that stay open.

One message `record` for each new event, with its sequence as the message's id, and `status` when something has changed. A
connection that broke goes on with the header Last-Event-ID. Changes by other servers on the same database are seen by
looking at it twice a second, once for all who watch.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.campaign.episodes import transitions_in
from safe2real.campaign.events import ASK, IMPORT, Event
from safe2real.campaign.replay import as_recorded
from safe2real.campaign.signing import principal_of
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.model.encoding import from_text
from safe2real.service.looking import status_with
from safe2real.service.problems import hidden

if TYPE_CHECKING:
    from safe2real.service.hosted import Hosted

_LOOK = 0.5  # seconds between two looks at the record
_BATCH = 200  # events in one look
_RECENT = 20  # events that a new page is told of
_BREATH = 15.0  # seconds of silence after which a comment shows that the connection lives


class Watch:
    """What all who watch a campaign share: how long the record is, and its status, computed once for each change."""

    def __init__(self) -> None:
        self._sequence, self._looked_at = 0, float("-inf")
        self._status: tuple[int, str] = (-1, "")

    async def sequence(self, hosted: Hosted, patience: float) -> int:
        """Of the last event, as it was less than half a second ago."""
        if time.monotonic() - self._looked_at >= _LOOK / 2:
            self._looked_at = time.monotonic()  # before the answer: others need not ask too
            self._sequence = await hosted.desk.do(_last, patience=patience)
        return self._sequence

    def stale(self) -> None:
        """Something was recorded here."""
        self._looked_at = float("-inf")

    async def status(self, hosted: Hosted, patience: float) -> str:
        if self._status[0] != self._sequence:
            self._status = await hosted.desk.do(_status, patience=patience)
        return self._status[1]


async def messages(hosted: Hosted, watch: Watch, after: int | None, patience: float) -> AsyncIterator[str]:
    """The stream of one page, from the event after `after` on; of a new page, from the last few."""
    try:
        sent = max(0, await watch.sequence(hosted, patience) - _RECENT) if after is None else after
        yield "retry: 1000\n\n"
        yield said("status", await watch.status(hosted, patience))
        spoke, is_due = time.monotonic(), False
        while True:
            changed = hosted.changed
            if await watch.sequence(hosted, patience) > sent:
                for event in await hosted.desk.do(_after(sent), patience=patience):
                    sent = event["sequence"]
                    yield said("record", json.dumps(event), sent)
                is_due = True
            if is_due and time.monotonic() - spoke > _LOOK:  # one status for all that came meanwhile
                yield said("status", await watch.status(hosted, patience))
                spoke, is_due = time.monotonic(), False
            elif time.monotonic() - spoke > _BREATH:
                yield ": still here\n\n"
                spoke = time.monotonic()
            await asyncio.sleep(_LOOK / 5)  # what comes at once is told at once
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), _LOOK)
    except Safe2RealError as error:
        yield said(
            "problem",
            json.dumps(
                {"kind": error.kind, "detail": hidden(str(error).replace(hosted.shown_place, f"campaign {hosted.name}"))}
            ),
        )


def resumed_from(header: str | None) -> int | None:
    """The sequence that a page saw last."""
    if header is None:
        return None
    if not (header.isascii() and header.isdigit() and len(header) <= 12):
        raise InvalidInput("Last-Event-ID is no event's number; leave it out to begin with the last events")
    return int(header)


def said(kind: str, data: str, id: int | None = None) -> str:
    """One message, as it is sent."""
    named = "" if id is None else f"id: {id}\n"
    return f"event: {kind}\n{named}data: {data}\n\n"


def _last(campaign: Campaign) -> int:
    with campaign.journal.reading() as transaction:
        return transaction.last()[0]


def _status(campaign: Campaign) -> tuple[int, str]:
    document = status_with(campaign, forecast=False)
    return document["events"], json.dumps(document, allow_nan=False)


def _after(sequence: int) -> Callable[[Campaign], list[dict[str, Any]]]:
    return lambda campaign: _events(campaign, sequence)


def _events(campaign: Campaign, after: int) -> list[dict[str, Any]]:
    with campaign.journal.reading() as transaction:
        events = list(transaction.events(after, after + _BATCH))
        asked = {event.deployment: event for event in events if event.kind == ASK}
        for event in events:
            if event.deployment is not None and event.deployment not in asked:
                asked.update({event.deployment: transaction.events_of(event.deployment)[ASK]})
    documents = []
    for event in events:
        with as_recorded(event):
            documents.append(_document(campaign.name, event, asked.get(event.deployment)))
    return documents


def _document(name: str, event: Event, asked: Event | None) -> dict[str, Any]:
    body = from_text(event.body, f"event {event.sequence}")
    return {
        "sequence": event.sequence,
        "kind": event.kind,
        "deployment": event.deployment,
        "id": None if asked is None else id_of(name, asked),
        "worker": event.worker if asked is None else asked.worker,
        "by": principal_of(event),
        "at": event.at,
        "reason": body.get("reason"),
        "samples": transitions_in(body) if "states" in body else None,
        "left_model": bool(body.get("left_model", False)),
        "episodes": len(body["episodes"]) if event.kind == IMPORT else None,
    }
