"""The SQL journal: an SQLite file by default, PostgreSQL by URL, the same statements for both (SQLAlchemy Core).

A database holds one campaign; on PostgreSQL a schema of its own is enough (`?options=-csearch_path=name`). One writer at a
time: SQLite's write lock, or a lock on the campaign's row. A write that has returned is on disk: SQLite runs in WAL mode
with synchronous = FULL.

The tables: the campaign (one row, the specification), its events (append only), the policies that the events name, each
stored once under the digest of its content. Two more that a record may do without: signatures of events, and a snapshot that
saves a new process from reading the whole record (`snapshot`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, ProgrammingError

from safe2real.campaign.events import BEFORE_THE_FIRST, Event, by_field
from safe2real.campaign.journal.base import Header, Journal, Transaction, check_format
from safe2real.campaign.journal.postgresql import bound_idleness, postgresql_engine
from safe2real.campaign.journal.sqlite import SQLiteFile, integrity_problems
from safe2real.campaign.journal.url import harmless_cause, parse_place, shown_place, without_secrets
from safe2real.campaign.signing import Signature
from safe2real.errors import Conflict, StorageFailure

_tables = sql.MetaData()
campaign_table = sql.Table(
    "safe2real_campaign",
    _tables,
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("name", sql.String(32), primary_key=True),
    sql.Column("specification", sql.Text, nullable=False),
)
_events = sql.Table(
    "safe2real_event",
    _tables,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("deployment", sql.Integer),
    sql.Column("worker", sql.Text),
    sql.Column("at", sql.String(40), nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("digest", sql.String(64), nullable=False),
    # The rules of the record hold in the database too: one ask, one tell and one abandonment for each deployment.
    sql.UniqueConstraint("deployment", "kind"),
)
_policies = sql.Table(
    "safe2real_policy",
    _tables,
    sql.Column("digest", sql.String(64), primary_key=True),
    sql.Column("content", sql.LargeBinary, nullable=False),
)
_signatures = sql.Table(
    "safe2real_signature",
    _tables,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("signer", sql.Text, nullable=False),
    sql.Column("signature", sql.String(64), nullable=False),
)
_snapshots = sql.Table(
    "safe2real_snapshot",
    _tables,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),  # of the last event it covers
    sql.Column("digest", sql.String(64), nullable=False),  # of that event
    sql.Column("content", sql.LargeBinary, nullable=False),
)

PATIENCE = 60.0  # seconds to wait for another writer
_UNREACHABLE = "the server cannot be reached; nothing is known of this call: repeat it, an episode is never counted twice"
DAMAGED = "the file is damaged or cut short; restore a copy, or save the rest with SQLite's .recover (docs/campaigns.md)"
_FULL = "the disk is full: nothing of this call was recorded, all before it is; free some space and try again"
_READ_ONLY = "it can only be read; make the file and its folder writable, then try again"
_LOCKED = f"another process has been writing for {PATIENCE:.0f} s; try again, and look for a process that hangs"
_REFUSED = "the server refused the user; check the user and the password"
# What databases say, and what helps.
_CURES = {
    "disk is full": _FULL,
    "No space left": _FULL,
    "read-only transaction": "the server only reads here; give the address of one that writes, or a user who may write",
    "readonly": _READ_ONLY,
    "read-only": _READ_ONLY,
    "not a database": "the file is not an SQLite database; check the name",
    "malformed": DAMAGED,
    "locked": _LOCKED,
    "lock timeout": _LOCKED,
    "unable to open": "it cannot be opened; check that the folder exists and that you may read and write there (a file with "
    "a -wal beside it has to be in a folder that you may write to; copy both)",
    "disk I/O error": "reading or writing failed; check the disk, then repeat the call: all before it is recorded, and an "
    "episode is never counted twice",
    'database "': "the server has no such database for you; create the database first, or check its name and your rights",
    'role "': _REFUSED,
    "password": _REFUSED,
    "statement timeout": "the server took too long and gave the statement up; nothing of this call was recorded: try again, "
    "and look at the load of the server",
    "idle-in-transaction timeout": "the server ended a transaction that had held the campaign's lock and done nothing for "
    "too long (was this process stopped?); nothing of this call was recorded: repeat it",
    "no answer on this connection": "the network or the server has died on the way; nothing is known of this call: repeat "
    "it, an episode is never counted twice",
    "onnection": _UNREACHABLE,
}

_BATCH = 20_000  # rows read or written at once
_PARAMETERS = 500  # in one statement
_CREATING = 0x5AFE2EA1  # the name of a lock on a PostgreSQL database


def _in_order(table: sql.Table, *within: sql.ColumnElement[bool]) -> sql.Select[Any]:
    """Select the rows of a table by sequence, at most a batch of those after one of them."""
    after = table.c.sequence > sql.bindparam("after")
    return sql.select(table).where(after, *within).order_by(table.c.sequence).limit(_BATCH)


# Made once: every ask and tell, and a check of a long record thousands of times, would compose them anew.
_POLICY = sql.select(_policies.c.content).where(_policies.c.digest == sql.bindparam("digest"))
_POLICIES_THERE = sql.select(_policies.c.digest).where(_policies.c.digest.in_(sql.bindparam("digests", expanding=True)))
_IDENTITY = sql.select(campaign_table.c.name, _events.c.digest).select_from(
    campaign_table.outerjoin(_events, _events.c.sequence == sql.bindparam("sequence"))
)
_LAST = sql.select(_events.c.sequence, _events.c.digest).order_by(_events.c.sequence.desc()).limit(1)
_OF_DEPLOYMENT = sql.select(_events).where(_events.c.deployment == sql.bindparam("deployment"))
_EVENTS = _in_order(_events)
_EVENTS_UNTIL = _in_order(_events, _events.c.sequence <= sql.bindparam("until"))
_EVENTS_OF_KIND = _in_order(_events, _events.c.kind == sql.bindparam("kind"))
_SIGNATURES = _in_order(_signatures)


class SQLJournal(Journal):
    """One campaign's database. Open it anew in every process; a connection must not cross a fork."""

    def __init__(self, url: str | os.PathLike[str], *, new: bool = False) -> None:
        """`new` allows a file that does not exist yet; nothing is written before `created`."""
        self.url = parse_place(url)
        self.place = shown_place(self.url)
        self.file: SQLiteFile | None = None  # None on a server
        self._process = os.getpid()
        if self.url.get_backend_name() == "sqlite":
            self.file = SQLiteFile(Path(str(self.url.database)), new=new, patience=PATIENCE)
            self._engine = self.file.engine(self.url)
        else:
            self._engine = postgresql_engine(self.url, self.place, lock_patience=PATIENCE)

    def close(self) -> None:
        """Release the connections; finished transactions are on disk already."""
        self._engine.dispose(close=self._process == os.getpid())

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[SQLTransaction]:
        undisturbed = nullcontext() if writing or self.file is None else self.file.undisturbed()
        with undisturbed, self._connected(writing=writing) as connection:
            if writing and self.file is None:
                bound_idleness(connection)
                connection.execute(sql.select(campaign_table.c.name).with_for_update())
            yield SQLTransaction(connection, self.place)
            if writing and self.file is not None:
                self.file.check_in_place(connection)

    @contextmanager
    def created(self, header: Header) -> Iterator[SQLTransaction]:
        """The tables and the campaign's row, in a place that has none; nothing is there if the block fails."""
        if self.file is not None and not self.file.read_only:
            try:
                self.file.prepare(self._engine)
            except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
                raise StorageFailure(explained(error, self.place)) from error
        with self._connected(writing=True) as connection:
            if self.file is None:  # there is no row to lock yet; of two creators one has to wait
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATING)))
            present = sql.inspect(connection).get_table_names()
            if campaign_table.name in present:
                raise Conflict(f"{self.place} holds a campaign already; open it, or choose another place for a new one")
            if present and self.file is not None:
                raise Conflict(
                    f"{self.place} is the database of something else (tables {', '.join(present[:5])}); choose another"
                )
            _tables.create_all(connection)
            connection.execute(campaign_table.insert().values(**asdict(header)))
            transaction = SQLTransaction(connection, self.place)
            transaction.keys = self.keys
            yield transaction

    @contextmanager
    def _connected(self, *, writing: bool) -> Iterator[sql.Connection]:
        if os.getpid() != self._process:
            raise StorageFailure(
                f"{self.place} was opened in process {self._process} and is used in {os.getpid()}, its fork; "
                "open the campaign again in each process"
            )
        if writing and self.file is not None and self.file.read_only:
            raise StorageFailure(
                f"{self.place} can only be read; make the file and its folder writable, then open the campaign again"
            )
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(safe2real_writing=writing)
                with connection.begin():
                    yield connection
                if writing and self.file is not None:  # before anything is acknowledged
                    self.file.check_in_place(connection)
        # A damaged schema shows while the connection is prepared, where SQLAlchemy does not wrap what the driver raises.
        except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
            raise StorageFailure(explained(error, self.place)) from harmless_cause(error)


