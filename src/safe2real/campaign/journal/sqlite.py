"""One SQLite file: how it is opened, and whether the name still leads to the file that is open.

SQLite keeps what was written last in a second file, NAME-wal. A file that is removed, or replaced by another, under a
process goes on to be written to by that process, where no other one reads it; so does a log. Where the index of the log,
NAME-shm, is removed, processes with different ones overwrite each other's events. A file that is put beside the log of
another one is overwritten by it. These are looked for here: at the beginning of every transaction and before and after every
commit, by device and inode of the file, its log and its index; the last when a campaign is opened.
"""

from __future__ import annotations

import ctypes
import os
import re
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import sqlalchemy as sql

from safe2real.campaign.events import Event
from safe2real.campaign.journal.base import Disturbed
from safe2real.errors import InvalidInput, StorageFailure

_Identity = tuple[int, int]
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes (https://www.sqlite.org/fileformat2.html#walformat)
_DIGEST = re.compile(rb"\}([0-9a-f]{64})")  # after the body of an event
_ON_A_PAGE = 1000  # events, at most
_TRIES = 3  # before a log is called foreign: another process may be moving it into the file at this moment


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Opened:
    """State shared by all connections of this process to one file: SQLite opens its log and the log's index once."""

    beside: tuple[_Identity | None, ...] = (None, None)  # the log and its index; None until they were read


_opened: WeakValueDictionary[_Identity, _Opened] = WeakValueDictionary()  # held by open connections
_left_open: set[_Opened] = set()  # of which a connection stays open, so that the log stays as it is
_opening = threading.Lock()


class SQLiteFile:
    """The file of a campaign, as this process sees it."""

    def __init__(self, path: Path, *, new: bool, patience: float) -> None:
        """`patience` is how many seconds to wait for another writer."""
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder; give the name of a file in it")
        if not new and not path.is_file():
            raise StorageFailure(f"there is no file {path}; check the name, or make a campaign there first")
        self.path, self._patience = path, patience
        self.read_only = path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        self._checked = False  # that the log is the file's own

    def engine(self, url: sql.URL) -> sql.Engine:
        if self.read_only:
            # Connected anew for each look: another process may write, and may have begun since the last one.
            connect = partial(connect_read_only, self.path, self._patience)
            engine = sql.create_engine("sqlite://", creator=connect, poolclass=sql.NullPool)
        else:
            engine = sql.create_engine(url, connect_args={"timeout": self._patience})

        @sql.event.listens_for(engine, "do_connect")
        def _refuse_the_log_of_another(*_: Any) -> None:
            if not self._checked:
                check_log(self.path)
                self._checked = True

        @sql.event.listens_for(engine, "connect")
        def _prepare_connection(connection: Any, record: Any) -> None:
            connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
            connection.execute("PRAGMA synchronous = FULL")
            identity = _identity_of(self.path)
            with _opening:
                shared = _Opened() if identity is None else _opened.setdefault(identity, _Opened())
            record.info.update(identity=identity, opened=shared)

        @sql.event.listens_for(engine, "close")
        def _closed(_: Any, record: Any) -> None:
            with _opening:
                record.info.pop("opened", None)  # of the last connection: SQLite closes the log, too

        @sql.event.listens_for(engine, "begin")
        def _begin(connection: sql.Connection) -> None:
            writing = connection.get_execution_options().get("safe2real_writing", False)
            self.check_in_place(connection)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
            shared = connection.info["opened"]
            if None in shared.beside:  # never read, or a file without a log
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").all()  # SQLite opens the log to read
                shared.beside = tuple(map(_identity_of, _beside(self.path)))

        return engine

    def check_in_place(self, connection: sql.Connection) -> None:
        """Refuse when the names do not lead to the open file and its open log any more."""
        info, found = connection.info, _identity_of(self.path)
        if info.get("identity") != found:
            what = "was removed" if found is None else "was replaced by another file"
            raise StorageFailure(
                f"{self.path} {what} while this process had it open: nothing of this call is recorded. Stop all processes "
                "that use it, put the right file in its place without -wal and -shm files of another, and open it again"
            )
        shared = info["opened"]
        for path, expected in zip(_beside(self.path), shared.beside, strict=True):
            found = _identity_of(path)
            if expected is None or expected == found:  # SQLite never removes these while a connection has them open
                continue
            what = "was removed" if found is None else "was replaced by another file"
            name = os.path.basename(path)
            begun = f"{name} {what} while this process had it open: this call is not acknowledged, and nothing more is "
            if name.endswith("-wal"):
                raise StorageFailure(
                    f"the log {begun}recorded. What was acknowledged before may be in the lost log alone: end all processes "
                    "that use it by SIGTERM, not by SIGKILL; the last one writes its log into the file. Then open it and "
                    "repeat the call"
                )
            self._leave_the_log(shared)
            raise StorageFailure(
                f"the index {begun}recorded. What was acknowledged before is in the log {log_of(self.path).name}, which "
                "must stay in its place: end all processes that use it, then open it and repeat the call"
            )

    def _leave_the_log(self, shared: _Opened) -> None:
        """Keep this process from writing its log into the file when it closes it.

        Other processes have another index by now, and may have recorded events that this one does not see; its pages would
        overwrite theirs. SQLite writes the log into the file only when the last connection closes, so one stays open until
        the process ends: it is never freed, not even when the interpreter ends.
        """
        with _opening:
            if shared in _left_open:
                return
            _left_open.add(shared)
        reader = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchall()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(reader))

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """When reading without a log, refuse the result if another process began to write meanwhile."""
        before = _state_of(self.path) if self.read_only else None
        yield
        # With a log there, SQLite gave a view of one moment. Without, the file was read as it is, which is one moment only
        # if no process wrote.
        if before is not None and not before[0] and before != _state_of(self.path):
            raise Disturbed(
                f"{self.path}: another process began to write while the file was read, so what was read may be of no one "
                "moment; try again"
            )

    def prepare(self, engine: sql.Engine) -> None:
        """Switch a new file to the write-ahead log, which needs one sync for each write and never blocks readers."""
        if not self.path.parent.is_dir():
            raise InvalidInput(f"there is no folder {self.path.parent}; make it first")
        with engine.connect() as connection:
            # Not through SQLAlchemy, which would begin a transaction; the mode cannot change inside one.
            cursor = connection.connection.cursor()
            # Asked of SQLite, not of the file's size: a `create` that was killed here leaves a page to be taken back.
            tables = cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables == (0,):  # else it is not new, and `create` decides what it is
                cursor.execute("PRAGMA journal_mode = WAL").fetchall()
            cursor.close()


