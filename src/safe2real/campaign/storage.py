"""Where events are kept: one SQLite file by default, PostgreSQL by URL, the same statements for both (SQLAlchemy Core).

Three tables: the campaign (one row, the specification), its events (append only), and the policies that the events name,
each stored once under the digest of its content. A database holds one campaign; on PostgreSQL a schema of its own is enough
(`?options=-csearch_path=name`). One writer at a time: SQLite's write lock, or a lock on the campaign's row. A write that
has returned is on disk: SQLite runs in WAL mode with synchronous = FULL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, ProgrammingError

from safe2real.campaign.encoding import digest_of
from safe2real.campaign.events import BEFORE_THE_FIRST, CREATE, Draft, Event, event_after
from safe2real.errors import Conflict, InvalidInput, StorageFailure

FORMAT = 2  # of the record; a reader refuses a newer one. 1: release 0.1, whose programs do not know newer events
_PATIENCE = 60.0  # seconds to wait for another writer
_BATCH = 20_000  # events read at once
_CREATING = 0x5AFE2EA1  # the name of a lock on a PostgreSQL database

_tables = sql.MetaData()
_campaign = sql.Table(
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
    # The rules of the record hold in the database too: a deployment has one ask, one tell, one abandonment.
    sql.UniqueConstraint("deployment", "kind"),
)
_policies = sql.Table(
    "safe2real_policy",
    _tables,
    sql.Column("digest", sql.String(64), primary_key=True),
    sql.Column("content", sql.LargeBinary, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Header:
    """The campaign's row."""

    name: str  # random, part of every deployment's id
    specification: str  # JSON
    format: int  # of the record


