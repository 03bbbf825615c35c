"""Event stream of one campaign (server-sent events), for pages that stay open.

Messages: `record` for each new event, `status` whenever the head of the record differs from the one in the last status,
`restart` if the record lacks the last event that the page received (a backup was restored), and `alive` with the head after
15 s of silence, which the page compares with the head it shows. The id of a `record` is SEQUENCE-DIGEST; a connection
that broke sends it back as Last-Event-ID. Events by other servers on the same database are noticed by reading the head twice
a second, once for all streams.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import ASK, IMPORT, Event
from safe2real.campaign.replay import as_recorded
from safe2real.campaign.signing import principal_of
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.exploration.episode_log import transitions_in
from safe2real.model.serialization import from_text
from safe2real.service import request
from safe2real.service.campaign_pool import LOOK, HostedCampaign
from safe2real.service.problem_documents import Busy, NoToken, hidden
from safe2real.service.request import OF_A_CAMPAIGN, READERS, InCampaign

_BATCH = 200  # events that are read at once
_RECENT = 20  # events that a new page receives
_BREATH = 15.0  # seconds of silence after which `alive` is sent
_ID = re.compile(r"([0-9]{1,12})(?:-([0-9a-f]{64}))?")

SentEvent = tuple[int, str | None]  # the last event that a page received; None if it names a number alone


watching = request.router(READERS, OF_A_CAMPAIGN)


_MESSAGE = 'event: alive\ndata: {"events": 3, "head": "9f86d081"}\n\n'
LastEvent = Annotated[
    str | None, Header(alias="last-event-id", description="Id of the last message before a connection broke.")
]


@watching.get("/stream", response_class=StreamingResponse, responses=request.answers(_MESSAGE, media="text/event-stream"))
async def stream(call: InCampaign, last_event: LastEvent = None) -> StreamingResponse:
    """Stream the campaign's events as they are recorded: messages `record`, `status`, `restart`, `alive` and `problem`."""
    return _Counted(call, _while_valid(call, _resumed_from(last_event)))


class _Counted(StreamingResponse):
    """A stream that is counted from its admission until it ends, however it ends."""

    def __init__(self, call: InCampaign, content: AsyncIterator[str]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._streams, self._limits, self._name = call.service.streams, call.limits, call.caller.name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Nothing is awaited between the check and the count, so streams that begin at the same time see each other.
        if self._streams.total() >= self._limits.streams or self._streams[self._name] >= self._limits.own_streams:
            raise Busy("too many event streams are open, of this token or in all; close some, or try again later")
        self._streams[self._name] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._name] -= 1


async def _while_valid(call: InCampaign, after: SentEvent | None) -> AsyncIterator[str]:
    async for message in _messages(call.hosted, after, call.limits.answering):
        if not await call.service.is_still(call.caller, call.authorization):
            yield _said("problem", json.dumps({"kind": NoToken.kind, "detail": "this token is no longer valid"}))
            return
        yield message


async def _messages(hosted: HostedCampaign, after: SentEvent | None, timeout: float) -> AsyncIterator[str]:
    """Yield the messages of one page, from the event after `after` on; for a new page, from the last few."""
    try:
        head = await hosted.head(timeout)
        sent: SentEvent = (max(0, head[0] - _RECENT), None) if after is None else after
        yield "retry: 1000\n\n"
        shown, text = await hosted.status(timeout)
        yield _said("status", text)
        spoke, looked = time.monotonic(), None
        while True:
            changed = hosted.changed
            head = await hosted.head(timeout)
            if head not in (sent, looked):
                lost, events = await hosted.reader.do(partial(_events, sent=sent), timeout=timeout)
                if lost:
                    yield _said("restart", json.dumps({"events": head[0], "head": head[1]}))
                    sent = (0, None)
                for event in events:
                    sent = (event["sequence"], event["digest"])
                    yield _said("record", json.dumps(event), f"{sent[0]}-{sent[1]}")
                looked = head if not events else None  # a page may be ahead of `head`
            if head != shown and time.monotonic() - spoke > LOOK:  # one status for all events meanwhile
                shown, text = await hosted.status(timeout)
                yield _said("status", text)
                spoke = time.monotonic()
            elif time.monotonic() - spoke > _BREATH:
                yield _said("alive", json.dumps({"events": shown[0], "head": shown[1]}))
                spoke = time.monotonic()
            await asyncio.sleep(LOOK / 5)  # events that come together are sent together
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LOOK)
    except Safe2RealError as error:
        yield _said(
            "problem",
            json.dumps(
                {"kind": error.kind, "detail": hidden(str(error).replace(hosted.shown_place, f"campaign {hosted.name}"))}
            ),
        )


def _resumed_from(header: str | None) -> SentEvent | None:
    """Return the event that a page received last, by the id of its message."""
    if not header:
        return None
    found = _ID.fullmatch(header)
    if found is None:
        raise InvalidInput("Last-Event-ID is not the id of an event; leave it out to begin with the last events")
    return int(found[1]), found[2]


def _said(kind: str, data: str, id: str | None = None) -> str:
    """Return one message as it is sent."""
    named = "" if id is None else f"id: {id}\n"
    return f"event: {kind}\n{named}data: {data}\n\n"


def _events(campaign: Campaign, sent: SentEvent) -> tuple[bool, list[dict[str, Any]]]:
    """Return whether the record lacks event `sent`, and the events after it, or the last events if it does."""
    after, digest = sent
    with campaign.journal.reading() as transaction:
        found = transaction.digest_at(after) if after else None
        lost = after > 0 and (found is None or digest not in (None, found))
        after = max(0, transaction.last()[0] - _RECENT) if lost else after
        events = list(transaction.events(after, after + _BATCH))
        asked = {event.deployment: event for event in events if event.kind == ASK}
        for event in events:
            if event.deployment is not None and event.deployment not in asked:
                asked.update({event.deployment: transaction.events_of(event.deployment)[ASK]})
    documents = []
    for event in events:
        with as_recorded(event):
            documents.append(_document(campaign.name, event, asked.get(event.deployment)))
    return lost, documents


def _document(name: str, event: Event, asked: Event | None) -> dict[str, Any]:
    body = from_text(event.body, f"event {event.sequence}")
    return {
        "sequence": event.sequence,
        "digest": event.digest,
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
