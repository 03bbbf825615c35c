"""Endpoints of the whole record: imports, declared rewards, verification, exports, branches."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from fastapi import Query
from pydantic import FailFast, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import declared_document, imported_document, ledger_document, receipt_document
from safe2real.campaign.events import now
from safe2real.campaign.import_log import Overlap
from safe2real.campaign.journal.url import shown_place
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.model.serialization import array_from_json, check_unpacked, from_text, policy_from_json
from safe2real.model.validation import human, shown, text_limit
from safe2real.report.export import export_csv, export_json
from safe2real.service import request
from safe2real.service.problem_documents import TOKEN_IN_BYTES, Busy, WrongType, hidden
from safe2real.service.request import OF_A_CAMPAIGN, OPERATORS, READERS, Array, Body, InCampaign, Name, Reason

_IN_MEMORY = 8 << 20  # bytes of a log that stay in memory
_PART = 1 << 20  # bytes of an export that are read at once
RUNNING, DONE, FAILED = "running", "done", "failed"
writing = request.router(OPERATORS, OF_A_CAMPAIGN)
checking = request.router(READERS, OF_A_CAMPAIGN)


# Rewards and branches


class Declare(Body):
    """Rewards to add, by name, and names to drop."""

    rewards: dict[str, Array] | None = Field(default=None, examples=[{"pick": [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]}])
    drop: Annotated[list[str], FailFast()] = Field(default=[], examples=[["place"]])


@writing.post("/declare", responses=request.answers({"sequence": 36, "new": True, "rewards": ["pick"]}))
async def declare(call: InCampaign, body: Declare) -> Response:
    """Add declared rewards, or drop some, all or none; deployments that are out stay out."""

    def declared(campaign: Campaign) -> Any:
        given = body.rewards
        rewards = given and {name: array_from_json(value, f"rewards.{name[:40]}") for name, value in given.items()}
        return declared_document(campaign, campaign.declare(rewards, drop=body.drop))

    return await call.record(declared)


class Branch(Body):
    """The reason for going on from a copy."""

    reason: Reason = Field(examples=["the disk was replaced; restored from last night's copy"])


@writing.post("/branch", responses=request.answers({"sequence": 40, "new": True, "samples": 0}))
async def branch(call: InCampaign, body: Branch) -> Response:
    """Record that the journal was restored from a copy and continues from here.

    The record is read as it is now, and the loss of all later events is recorded before anything is handed out.
    """

    def branched(campaign: Campaign) -> Any:
        receipt = campaign.branch(body.reason)
        call.hosted.renew_readers()
        return receipt_document(receipt)

    return await call.record(branched, reopen=True)


# Logs


class LogHead(Body):
    """The first line of a log: its name, the policy of its episodes, and the treatment of overlaps."""

    source: Name
    policy: Any = "baseline"
    partial: bool = False
    overlap: Literal["refuse", "skip", "count"] = "refuse"


@dataclass(frozen=True, eq=False, slots=True)
class ReceivedLog:
    """A log whose lines are valid; its episodes are read again as they are needed, to save memory."""

    head: LogHead
    count: int  # episodes
    file: IO[bytes]

    def episodes(self) -> Iterator[Any]:
        """Yield every episode object, in order."""
        self.file.seek(0)
        lines = (from_text(line, "the log") for line in self.file if line.strip())
        next(lines)
        return lines


_LOG = {"source": "january", "policy": "baseline"}
_LINES = json.dumps(_LOG) + '\n{"states": [0, 1, 1, 0, 0], "actions": [1, 0, 0, 1]}\n'
_LOG_BODY = {"required": True, "content": {"application/x-ndjson": {"schema": {"type": "string"}, "example": _LINES}}}
_IMPORTED = {"source": "january", "episodes": 1, "skipped": 0, "sequence": 39, "new": True, "samples": 4}


@writing.post("/import", responses=request.answers(_IMPORTED), openapi_extra={"requestBody": _LOG_BODY})
async def add_log(call: InCampaign, arriving: Request) -> Response:
    """Import episodes that a known policy collected earlier, all or none.

    JSON Lines, gzip or not: first {"source": NAME, "policy": ..., "partial": ..., "overlap": ...}, then the episodes.
    """
    log = await call.service.in_slow_thread(read_log, await _spooled(arriving, call))
    return await call.record(lambda campaign: import_log(campaign, log), timeout=call.limits.importing)


async def _spooled(arriving: Request, call: InCampaign) -> IO[bytes]:
    """Return the body in a temporary file, at its beginning."""
    if request.media_type(arriving) not in ("application/x-ndjson", "application/jsonl"):
        raise WrongType("content-type is not application/x-ndjson; send JSON Lines, the first of which describes the log")
    spool: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (closed by its reader)
    try:
        async for part in request.chunks(arriving, limit=call.limits.log, seconds=call.limits.importing):
            spool.write(part)
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return spool


def read_log(file: IO[bytes]) -> ReceivedLog:
    """Check all lines of a log, and refuse the whole log at the first line that is neither its head nor an episode.

    This may take long and needs no campaign: machines ask and tell meanwhile.
    """
    try:
        lines, count = _lines(file), 0
        try:
            head = LogHead.model_validate(next(lines, None))
        except ValidationError as error:
            raise request.invalid(error.errors(include_url=False)[0], "line 1 of the log") from None
        for count, document in enumerate(lines, 1):
            if not (isinstance(document, Mapping) and "states" in document and "actions" in document):
                raise InvalidInput(
                    f"episode {count} of the log is {shown(document)}; give an object with states and actions"
                )
    except BaseException:
        file.close()
        raise
    return ReceivedLog(head, count, file)


def _lines(file: IO[bytes]) -> Iterator[Any]:
    """Yield one document for each line that is not empty."""
    longest, number = text_limit(), 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise InvalidInput(f"line {number} of the log is longer than {human(longest)}; one episode is one line")
        if TOKEN_IN_BYTES.search(line):
            raise InvalidInput(f"line {number} of the log holds a token, which must not be recorded; leave it out")
        if line.strip():
            document = from_text(line, f"line {number} of the log")
            check_unpacked(document, f"line {number} of the log")
            yield document


def import_log(campaign: Campaign, log: ReceivedLog) -> dict[str, Any]:
    """Record a log, with the policy and the treatment of overlaps that its head names."""
    head, model = log.head, campaign.problem.simulator
    policy = (
        campaign.problem.baseline
        if head.policy == "baseline"
        else policy_from_json(head.policy, "policy", horizon=model.horizon, num_states=model.num_states)
    )
    with log.file:
        receipt = campaign.import_log(
            head.source, policy, log.episodes(), partial=head.partial, overlap=Overlap(head.overlap)
        )
    return imported_document(head.source, log.count, receipt)


# Verification and exports


class Verification:
    """Verify a record in a background thread with its own campaign object, without blocking the campaign's workers.

    `document` is the answer: the progress, and the ledger at the end.
    """

    def __init__(self, place: str, head: str | None, by: str) -> None:
        self._place, self._head = place, head
        about = {"job": secrets.token_hex(8), "by": by, "head": head, "began": now(), "ended": None}
        self.document: dict[str, Any] = {**about, "state": RUNNING, "done": 0, "total": 0, "ledger": None, "problem": None}
        # A server that stops does not wait for it: a verification leaves nothing behind.
        threading.Thread(target=self._run, name="verify", daemon=True).start()

    @property
    def is_running(self) -> bool:
        return bool(self.document["state"] == RUNNING)

    def _run(self) -> None:
        found: dict[str, Any] = {"state": FAILED, "problem": "a mistake of safe2real; please report it"}  # shown on stderr
        try:
            with Campaign.open(self._place) as campaign:
                ledger = campaign.verify(head=self._head, progress=self._progress)
                found = {"state": DONE, "ledger": ledger_document(ledger)}
        except Safe2RealError as error:  # clients must not learn where the record is kept
            found["problem"] = hidden(str(error).replace(shown_place(self._place), "the campaign"))
        finally:
            self.document = {**self.document, **found, "ended": now()}

    def _progress(self, done: int, total: int) -> None:
        self.document = {**self.document, "done": done, "total": total}


class Verify(Body):
    """An earlier head that the record must contain."""

    head: str | None = Field(default=None, description="`head` of an earlier status.", examples=[None])


_VERIFY = Verify()
_JOB = {"job": "9f86d081884c7d65", "head": None, "state": RUNNING, "done": 120, "total": 4000, "ledger": None}


@checking.post("/verify", status_code=202, responses=request.answers(_JOB, status=202))
async def verify(call: InCampaign, body: Verify = _VERIFY) -> Response:
    """Start to recompute every certificate from the record.

    One verification runs at a time; while one runs, it is the answer, unless it is for another `head`.
    """
    hosted = call.hosted
    if hosted.verification is None or not hosted.verification.is_running:
        hosted.verification = Verification(hosted.place, body.head, call.caller.name)
    elif hosted.verification.document["head"] != body.head:
        raise Busy("a verification for another head is running; send this again when it is done")
    return JSONResponse(hosted.verification.document, 202)


@checking.get("/verify", responses=request.answers(_JOB))
async def last_verification(call: InCampaign) -> Response:
    """Return the progress and ledger of this server's last verification; another `job` than yours began later."""
    found = call.hosted.verification
    return JSONResponse({"job": None, "state": "none"} if found is None else found.document)


