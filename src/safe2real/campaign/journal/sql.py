"""Where events are kept: one SQLite file by default, PostgreSQL by URL, the same statements for both (SQLAlchemy Core).

A database holds one campaign; on PostgreSQL a schema of its own is enough (`?options=-csearch_path=name`). One writer at a
time: SQLite's write lock, or a lock on the campaign's row. A write that has returned is on disk: SQLite runs in WAL mode
with synchronous = FULL. Every transaction begins by looking whether this is still the record that the process knows: one
that was restored from a backup, or that a standby server has only in part, is refused before anything is written to it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, ProgrammingError

from safe2real.campaign.events import BEFORE_THE_FIRST, CREATE, Draft, Event, event_after
from safe2real.campaign.journal.places import harmless_cause, parse_place, shown_place, without_secrets
from safe2real.campaign.journal.postgresql import bound_idleness, postgresql_engine
from safe2real.campaign.journal.sqlite import SQLiteFile, integrity_problems
from safe2real.campaign.journal.tables import FORMAT
from safe2real.campaign.journal.tables import campaign as _campaign
from safe2real.campaign.journal.tables import events as _events
from safe2real.campaign.journal.tables import policies as _policies
from safe2real.campaign.journal.tables import signatures as _signatures
from safe2real.campaign.journal.tables import snapshots as _snapshots
from safe2real.campaign.journal.tables import tables as _tables
from safe2real.campaign.signing import KEY_FILE, Keys, Signature
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.model.encoding import digest_of

_PATIENCE = 60.0  # seconds to wait for another writer
_BATCH = 20_000  # events read at once
_PARAMETERS = 500  # in one statement
_CREATING = 0x5AFE2EA1  # the name of a lock on a PostgreSQL database

# Made once: a check of a long record asks thousands of times.
_POLICY = sql.select(_policies.c.content).where(_policies.c.digest == sql.bindparam("digest"))


@dataclass(frozen=True, slots=True)
class Header:
    """The campaign's row."""

    name: str  # random, part of every deployment's id
    specification: str  # JSON
    format: int  # of the record


