"""Storage of a service's campaigns: files NAME.db in a folder, or schemas NAME of one PostgreSQL database."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, IntegrityError

from safe2real.campaign.journal.postgresql import postgresql_engine
from safe2real.campaign.journal.sql import PATIENCE, campaign_table, explained
from safe2real.campaign.journal.url import harmless_cause, looks_like_a_connection, parse_place, shown_place
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.model.validation import shown

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_OWN = "safe2real-service"  # not a campaign: the service's tokens
_ENDING = ".db"


def campaign_name(name: object) -> str:
    """Return a valid name of a campaign; as the name of a file or a schema it cannot lead elsewhere."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (_OWN, "information_schema") or name[:3] == "pg_":
        raise InvalidInput(f"the campaign's name is {shown(name)}; give 1 to 63 of a-z, 0-9, _ and -, a letter first")
    return name


class Places(ABC):
    """The storage of one service."""

    shown: str  # for messages and logs; no secrets

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all campaigns, sorted."""

    @abstractmethod
    def place_of(self, name: str) -> str:
        """Return the place that `Campaign.open` takes; `name` is a valid one."""

    @abstractmethod
    def prepare(self, name: str) -> None:
        """Make room for a campaign that is created next."""

    @abstractmethod
    def engine(self) -> sql.Engine:
        """Return the engine of the service's own tables."""

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise database errors of this block as `StorageFailure`, without secrets."""
        try:
            yield
        except IntegrityError:  # the caller explains which row exists already
            raise
        except DBAPIError as error:
            raise StorageFailure(explained(error, self.shown)) from harmless_cause(error)


class Folder(Places):
    """One SQLite file for each campaign."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InvalidInput(f"there is no folder {folder}; make it first, or give postgresql://user@host/database")
        self.folder, self.shown = folder.resolve(), str(folder)

    def names(self) -> list[str]:
        found = (path for path in self.folder.glob(f"*{_ENDING}") if path.is_file())
        return sorted(path.stem for path in found if _NAME.fullmatch(path.stem) and path.stem != _OWN)

    def place_of(self, name: str) -> str:
        return str(self.folder / f"{name}{_ENDING}")

    def prepare(self, name: str) -> None:
        return None

    def engine(self) -> sql.Engine:
        # No campaign can have this name: see `campaign_name`.
        return sql.create_engine(sql.URL.create("sqlite", database=str(self.folder / f"{_OWN}{_ENDING}")))


class Database(Places):
    """One schema for each campaign: a record is a set of tables, of which a schema holds one."""

    def __init__(self, url: str) -> None:
        self._url, parsed = url, parse_place(url)
        self.shown = shown_place(url)
        if "options" in parsed.query:
            raise InvalidInput(f"{self.shown} has options; leave them out: every campaign is in a schema of its own name")
        self._engine = postgresql_engine(parsed, self.shown, lock_patience=PATIENCE)

    def names(self) -> list[str]:
        found = sql.text("SELECT table_schema FROM information_schema.tables WHERE table_name = :name")
        with self.explaining(), self._engine.connect() as connection:
            schemas = connection.execute(found, {"name": campaign_table.name}).scalars().all()
        return sorted(name for name in schemas if _NAME.fullmatch(name))

    def place_of(self, name: str) -> str:
        chosen = quote(f'-csearch_path="{name}"', safe="")
        return f"{self._url}{'&' if '?' in self._url else '?'}options={chosen}"

    def prepare(self, name: str) -> None:
        with self.explaining(), self._engine.begin() as connection:
            connection.execute(sql.schema.CreateSchema(name, if_not_exists=True))

    def engine(self) -> sql.Engine:
        self.prepare(_OWN)
        return self._engine.execution_options(schema_translate_map={None: _OWN})


def places_at(place: str) -> Places:
    """Return the storage at a place.

    Args:
        place: a folder, or the URL of a PostgreSQL database.

    Raises:
        InvalidInput: `place` is neither.
    """
    if "://" not in place and not looks_like_a_connection(place):
        return Folder(Path(place))
    if parse_place(place).get_backend_name() != "postgresql":
        raise InvalidInput(f"{shown_place(place)!r} is one file; give the folder that it is in, or a PostgreSQL database")
    return Database(place)