class Storage:
    """One campaign's database. Open it anew in every process; a connection must not cross a fork."""

    def __init__(self, url: str | os.PathLike[str], *, new: bool = False) -> None:
        """`new` allows a file that does not exist yet; nothing is written before `create`."""
        self.url = _parse(url)
        self.place = self.url.render_as_string(hide_password=True)
        self.read_only = False
        self._process = os.getpid()
        if self.url.get_backend_name() == "sqlite":
            path = Path(str(self.url.database))
            if path.is_dir():
                raise InvalidInput(f"{path} is a folder; give the name of a file in it")
            if not new and not path.is_file():
                raise StorageFailure(f"there is no file {path}; check the name, or make a campaign there first")
            self._engine = self._sqlite_engine(path)
        else:
            self._engine = self._postgresql_engine()

    def close(self) -> None:
        """Give connections back; what was written is on disk already."""
        self._engine.dispose(close=self._process == os.getpid())

    # Reading

    def header(self) -> Header:
        """The campaign's row; refuses a database without one, or one written by a newer version."""
        with self.reading() as transaction:
            return transaction.header()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A consistent view; nothing is locked for others."""
        with self._connected(writing=False) as connection:
            yield Transaction(connection, self.place)

    # Writing

    def create(self, name: str, specification: str, body: Any) -> None:
        """Make the tables and the first event, all or nothing."""
        if self.url.get_backend_name() == "sqlite" and not self.read_only:
            self._prepare_file()
        with self._connected(writing=True) as connection:
            if self.url.get_backend_name() != "sqlite":  # there is no row to lock yet; of two creators one has to wait
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATING)))
            present = sql.inspect(connection).get_table_names()
            if _campaign.name in present:
                raise Conflict(f"{self.place} holds a campaign already; open it, or choose another place for a new one")
            if present and self.url.get_backend_name() == "sqlite":
                raise Conflict(
                    f"{self.place} is the database of something else (tables {', '.join(present[:5])}); choose another"
                )
            _tables.create_all(connection)
            connection.execute(_campaign.insert().values(format=FORMAT, name=name, specification=specification))
            connection.execute(_events.insert().values(asdict(event_after(0, BEFORE_THE_FIRST, Draft(CREATE, body)))))

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The only writer until the end of the block, which makes everything durable, or nothing after an error."""
        with self._connected(writing=True) as connection:
            if self.url.get_backend_name() != "sqlite":
                connection.execute(sql.select(_campaign.c.name).with_for_update())
            yield Transaction(connection, self.place)

    # Connections

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
        except DBAPIError as error:
            raise StorageFailure(_explained(error, self.place)) from error

    def _postgresql_engine(self) -> sql.Engine:
        try:
            # READ COMMITTED, whatever the server's default: a writer must see what was written while it waited for the
            # lock. Connections are tried before they are used, so a campaign outlives a restart of the server.
            engine = sql.create_engine(self.url, isolation_level="READ COMMITTED", pool_pre_ping=True)
        except ImportError as error:
            raise InvalidInput(
                f"{self.place} needs the driver of PostgreSQL ({error}): pip install 'safe2real[postgresql]'"
            ) from error

        @sql.event.listens_for(engine, "connect")
        def _prepare(connection: Any, _: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = '{_PATIENCE:.0f}s'")
                # Off, the server would answer before a write is on its disk. All other values wait for it, and stay.
                cursor.execute("SELECT current_setting('synchronous_commit')")
                if cursor.fetchone() == ("off",):
                    cursor.execute("SET synchronous_commit = on")
            connection.commit()

        return engine

    def _sqlite_engine(self, path: Path) -> sql.Engine:
        if path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            self.read_only = True
            # Connected anew for each look: somebody else may write, and may have begun since the last one.
            engine = sql.create_engine("sqlite://", creator=lambda: _connect_read_only(path), poolclass=sql.NullPool)
        else:
            engine = sql.create_engine(self.url, connect_args={"timeout": _PATIENCE})

        @sql.event.listens_for(engine, "connect")
        def _ours_to_begin(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
            connection.execute("PRAGMA synchronous = FULL")

        @sql.event.listens_for(engine, "begin")
        def _begin(connection: sql.Connection) -> None:
            writing = connection.get_execution_options().get("safe2real_writing", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

        return engine

    def _prepare_file(self) -> None:
        """Switch a new file to the write-ahead log, which needs one sync for each write and never blocks readers."""
        path = Path(str(self.url.database))
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no folder {path.parent}; make it first")
        try:
            with self._engine.connect() as connection:
                # Not through SQLAlchemy, which would begin a transaction; the mode cannot change inside one.
                cursor = connection.connection.cursor()
                # Asked of SQLite, not of the file's size: a `create` that was killed here leaves a page to be taken back.
                (tables,) = cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if not tables:  # else it is not new, and `create` decides what it is
                    cursor.execute("PRAGMA journal_mode = WAL").fetchall()
                cursor.close()
        except (DBAPIError, sqlite3.Error) as error:
            raise StorageFailure(_explained(error, self.place)) from error


class Transaction:
    """What can be read and added while a connection is held."""

    def __init__(self, connection: sql.Connection, place: str) -> None:
        self._connection = connection
        self._place = place

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

    def events(self, after: int = 0) -> Iterator[Event]:
        """Every event with a higher sequence than `after`, in order."""
        while True:
            chosen = sql.select(_events).where(_events.c.sequence > after).order_by(_events.c.sequence).limit(_BATCH)
            rows = self._connection.execute(chosen).all()
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

    def policy(self, digest: str) -> bytes | None:
        """The stored content under a digest, not checked against it; None if there is none."""
        row = self._connection.execute(sql.select(_policies.c.content).where(_policies.c.digest == digest)).first()
        return None if row is None else bytes(row.content)

    def policies(self) -> Iterator[tuple[str, bytes]]:
        for row in self._connection.execute(sql.select(_policies).order_by(_policies.c.digest)):
            yield row.digest, bytes(row.content)

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
        return events


def salvage(url: str | os.PathLike[str]) -> tuple[Header | None, list[Event], str]:
    """What can still be read of a damaged SQLite file: header, events by sequence, and what SQLite says is wrong, or "".

    Events may be missing in between, or changed: only those are as they were written that `Event.digest_after` chains to
    the first.
    """
    from safe2real.campaign.sqlite_pages import readable_rows  # for damaged files only

    storage = Storage(url)
    path = Path(str(storage.url.database))
    if storage.url.get_backend_name() != "sqlite" or not path.exists():
        raise InvalidInput(f"{storage.place} is not an SQLite file; only a file can be salvaged")
    engine = sql.create_engine("sqlite://", creator=lambda: _connect_read_only(path), poolclass=sql.NullPool)
    headers: list[Sequence[Any]] = []
    rows: list[Sequence[Any]] = []
    damage = ""
    try:
        with engine.connect() as connection:
            # Lets SQLite read a file that is shorter than it says it is.
            connection.exec_driver_sql("PRAGMA writable_schema = ON")
            headers += connection.execute(sql.select(_campaign)).all()
            one_by_one = sql.select(_events).order_by(_events.c.sequence).execution_options(yield_per=1)
            rows += connection.execute(one_by_one)
    except DBAPIError as error:
        damage = _explained(error, storage.place)
    finally:
        engine.dispose()
    for number, values in readable_rows(path):  # also from pages that SQLite does not reach any more
        if len(values) == len(_campaign.c):
            headers.append(values)
        elif len(values) == len(_events.c) and values[0] is None:  # SQLite keeps the primary key as the row's number
            rows.append([number, *values[1:]])
    whole = [row for row in headers if isinstance(row[1], str) and isinstance(row[2], str)]
    header = Header(whole[0][1], whole[0][2], whole[0][0]) if whole else None
    events: dict[int, Event] = {}
    for row in rows:
        texts, optional = (row[1], *row[4:]), ((row[2], int), (row[3], str))
        if all(isinstance(text, str) for text in texts) and all(
            value is None or isinstance(value, kind) for value, kind in optional
        ):
            events.setdefault(row[0], Event(*row))
    return header, [event for _, event in sorted(events.items())], damage


def _parse(url: str | os.PathLike[str]) -> sql.URL:
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(text, str):
        raise InvalidInput(f"the place of the campaign is a {type(text).__name__}; {_PLACES}")
    if not text:
        raise InvalidInput(f"the place of the campaign is empty; {_PLACES}")
    try:
        parsed = sql.URL.create("sqlite", database=text) if "://" not in text else sql.make_url(text)
        if parsed.get_backend_name() == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:  # what a ValueError says may hold the password
        why = "" if isinstance(error, ValueError) else f" ({error})"
        raise InvalidInput(f"{text.split('@')[-1]!r} is not a place for a campaign{why}; {_PLACES}") from error
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InvalidInput(f"{parsed.get_backend_name()} databases are not supported; {_PLACES}")
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise InvalidInput("a campaign in memory would be lost with the process; give a file name")
        if parsed.query:
            raise InvalidInput(f"{text!r} has settings after the file's name, which are not supported; give a file name")
    return parsed


_PLACES = "give a file name, sqlite:///file, or postgresql://user@host/database"


def _connect_read_only(path: Path) -> sqlite3.Connection:
    # The log is beside the file itself, not beside a link to it.
    log = path.resolve().with_name(path.resolve().name + "-wal")
    # Without a log nobody is writing and nothing is left to recover, so SQLite may take the file as it is and leaves no
    # trace beside it; with one, it has to read that too.
    settled = "" if log.exists() and log.stat().st_size > 0 else "&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{settled}", uri=True, timeout=_PATIENCE)


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
    "onnection": _UNREACHABLE,
}


def _explained(error: DBAPIError | sqlite3.Error, place: str) -> str:
    said = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    for sign, cure in _CURES.items():
        if sign in said:
            return f"{place}: {cure} ({said.splitlines()[0]})"
    if isinstance(error, DBAPIError) and error.connection_invalidated:  # perhaps after the commit, so promise nothing
        return f"{place}: {_UNREACHABLE} ({said.splitlines()[0] if said else type(error).__name__})"
    what = "the database refused" if isinstance(error, ProgrammingError) else "the database failed"
    return f"{place}: {what}; nothing of this call was recorded ({said.splitlines()[0] if said else type(error).__name__})"