Form = Annotated[Literal["json", "csv"], Query(alias="format", description="One JSON document, or three tables in a zip.")]


@checking.get("/export")
async def export(call: InCampaign, form: Form = "json") -> Response:
    """Export the whole record for other programs."""
    copy, size = await call.service.in_slow_thread(_exported, call.hosted.place, form)
    kind, ending = ("application/json", "json") if form == "json" else ("application/zip", "zip")
    headers = {"Content-Length": str(size), "Content-Disposition": f'attachment; filename="{call.hosted.name}.{ending}"'}
    return StreamingResponse(_read(copy), media_type=kind, headers=headers)


def _exported(place: str, form: str) -> tuple[IO[bytes], int]:
    """Return the whole record as an open file, and its size in bytes.

    The file is unlinked already, so that nothing is left of it, however its reader ends.
    """
    with tempfile.TemporaryDirectory(prefix="safe2real-export-") as folder, Campaign.open(place) as campaign:
        file = Path(folder) / "record"
        if form == "json":
            export_json(campaign, file)
        else:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
                for table in export_csv(campaign, Path(folder) / "tables"):
                    packed.write(table, table.name)
        return file.open("rb"), file.stat().st_size


async def _read(copy: IO[bytes]) -> AsyncIterator[bytes]:
    with copy:
        while part := await asyncio.to_thread(copy.read, _PART):
            yield part