class Storage:
    """One campaign's database. Open it anew in every process; a connection must not cross a fork."""

    def __init__(self, url: str | os.PathLike[str], *, new: bool = False, keys: Keys | None = None) -> None:
        """`new` allows a file that does not exist yet; nothing is written before `create`. `keys` sign what is added."""
        self.keys = keys
        self.url = parse_place(url)
        self.place = shown_place(self.url)
        self.file: SQLiteFile | None = None  # None on a server
        self._process = os.getpid()
        self._name: str | None = None  # of the campaign, once it was read
        self._known = (0, BEFORE_THE_FIRST)  # sequence and digest of an event that the record must go on to hold
        if self.url.get_backend_name() == "sqlite":
            self.file = SQLiteFile(Path(str(self.url.database)), new=new, patience=_PATIENCE)
            self._engine = self.file.engine(self.url)
        else:
            self._engine = postgresql_engine(self.url, self.place, lock_patience=_PATIENCE)

    @property
    def read_only(self) -> bool:
        return self.file is not None and self.file.read_only

    def close(self) -> None:
        """Give connections back; what was written is on disk already."""
        self._engine.dispose(close=self._process == os.getpid())

    def remember(self, sequence: int, digest: str) -> None:
        """From now on the record must hold this event: a transaction on one that does not is refused."""
        if sequence > self._known[0]:
            self._known = (sequence, digest)

    # Reading

    def header(self) -> Header:
        """The campaign's row; refuses a database without one, or one written by a newer version."""
        with self.reading() as transaction:
            header = transaction.header()
        self._name = header.name
        return header

    @contextmanager
    def reading(self, *, as_it_is: bool = False) -> Iterator[Transaction]:
        """A consistent view; nothing is locked for others. `as_it_is` reads also what is not the record that was known."""
        with ExitStack() as stack:
            if self.file is not None:
                stack.enter_context(self.file.undisturbed())
            connection = stack.enter_context(self._connected(writing=False))
            transaction = Transaction(connection, self.place, self.keys)
            if not as_it_is:
                self._recognise(transaction)
            yield transaction

    # Writing

    def create(self, name: str, specification: str, body: Any) -> None:
        """Make the tables and the first event, all or nothing."""
        with self.created(name, specification) as transaction:
            transaction.append([Draft(CREATE, body)])

    @contextmanager
    def created(self, name: str, specification: str) -> Iterator[Transaction]:
        """The tables and the campaign's row, in a place that has none; nothing is there if the block fails."""
        if self.file is not None and not self.read_only:
            try:
                self.file.prepare(self._engine)
            except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
                raise StorageFailure(_explained(error, self.place)) from error
        with self._connected(writing=True) as connection:
            if self.file is None:  # there is no row to lock yet; of two creators one has to wait
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATING)))
            present = sql.inspect(connection).get_table_names()
            if _campaign.name in present:
                raise Conflict(f"{self.place} holds a campaign already; open it, or choose another place for a new one")
            if present and self.file is not None:
                raise Conflict(
                    f"{self.place} is the database of something else (tables {', '.join(present[:5])}); choose another"
                )
            _tables.create_all(connection)
            connection.execute(_campaign.insert().values(format=FORMAT, name=name, specification=specification))
            yield Transaction(connection, self.place, self.keys)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The only writer until the end of the block, which makes everything durable, or nothing after an error."""
        with self._connected(writing=True) as connection:
            if self.file is None:
                bound_idleness(connection)
                connection.execute(sql.select(_campaign.c.name).with_for_update())
            transaction = Transaction(connection, self.place, self.keys)
            self._recognise(transaction)
            yield transaction
            if self.file is not None:
                self.file.check_in_place(connection)
        if transaction.added is not None:
            self.remember(*transaction.added)

    # Connections

    def _recognise(self, transaction: Transaction) -> None:
        """Refuse a database that is not the one this process has seen before."""
        if self._name is not None and transaction.name() != self._name:
            raise StorageFailure(
                f"{self.place} was campaign {self._name} and is {transaction.name() or 'none'} now: another database was "
                "put in its place, and nothing was written to it. Open the campaign again"
            )
        sequence, digest = self._known
        found = transaction.digest_at(sequence) if sequence else digest
        if found != digest:
            end, _ = transaction.last()
            how = f"ends with event {end} now" if found is None else "holds another event in its place now"
            raise StorageFailure(
                f"{self.place} went back: this process has seen event {sequence} of the record, which {how} (a backup was "
                "restored, or a standby took over that had not received everything). Nothing was written. Open the campaign "
                "again to go on from the record as it is; say once that it is a new branch with `safe2real campaign branch`"
            )

    @contextmanager
    def _connected(self, *, writing: bool) -> Iterator[sql.Connection]:
        if os.getpid() != self._process:
            raise StorageFailure(
                f"{self.place} was opened in process {self._process} and is used in {os.getpid()}, its fork; "
                "open the campaign again in each process"
            )
        if writing and self.read_only:
            raise StorageFailure(
                f"{self.place} can only be read; make the file and its folder writable, then open the campaign again"
            )
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(safe2real_writing=writing)
                with connection.begin():
                    yield connection
        # A damaged schema shows while the connection is prepared, where SQLAlchemy does not wrap what the driver raises.
        except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
            raise StorageFailure(_explained(error, self.place)) from harmless_cause(error)


class Transaction:
    """What can be read and added while a connection is held."""

    def __init__(self, connection: sql.Connection, place: str, keys: Keys | None) -> None:
        self._connection = connection
        self._place = place
        self._keys = keys
        self.added: tuple[int, str] | None = None  # sequence and digest of the last event that was appended here

    def name(self) -> str | None:
        """The campaign's name in the database; None where there is none, or not one."""
        names = self._connection.execute(sql.select(_campaign.c.name)).scalars().all()
        return str(names[0]) if len(names) == 1 else None

    def digest_at(self, sequence: int) -> str | None:
        """The digest of one event, by its place in the record."""
        chosen = sql.select(_events.c.digest).where(_events.c.sequence == sequence)
        return self._connection.execute(chosen).scalar_one_or_none()

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its pages and indexes; empty when nothing is, or on a server."""
        return integrity_problems(self._connection) if self._connection.dialect.name == "sqlite" else []

    def header(self) -> Header:
        if not sql.inspect(self._connection).has_table(_campaign.name):
            raise StorageFailure(
                f"{self._place} holds no campaign; make one with Campaign.create or `safe2real campaign init`"
            )
        formats = self._connection.execute(sql.select(_campaign.c.format)).scalars().all()
        if len(formats) != 1:
            raise StorageFailure(f"{self._place} holds {len(formats)} campaigns where one belongs; restore a copy")
        if not isinstance(formats[0], int) or formats[0] > FORMAT:
            raise StorageFailure(
                f"{self._place} has format {formats[0]} and this version reads up to {FORMAT}; upgrade safe2real to open it"
            )
        row = self._connection.execute(sql.select(_campaign.c.name, _campaign.c.specification)).one()
        return Header(row.name, row.specification, formats[0])

    def last(self) -> tuple[int, str]:
        """(sequence, digest) of the newest event."""
        newest = sql.select(_events.c.sequence, _events.c.digest).order_by(_events.c.sequence.desc()).limit(1)
        row = self._connection.execute(newest).first()
        return (0, BEFORE_THE_FIRST) if row is None else (row.sequence, row.digest)

    def events(self, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Every event with a higher sequence than `after`, in order, up to number `until`."""
        within = [] if until is None else [_events.c.sequence <= until]
        while True:
            chosen = sql.select(_events).where(_events.c.sequence > after, *within).order_by(_events.c.sequence)
            rows = self._connection.execute(chosen.limit(_BATCH)).all()
            for row in rows:
                if None in (row.kind, row.at, row.body, row.digest):  # the table allows none: a lost page reads as zeros
                    raise StorageFailure(f"{self._place}: an event after number {after} cannot be read: {_DAMAGED}")
                yield Event(*row)
            if len(rows) < _BATCH:
                return
            after = rows[-1].sequence

    def events_of(self, deployment: int) -> dict[str, Event]:
        """All events of one deployment, by kind."""
        rows = self._connection.execute(sql.select(_events).where(_events.c.deployment == deployment))
        return {row.kind: Event(*row) for row in rows}

    def last_deployment(self) -> int:
        """The number of the newest deployment; 0 before the first."""
        return self._connection.execute(sql.select(sql.func.max(_events.c.deployment))).scalar() or 0

    def imports_from(self, source: str) -> list[Event]:
        chosen = sql.select(_events).where(_events.c.kind == "import", _events.c.worker == source)
        return [Event(*row) for row in self._connection.execute(chosen.order_by(_events.c.sequence))]

    def import_of(self, log: str) -> Event | None:
        """The first event of an import whose log has this digest, under whatever name."""
        named = sql.select(_events).where(_events.c.kind == "import", _events.c.body.contains(f'"log":"{log}"'))
        row = self._connection.execute(named.order_by(_events.c.sequence).limit(1)).first()
        return None if row is None else Event(*row)

    def set_format(self, format: int) -> None:
        self._connection.execute(_campaign.update().values(format=format))

    def signatures(self) -> Iterator[Signature]:
        """Of all events that have one, in order."""
        after, more = 0, sql.inspect(self._connection).has_table(_signatures.name)
        while more:
            chosen = sql.select(_signatures).where(_signatures.c.sequence > after).order_by(_signatures.c.sequence)
            rows = self._connection.execute(chosen.limit(_BATCH)).all()
            yield from (Signature(*row) for row in rows)
            more = len(rows) == _BATCH
            after = rows[-1].sequence if rows else after

    def snapshot(self) -> tuple[int, str, bytes] | None:
        """(sequence, digest, content) of the newest one whose last event the record holds; its content is not checked."""
        if not sql.inspect(self._connection).has_table(_snapshots.name):
            return None
        row = self._connection.execute(sql.select(_snapshots).order_by(_snapshots.c.sequence.desc()).limit(1)).first()
        if row is None or self.digest_at(row.sequence) != row.digest:
            return None
        content = row.content if isinstance(row.content, (bytes, memoryview)) else b""  # which no seal fits
        return row.sequence, row.digest, bytes(content)

    def keep_snapshot(self, sequence: int, digest: str, content: bytes) -> None:
        """Instead of the one that is there."""
        _snapshots.create(self._connection, checkfirst=True)  # release 0.1 had no such table
        self._connection.execute(_snapshots.delete())
        self._connection.execute(_snapshots.insert().values(sequence=sequence, digest=digest, content=content))

    def policy(self, digest: str) -> bytes | None:
        """The stored content under a digest, not checked against it; None if there is none."""
        row = self._connection.execute(_POLICY, {"digest": digest}).first()
        return None if row is None else self._content(digest, row.content)

    def policies(self) -> Iterator[tuple[str, bytes]]:
        for row in self._connection.execute(sql.select(_policies).order_by(_policies.c.digest)):
            yield row.digest, self._content(row.digest, row.content)

    def _content(self, digest: Any, content: Any) -> bytes:
        if not isinstance(content, (bytes, memoryview)):  # of a number, `bytes` would make so many zeros
            raise StorageFailure(f"{self._place}: the policy {str(digest)[:12]} cannot be read: {_DAMAGED}")
        return bytes(content)

    def add_policies(self, contents: Sequence[bytes]) -> list[str]:
        """Store what is not there yet; returns the digests."""
        digests = [digest_of(content) for content in contents]
        present = set(
            self._connection.execute(sql.select(_policies.c.digest).where(_policies.c.digest.in_(digests))).scalars()
        )
        missing = {digest: content for digest, content in zip(digests, contents, strict=True) if digest not in present}
        if missing:
            rows = [{"digest": digest, "content": content} for digest, content in missing.items()]
            self._connection.execute(_policies.insert(), rows)
        return digests

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add the next events; durable when the transaction ends."""
        sequence, previous = self.last()
        events = []
        for draft in drafts:
            event = event_after(sequence, previous, draft)
            sequence, previous = event.sequence, event.digest
            events.append(event)
        if events:
            self._connection.execute(_events.insert(), [asdict(event) for event in events])
            self._sign(events)
            self.added = (sequence, previous)
        return events

    def add_recorded(self, events: Sequence[Event], signatures: Sequence[Signature], policies: Mapping[str, bytes]) -> None:
        """What was recorded elsewhere, as it is."""
        contents = list(policies.values())
        for first in range(0, len(contents), _PARAMETERS):
            self.add_policies(contents[first : first + _PARAMETERS])
        for table, rows in ((_events, events), (_signatures, signatures)):
            for first in range(0, len(rows), _BATCH):
                self._connection.execute(table.insert(), [asdict(row) for row in rows[first : first + _BATCH]])

    def _sign(self, events: Sequence[Event]) -> None:
        """A record is signed from its first event to its last, or not at all."""
        if events[0].sequence > 1:
            first = sql.select(_signatures.c.sequence).where(_signatures.c.sequence == 1)
            present = sql.inspect(self._connection).has_table(_signatures.name)
            signed = present and self._connection.execute(first).first() is not None
            if signed != (self._keys is not None):
                state = "signed, and this process has no key" if signed else "not signed, and this process has a key"
                raise InvalidInput(
                    f"the record at {self._place} is {state}: nothing was recorded. {KEY_FILE} names the file of the key; "
                    "a record is signed from its creation on, or never"
                )
        if self._keys is not None:
            self._connection.execute(_signatures.insert(), [asdict(self._keys.sign(event)) for event in events])


_UNREACHABLE = "the server cannot be reached; nothing is known of this call: repeat it, an episode is never counted twice"
_DAMAGED = "the file is damaged or cut short; restore a copy, or save the rest: `safe2real campaign export --salvage`"
# What databases say, and what helps.
_CURES = {
    "disk is full": "the disk is full: nothing of this call was recorded, all before it is; free some space and try again",
    "No space left": "the disk is full: nothing of this call was recorded, all before it is; free some space and try again",
    "read-only transaction": "the server only reads here; give the address of one that writes, or a user who may write",
    "readonly": "it can only be read; make the file and its folder writable, then try again",
    "read-only": "it can only be read; make the file and its folder writable, then try again",
    "not a database": "the file is not an SQLite database; check the name",
    "malformed": _DAMAGED,
    "locked": f"another process has been writing for {_PATIENCE:.0f} s; try again, and look for a process that hangs",
    "lock timeout": f"another process has been writing for {_PATIENCE:.0f} s; try again, and look for a process that hangs",
    "unable to open": "it cannot be opened; check that the folder exists and that you may read and write there (a file with "
    "a -wal beside it has to be in a folder that you may write to; copy both)",
    "disk I/O error": "reading or writing failed; check the disk, then repeat the call: all before it is recorded, and an "
    "episode is never counted twice",
    'database "': "the server has no such database for you; create the database first, or check its name and your rights",
    'role "': "the server refused the user; check the user and the password",
    "password": "the server refused the user; check the user and the password",
    "statement timeout": "the server took too long and gave the statement up; nothing of this call was recorded: try again, "
    "and look at the load of the server",
    "idle-in-transaction timeout": "the server ended a transaction that had held the campaign's lock and done nothing for "
    "too long (was this process stopped?); nothing of this call was recorded: repeat it",
    "no answer on this connection": "the network or the server has died on the way; nothing is known of this call: repeat "
    "it, an episode is never counted twice",
    "onnection": _UNREACHABLE,
}


def _explained(error: DBAPIError | sqlite3.Error | UnicodeDecodeError, place: str) -> str:
    if isinstance(error, UnicodeDecodeError):  # a name in a damaged schema, which the driver wanted to tell of
        return f"{place}: {_DAMAGED}"
    said = without_secrets(str(error.orig if isinstance(error, DBAPIError) else error).strip())
    for sign, cure in _CURES.items():
        if sign in said:
            return f"{place}: {cure} ({said.splitlines()[0]})"
    if isinstance(error, DBAPIError) and error.connection_invalidated:  # perhaps after the commit, so promise nothing
        return f"{place}: {_UNREACHABLE} ({said.splitlines()[0] if said else type(error).__name__})"
    what = "the database refused" if isinstance(error, ProgrammingError) else "the database failed"
    return f"{place}: {what}; nothing of this call was recorded ({said.splitlines()[0] if said else type(error).__name__})"
