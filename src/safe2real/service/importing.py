"""A log of earlier episodes as it arrives: JSON Lines, kept on disk until all of it is here, then recorded, all or none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from starlette.requests import Request

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import receipt_document
from safe2real.campaign.import_log import Overlap
from safe2real.errors import InvalidInput
from safe2real.model.input_size import human, text_limit
from safe2real.model.serialization import check_keys, check_unpacked, from_text, policy_from_json
from safe2real.model.validation import shown
from safe2real.service.limits import Limits, chunks
from safe2real.service.problems import TOKEN_IN_BYTES, WrongType
from safe2real.service.request import boolean

_IN_MEMORY = 8 << 20
BASELINE = "baseline"


async def received(request: Request, limits: Limits) -> IO[bytes]:
    """The body in a temporary file, at its beginning."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-ndjson", "application/jsonl"):
        raise WrongType("content-type is not application/x-ndjson; send JSON Lines, the first of which says what the log is")
    spool: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (closed by whoever reads it)
    try:
        async for part in chunks(request, limit=limits.log, seconds=limits.importing):
            spool.write(part)
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return spool


@dataclass(frozen=True, eq=False, slots=True)
class ReceivedLog:
    """A log whose lines were read once and are all right; its episodes are read again as they are needed."""

    head: dict[str, Any]  # what the first line says of it
    count: int  # episodes
    file: IO[bytes]

    def episodes(self) -> Iterator[Any]:
        """Every episode object, in order."""
        self.file.seek(0)
        lines = (from_text(line, "the log") for line in self.file if line.strip())
        next(lines)
        return lines


def read(log: IO[bytes]) -> ReceivedLog:
    """Look at all of a log; at the first line that is neither its head nor an episode all is refused.

    It may take long, and needs no campaign: machines ask and tell meanwhile.
    """
    try:
        lines, count = _lines(log), 0
        head = check_keys(
            next(lines, None), "line 1 of the log", required=("source",), optional=("policy", "partial", "overlap")
        )
        if head.get("overlap", Overlap.REFUSE.value) not in list(Overlap):
            raise InvalidInput(f"overlap is {str(head['overlap'])[:40]!r}; give one of {', '.join(Overlap)}")
        for count, document in enumerate(lines, 1):
            if not (isinstance(document, Mapping) and "states" in document and "actions" in document):
                raise InvalidInput(
                    f"episode {count} of the log is {shown(document)}; give an object with states and actions"
                )
    except BaseException:
        log.close()
        raise
    return ReceivedLog(head, count, log)


def import_log(campaign: Campaign, log: ReceivedLog) -> dict[str, Any]:
    """Record a log, by the policy and with the meaning of overlaps that its head names."""
    head = log.head
    given, model = head.get("policy", BASELINE), campaign.problem.simulator
    policy = (
        campaign.problem.baseline
        if given == BASELINE
        else policy_from_json(given, "policy", horizon=model.horizon, num_states=model.num_states)
    )
    overlap = Overlap(head.get("overlap", Overlap.REFUSE.value))
    with log.file:
        receipt = campaign.import_log(
            head["source"], policy, log.episodes(), partial=boolean(head, "partial"), overlap=overlap
        )
    counts = {"episodes": log.count, "skipped": receipt.skipped}
    return {"source": head["source"], **counts, **receipt_document(receipt)}


def _lines(log: IO[bytes]) -> Iterator[Any]:
    """One document for each line that is not empty."""
    longest, number = text_limit(), 0
    while line := log.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise InvalidInput(f"line {number} of the log is longer than {human(longest)}; one episode is one line")
        if TOKEN_IN_BYTES.search(line):
            raise InvalidInput(f"line {number} of the log holds a token, which must not be recorded; leave it out")
        if line.strip():
            document = from_text(line, f"line {number} of the log")
            check_unpacked(document, f"line {number} of the log")
            yield document
