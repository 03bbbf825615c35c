"""What is left of a damaged SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError

from safe2real.campaign.events import Event
from safe2real.campaign.journal.base import Header
from safe2real.campaign.journal.error_messages import PATIENCE, explained
from safe2real.campaign.journal.sql import SQLJournal
from safe2real.campaign.journal.sqlite import read_only_engine
from safe2real.campaign.journal.sqlite_pages import readable_rows
from safe2real.campaign.journal.tables import campaign
from safe2real.campaign.journal.tables import events as events_table
from safe2real.errors import InvalidInput


def salvage(url: str | os.PathLike[str]) -> tuple[Header | None, list[Event], str]:
    """What can still be read of a damaged SQLite file: header, events by sequence, and what SQLite says is wrong, or "".

    Events may be missing in between, or changed: only those are as they were written that `Event.digest_after` chains to
    the first.
    """
    storage = SQLJournal(url)
    if storage.file is None:
        raise InvalidInput(f"{storage.place} is not an SQLite file; only a file can be salvaged")
    path = storage.file.path
    engine = read_only_engine(path, PATIENCE)
    headers: list[Sequence[Any]] = []
    rows: list[Sequence[Any]] = []
    damage = ""
    try:
        with engine.connect() as connection:
            # Lets SQLite read a file that is shorter than it says it is.
            connection.exec_driver_sql("PRAGMA writable_schema = ON")
            headers += connection.execute(sql.select(campaign)).all()
            one_by_one = sql.select(events_table).order_by(events_table.c.sequence).execution_options(yield_per=1)
            rows += connection.execute(one_by_one)
    except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
        damage = explained(error, storage.place)
    finally:
        engine.dispose()
    for number, values in readable_rows(path):  # also from pages that SQLite does not reach any more
        if len(values) == len(campaign.c):
            headers.append(values)
        elif len(values) == len(events_table.c) and values[0] is None:  # SQLite keeps the primary key as the row's number
            rows.append([number, *values[1:]])
    whole = [row for row in headers if isinstance(row[0], int) and isinstance(row[1], str) and isinstance(row[2], str)]
    header = Header(whole[0][1], whole[0][2], whole[0][0]) if whole else None
    events: dict[int, Event] = {}
    for event in (Event(*row) for row in rows):
        if event.is_well_typed:
            events.setdefault(event.sequence, event)
    return header, [event for _, event in sorted(events.items())], damage
