"""Addresses of a campaign that are not one call to it: logs as they arrive, checks, copies, the stream, a new branch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import IO

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import Receipt
from safe2real.campaign.documents import receipt_document
from safe2real.errors import InvalidInput
from safe2real.service.campaign_pool import Hosted
from safe2real.service.dispatch import Answering
from safe2real.service.importing import import_log, read, received
from safe2real.service.jobs import RUNNING, Verification, exported
from safe2real.service.problems import Busy, NotFound, NoToken
from safe2real.service.request import OPERATORS, READERS, Call, Endpoint
from safe2real.service.service import Service
from safe2real.service.streaming import Seen, messages, resumed_from, said

_PART = 1 << 20  # bytes of a copy that are read at once


async def imported(service: Service, request: Request, call: Call) -> Response:
    """JSON Lines. The first: {"source": NAME, "policy": ..., "partial": ..., "overlap": ...}. Each other is an episode."""
    hosted = await service.hosted(call.name)
    log = await service.slowly(read, await received(request, service.limits))
    document = await hosted.field.do(
        lambda campaign: import_log(campaign, log), patience=service.limits.importing, by=call.caller.name
    )
    hosted.has_changed()
    return JSONResponse(document)


async def verify(service: Service, request: Request, call: Call) -> Response:
    """One check at a time: while one runs, it is the answer, unless another `head` is to be looked for."""
    head = call.document(optional=("head",)).get("head")
    if not isinstance(head, str | None):
        raise InvalidInput("head is no text; give `head` of an earlier status, or leave it out")
    hosted = await service.hosted(call.name)
    if hosted.verification is None or hosted.verification.state != RUNNING:
        hosted.verification = Verification(hosted.place, head, call.caller.name)
    elif hosted.verification.head != head:
        raise Busy("a check that looks for another head is running; send this again when it is done")
    return JSONResponse(hosted.verification.document(), 202)


async def verified(service: Service, request: Request, call: Call) -> Response:
    """How far a check is and what it found; of this server alone, and only the last one."""
    found = (await service.hosted(call.name)).verification
    if found is None and not call.id:
        return JSONResponse({"job": None, "state": "none"})
    if found is None or call.id not in ("", found.id):
        raise NotFound("there is no such check on this server, or another one began since; POST to begin one")
    return JSONResponse(found.document())


async def export(service: Service, request: Request, call: Call) -> Response:
    form = str(call.one_of("format", ("json", "csv"), "json"))
    hosted = await service.hosted(call.name)
    copy, size = await service.slowly(exported, hosted.place, form)
    kind, ending = ("application/json", "json") if form == "json" else ("application/zip", "zip")
    headers = {"Content-Length": str(size), "Content-Disposition": f'attachment; filename="{call.name}.{ending}"'}
    return StreamingResponse(_read(copy), media_type=kind, headers=headers)


async def _read(copy: IO[bytes]) -> AsyncIterator[bytes]:
    with copy:
        while part := await asyncio.to_thread(copy.read, _PART):
            yield part


async def branch(service: Service, request: Request, call: Call) -> Response:
    """Read the record as it is now, and record that what had come after is lost, before anything else is done."""
    reason = call.document(required=("reason",))["reason"]
    hosted = await service.hosted(call.name)

    def branched(campaign: Campaign) -> Receipt:
        receipt = campaign.branch(reason)
        hosted.renew_readers()
        return receipt

    receipt = await hosted.field.do_anew(branched, patience=service.limits.answering, by=call.caller.name)
    hosted.has_changed()
    return JSONResponse(receipt_document(receipt))


async def stream(service: Service, request: Request, call: Call) -> Response:
    """Server-sent events; see `streaming`. Last-Event-ID goes on where a connection broke."""
    hosted = await service.hosted(call.name)
    after = resumed_from(request.headers.get("last-event-id"))
    may_go_on = partial(service.is_still, call.caller, request.headers.get("authorization"))
    return _Counted(service, call.caller.name, _while_valid(service, hosted, after, may_go_on))


class _Counted(StreamingResponse):
    """A stream that is counted from the moment it is admitted until it ends, however it ends."""

    def __init__(self, service: Service, name: str, content: AsyncIterator[str]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._service, self._name = service, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams, limits = self._service.streams, self._service.limits
        # Nothing is awaited between the check and the count: streams that begin at once see each other.
        if streams.total() >= limits.streams or streams[self._name] >= limits.own_streams:
            raise Busy("too many pages watch already, of this token or of all together; close some, or try again later")
        streams[self._name] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            streams[self._name] -= 1


async def _while_valid(
    service: Service, hosted: Hosted, after: Seen | None, may_go_on: Callable[[], Awaitable[bool]]
) -> AsyncIterator[str]:
    async for message in messages(hosted, hosted.watch, after, service.limits.answering):
        if not await may_go_on():
            yield said("problem", json.dumps({"kind": NoToken.kind, "detail": "this token is no longer valid"}))
            return
        yield message


_JOB = {
    "job": "9f86d081884c7d65",
    "head": None,
    "state": RUNNING,
    "done": 120,
    "total": 4000,
    "ledger": None,
    "problem": None,
}
_LOG = {"source": "january", "policy": "baseline"}
BESIDE: tuple[tuple[Endpoint, Answering], ...] = (
    (
        Endpoint(
            *("POST", "/import", OPERATORS, imported, "Add a log of earlier episodes by a known policy, all or none."),
            streamed=True,
            body=json.dumps(_LOG) + '\n{"states": [0, 1, 1, 0, 0], "actions": [1, 0, 0, 1]}\n',
            answer={"source": "january", "episodes": 1, "skipped": 0, "sequence": 39, "new": True, "samples": 4},
        ),
        imported,
    ),
    (
        Endpoint(
            *("POST", "/verify", READERS, verify, "Begin to compute every certificate again from the record alone."),
            body={"head": None},
            answer=_JOB,
        ),
        verify,
    ),
    (Endpoint("GET", "/verify", READERS, verified, "The last check of this server.", answer=_JOB), verified),
    (Endpoint("GET", "/verify/{id}", READERS, verified, "One check, if it is the last.", answer=_JOB), verified),
    (
        Endpoint(
            *("GET", "/export", READERS, export, "The whole record for other programs."),
            query={"format": "json (one document), or csv (three tables in a zip)"},
        ),
        export,
    ),
    (
        Endpoint(
            *("POST", "/branch", OPERATORS, branch, "Say that the record was restored from a copy and goes on from here."),
            body={"reason": "the disk was replaced; restored from last night's copy"},
            answer={"sequence": 40, "new": True, "samples": 0},
        ),
        branch,
    ),
    (Endpoint("GET", "/stream", READERS, stream, "What happens, as it happens."), stream),
)