class SQLTransaction(Transaction):
    """A transaction on one connection."""

    def __init__(self, connection: sql.Connection, place: str) -> None:
        self._connection, self.place = connection, place

    def identity(self, sequence: int) -> tuple[str | None, str | None]:
        rows = self._connection.execute(_IDENTITY, {"sequence": sequence}).all()
        return (str(rows[0].name), rows[0].digest) if len(rows) == 1 else (None, None)

    def header(self) -> Header | None:
        if not sql.inspect(self._connection).has_table(campaign_table.name):
            return None
        formats = self._connection.execute(sql.select(campaign_table.c.format)).scalars().all()
        if len(formats) != 1:
            raise StorageFailure(f"{self.place} holds {len(formats)} campaigns where one belongs; restore a copy")
        check_format(formats[0], self.place)  # before columns are read that a newer format may not have
        row = self._connection.execute(sql.select(campaign_table.c.name, campaign_table.c.specification)).one()
        return Header(row.name, row.specification, formats[0])

    def put_header(self, header: Header) -> None:
        self._connection.execute(campaign_table.update().values(**asdict(header)))

    def events(self, after: int = 0, until: int | None = None) -> Iterator[Event]:
        found = self._rows(_EVENTS, after) if until is None else self._rows(_EVENTS_UNTIL, after, until=until)
        for row in found:
            if None in (row.kind, row.at, row.body, row.digest):  # the table allows none: a lost page reads as zeros
                raise StorageFailure(f"{self.place}: an event after number {after} cannot be read: {DAMAGED}")
            yield Event(*row)

    def put_events(self, events: Sequence[Event]) -> None:
        self._insert(_events, [by_field(event) for event in events])

    def last(self) -> tuple[int, str]:
        row = self._connection.execute(_LAST).first()
        return (0, BEFORE_THE_FIRST) if row is None else (row.sequence, row.digest)

    def digest_at(self, sequence: int) -> str | None:
        chosen = sql.select(_events.c.digest).where(_events.c.sequence == sequence)
        return self._connection.execute(chosen).scalar_one_or_none()

    def events_of(self, deployment: int) -> dict[str, Event]:
        rows = self._connection.execute(_OF_DEPLOYMENT, {"deployment": deployment})
        return {row.kind: Event(*row) for row in rows}

    def events_of_kind(self, kind: str) -> Iterator[Event]:
        return (Event(*row) for row in self._rows(_EVENTS_OF_KIND, 0, kind=kind))

    def blob(self, name: str) -> bytes | None:
        row = self._connection.execute(_POLICY, {"digest": name}).first()
        return None if row is None else self._content(name, row.content)

    def put_blobs(self, blobs: Mapping[str, bytes]) -> None:
        self._insert(_policies, [{"digest": name, "content": content} for name, content in blobs.items()])

    def has_blobs(self, names: Sequence[str]) -> set[str]:
        parts = [names[first : first + _PARAMETERS] for first in range(0, len(names), _PARAMETERS)]
        return {name for part in parts for name in self._connection.execute(_POLICIES_THERE, {"digests": part}).scalars()}

    def policies(self) -> Iterator[tuple[str, bytes]]:
        for row in self._connection.execute(sql.select(_policies).order_by(_policies.c.digest)):
            yield row.digest, self._content(row.digest, row.content)

    def signatures(self) -> Iterator[Signature]:
        return (Signature(*row) for row in self._rows(_SIGNATURES, 0))

    def is_signed(self) -> bool:
        first = sql.select(_signatures.c.sequence).where(_signatures.c.sequence == 1)
        return self._connection.execute(first).first() is not None

    def put_signatures(self, signatures: Sequence[Signature]) -> None:
        self._insert(_signatures, [asdict(one) for one in signatures])

    def snapshot(self) -> tuple[int, str, bytes] | None:
        row = self._connection.execute(sql.select(_snapshots).order_by(_snapshots.c.sequence.desc()).limit(1)).first()
        if row is None or self.digest_at(row.sequence) != row.digest:
            return None
        content = row.content if isinstance(row.content, (bytes, memoryview)) else b""  # which no seal fits
        return row.sequence, row.digest, bytes(content)

    def keep_snapshot(self, sequence: int, digest: str, content: bytes) -> None:
        self._connection.execute(_snapshots.delete())
        self._insert(_snapshots, [{"sequence": sequence, "digest": digest, "content": content}])

    def damage(self) -> list[str]:
        return integrity_problems(self._connection) if self._connection.dialect.name == "sqlite" else []

    def _rows(self, chosen: sql.Select[Any], after: int, **given: Any) -> Iterator[Any]:
        """Read the chosen rows by sequence, in batches."""
        while True:
            rows = self._connection.execute(chosen, {"after": after, **given}).all()
            yield from rows
            if len(rows) < _BATCH:
                return
            after = rows[-1].sequence

    def _insert(self, table: sql.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        for first in range(0, len(rows), _BATCH):
            self._connection.execute(table.insert(), rows[first : first + _BATCH])

    def _content(self, name: Any, content: Any) -> bytes:
        if not isinstance(content, (bytes, memoryview)):  # of a number, `bytes` would make so many zeros
            raise StorageFailure(f"{self.place}: the policy {str(name)[:12]} cannot be read: {DAMAGED}")
        return bytes(content)


def explained(error: DBAPIError | sqlite3.Error | UnicodeDecodeError, place: str) -> str:
    """Return what a database said when it failed, with what helps and without secrets."""
    if isinstance(error, UnicodeDecodeError):  # a name in a damaged schema, which the driver wanted to tell of
        return f"{place}: {DAMAGED}"
    said = without_secrets(str(error.orig if isinstance(error, DBAPIError) else error).strip())
    for sign, cure in _CURES.items():
        if sign in said:
            return f"{place}: {cure} ({said.splitlines()[0]})"
    if isinstance(error, DBAPIError) and error.connection_invalidated:  # perhaps after the commit, so promise nothing
        return f"{place}: {_UNREACHABLE} ({said.splitlines()[0] if said else type(error).__name__})"
    what = "the database refused" if isinstance(error, ProgrammingError) else "the database failed"
    return f"{place}: {what}; nothing of this call was recorded ({said.splitlines()[0] if said else type(error).__name__})"
