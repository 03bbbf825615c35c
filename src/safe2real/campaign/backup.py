"""A copy of a running campaign, taken while others write; and the way back from one.

`cp` copies a file while it changes, and leaves out NAME-wal, where the newest events are. SQLite's own backup copies one
moment. The copy is opened and its end compared before it gets its name.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from safe2real.campaign.journal.sql import SQLJournal
from safe2real.campaign.journal.sqlite import connect_to_file_alone, log_of
from safe2real.errors import Conflict, InvalidInput, StorageFailure

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
