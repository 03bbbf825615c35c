"""A copy of a running campaign, taken while others write; and the way back from one.

`cp` copies a file while it changes, and leaves out NAME-wal, where the newest events are. SQLite's own backup copies one
moment. The copy is opened and its end compared before it gets its name.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.events import CREATE, Event, chained
from safe2real.campaign.journal import FORMAT, Header, journal_at
from safe2real.campaign.journal.sql import SQLJournal
from safe2real.campaign.journal.sqlite import connect_to_file_alone, log_of
from safe2real.campaign.signing import KEY_FILE, Signature, keys_from_environment
from safe2real.campaign.verify import Checker, check_record
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.exploration.learner import Learner
from safe2real.methods.document import problem_and_method
from safe2real.model.serialization import digest_of, from_text, to_text
from safe2real.model.validation import shown

_PAGES = 10_000  # copied at a time; a writer gets its turn in between


def back_up(url: str | os.PathLike[str], copy: Path) -> dict[str, Any]:
    """Write a copy of the SQLite campaign at `url`; returns its last event's number and digest. Nothing is overwritten."""
    journal = SQLJournal(url)
    try:
        if journal.file is None:
            raise InvalidInput(
                f"{journal.place} is on a server, which is backed up with PostgreSQL's own tools (pg_dump, or a base backup "
                "and its write-ahead log); `safe2real campaign export` writes one document with the whole record"
            )
        for taken in (copy, log_of(copy)):
            if taken.exists():
                raise Conflict(f"{taken} exists already; a backup overwrites nothing: give another name")
        journal.header()  # refuses what is not a campaign
        try:
            # A folder of its own, on the same disk: whatever SQLite writes beside the copy is gone with it.
            with tempfile.TemporaryDirectory(prefix=f".{copy.name}.", suffix=".part", dir=copy.parent) as folder:
                draft = Path(folder) / copy.name
                _copy_file(journal.file.path, draft)
                end = _end_of(draft)
                _flush(draft)
                draft.replace(copy)
        except (OSError, sqlite3.Error) as error:
            raise StorageFailure(f"{copy} could not be written ({error}); check the folder and its disk") from error
        with journal.reading() as transaction:
            if transaction.digest_at(end[0]) != end[1]:
                copy.unlink(missing_ok=True)
                raise StorageFailure(f"{journal.place} was changed while it was copied; no backup was made: try again")
        return {"file": str(copy), "events": end[0], "head": end[1]}
    finally:
        journal.close()


def _copy_file(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source, timeout=60.0)) as opened, closing(sqlite3.connect(target)) as copy:
        opened.backup(copy, pages=_PAGES)
        # One file, whatever is done with it: without this a reader would need to write a log beside it.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    with closing(sqlite3.connect(target)) as copy:
        copy.execute("PRAGMA journal_mode = WAL").fetchall()


def _end_of(path: Path) -> tuple[int, str]:
    with closing(connect_to_file_alone(path)) as copy:
        damage = copy.execute("PRAGMA integrity_check(1)").fetchone()
        if damage != ("ok",):
            raise StorageFailure(f"the copy of the file is damaged ({damage[0]}), so the file is too: run verify")
        row = copy.execute("SELECT sequence, digest FROM safe2real_event ORDER BY sequence DESC LIMIT 1").fetchone()
    if row is None:
        raise StorageFailure("the record is empty; there is nothing to back up")
    return int(row[0]), str(row[1])


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


# A campaign made again from what `export` wrote, as far as it can be proved.
#
# Nothing in the document is believed: the specification has to be the one that the first event names, each event has to
# follow from the one before it, and every deployment is checked as `verify` does. The first event with which something is
# wrong, and all after it, are left out. What is loaded is the same record with the same digests; it goes on as a new branch.


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading a document."""

    campaign: str
    events: int  # that are in the new record, without the one that says where it is from
    left_out: int
    why: str  # "" when nothing is left out
    head: str  # digest of the last event that was in the document


def load_record(url: str | os.PathLike[str], document: Any, reason: str) -> Loaded:
    """Make a campaign at `url` from an exported document; `reason` is kept in the event that says it is a new branch."""
    name, text, events, signatures, policies = _parts(document)
    keys = keys_from_environment()
    if bool(signatures) != (keys is not None):
        state = "signed, and this process has no key" if signatures else "not signed, and this process has a key"
        raise InvalidInput(f"the record in the document is {state}, so it cannot go on here; see {KEY_FILE}")
    if not events or events[0].kind != CREATE:
        raise InvalidInput("the document does not hold the record's first event, so nothing in it can be proved")
    first = from_text(events[0].body, "the first event")
    if not isinstance(first, Mapping) or first.get("specification") != digest_of(text.encode()):
        raise InvalidInput("the specification of the document is not the one that the record's first event names")
    learner = Learner(*problem_and_method(text), warm_start=False, trust_margin=True)
    whole = chained(events)
    ledger = check_record(Checker(name, digest_of(text.encode()), learner, policies.get), events[:whole])
    broken = min((one.sequence for one in ledger.problems), default=whole + 1)
    proved = events[: broken - 1]
    if not proved:
        raise InvalidInput(f"nothing of the document can be proved: {ledger.problems[0].what}")
    why = ledger.problems[0].what if ledger.problems else ""
    if not why and whole < len(events):
        why = f"event {whole + 1} is missing or was changed"
    journal = journal_at(url, new=True)
    try:
        with journal.created(Header(name, text, FORMAT)) as transaction:
            transaction.put_blobs(policies)
            transaction.put_events(proved)
            transaction.put_signatures([one for one in signatures if one.sequence <= len(proved)])
    finally:
        journal.close()
    with Campaign.open(url) as made:
        made.branch(reason)
    return Loaded(name, len(proved), len(events) - len(proved), why, proved[-1].digest)


def _parts(document: Any) -> tuple[str, str, list[Event], list[Signature], dict[str, bytes]]:
    """(name, text of the specification, events, signatures, policies) of a document of the right form."""
    wanted = {"campaign": str, "specification": dict, "events": list, "policies": dict}
    for key, kind in wanted.items():
        if not isinstance(document, Mapping) or not isinstance(document.get(key), kind):
            raise InvalidInput(f"the document has no {key!r} that can be used; give what `campaign export` has written")
    events = [_event(entry, f"events[{index}]") for index, entry in enumerate(document["events"])]
    policies = {}
    for digest, content in document["policies"].items():
        # A policy that was changed is as good as missing: the events that name it are left out.
        if isinstance(content, str) and digest_of(content.encode()) == digest:
            policies[digest] = content.encode()
    signatures = []
    for entry in document.get("signatures", []):
        if not isinstance(entry, list) or [type(part) for part in entry] != [int, str, str]:
            raise InvalidInput(f"signatures has {shown(entry)}; give [sequence, signer, signature]")
        signatures.append(Signature(*entry))
    return document["campaign"], to_text(document["specification"]), events, signatures, policies


def _event(entry: Any, where: str) -> Event:
    names = [field.name for field in fields(Event)]
    if not isinstance(entry, Mapping) or set(entry) != set(names):
        raise InvalidInput(f"{where} is {shown(entry)}; give an object with {', '.join(names)}")
    event = Event(**entry)
    if not event.is_well_typed:
        raise InvalidInput(f"{where} is {shown(entry)}, which is not an event as it was exported")
    return event