def connect_read_only(path: Path, patience: float) -> sqlite3.Connection:
    # Without a log no process is writing and nothing is left to recover, so SQLite may take the file as it is and leaves no
    # trace beside it (`undisturbed` looks whether that was true to the end). With one, even an empty one, a process has the
    # file open, and SQLite has to read what they share.
    settled = "" if log_of(path).exists() else "&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{settled}", uri=True, timeout=patience)


def connect_to_file_alone(path: Path) -> sqlite3.Connection:
    """To what is in the file itself, whatever is in its log."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def log_of(path: Path) -> Path:
    """The log is beside the file itself, not beside a link to it."""
    return Path(_beside(path)[0])


def _beside(path: Path) -> tuple[str, str]:
    """The log, and its index, which all processes share: with an index each, they overwrite each other's events.

    Links are followed anew each time, since one may lead to another name of the open file by now.
    """
    file = os.path.realpath(path)
    return f"{file}-wal", f"{file}-shm"


def integrity_problems(connection: sql.Connection) -> list[str]:
    """Return the damage that SQLite finds in its pages and indexes; empty without any."""
    rows = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return [] if list(rows) == ["ok"] else [str(row) for row in rows]


def check_log(path: Path) -> None:
    """Refuse a file with the log of another one beside it, before SQLite writes the one over the other.

    Both are opened read-only, so that SQLite moves nothing from the log into the file.
    """
    try:
        if not log_of(path).stat().st_size or any(_fit_together(path) for _ in range(_TRIES)):
            return
    except FileNotFoundError:  # the last process that had it open has closed it, and the log went with it
        return
    raise StorageFailure(
        f"the log {log_of(path).name} beside {path} is not of this campaign, or not of this copy of it: opening both would "
        f"overwrite the file with pages of another. Nothing was written. Move {path.name}-wal and {path.name}-shm away if "
        "the file was put there from a backup, or put the file back that they belong to"
    )


def _fit_together(path: Path) -> bool:
    """Return whether file and log form one record, in which the log continues the file.

    Events are only ever added. So both together hold the last events of the file, the next one comes right after them, and
    an event of the log is among the newest: else its pages are of a longer record than the file's.
    """
    newest = "SELECT * FROM safe2real_event WHERE sequence > ? ORDER BY sequence"
    logged = _logged_digests(log_of(path))
    try:
        with closing(connect_to_file_alone(path)) as alone:
            (last,) = alone.execute("SELECT max(sequence) FROM safe2real_event").fetchone()
            before = max(0, (last or 0) - len(logged) - _ON_A_PAGE)
            own = [Event(*row) for row in alone.execute(newest, (before,))]
    except sqlite3.Error:  # it has no tables yet, is damaged itself, or is being written
        return True
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as together:
            found = [Event(*row) for row in together.execute(newest, (before,))]
    except sqlite3.DatabaseError as error:
        return not _is_damage(error)
    # By their digests: that a body was changed, in the file or in the log, is for `verify` to say.
    if [(one.sequence, one.digest) for one in found[: len(own)]] != [(one.sequence, one.digest) for one in own]:
        return False
    if own and len(found) > len(own) and found[len(own)].sequence != own[-1].sequence + 1:
        return False
    if not logged or not logged.isdisjoint(event.digest for event in found):
        return True
    return not _logged_digests(log_of(path), proved=True)  # SQLite ignores a log from where it is torn on


def _logged_digests(log: Path, *, proved: bool = False) -> set[str]:
    """The digests of events in the complete transactions of a write-ahead log: in a row they come right after the body.

    With `proved` only as far as the log's own checksums hold, which takes a tenth of a second for some megabytes.
    """
    content = log.read_bytes()
    size, salt = int.from_bytes(content[8:12], "big") + _FRAME_HEADER, content[16:24]
    order = ">" if content[3:4] == b"\x83" else "<"
    settled, sums = _LOG_HEADER, _checksum(content[:24], order, (0, 0)) if proved else (0, 0)
    for place in range(_LOG_HEADER, len(content) - size + 1, size):
        if content[place + 8 : place + 16] != salt:  # left over from an earlier use of the log
            break
        if proved:
            sums = _checksum(content[place : place + 8], order, sums)
            sums = _checksum(content[place + _FRAME_HEADER : place + size], order, sums)
            if struct.pack(">2I", *sums) != content[place + 16 : place + _FRAME_HEADER]:
                break
        if content[place + 4 : place + 8] != bytes(4):  # the frame that ends a transaction
            settled = place + size
    return {found.decode() for found in _DIGEST.findall(content[:settled])}


def _checksum(content: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    for one, other in struct.iter_unpack(f"{order}2I", content):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether the pages are inconsistent; if not, the file is locked or its last process closed it meanwhile."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # Python's own have none: a text that is none
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def _identity_of(path: Path | str) -> _Identity | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _state_of(path: Path) -> tuple[Any, ...]:
    """Return whether there is a log, and the file state that changes when a process writes without one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return (False,)
    return log_of(path).exists(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
