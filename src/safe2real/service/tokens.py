"""Tokens of 256 random bits, of which the service keeps only SHA-256 digests.

A token is shown once, when it is made. A stored digest is useless to a thief: 256 random bits cannot be guessed, so that it
needs no salt. Every server refuses a revoked token within `REMEMBERED` seconds.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError

from safe2real.campaign.events import checked_name, now
from safe2real.errors import Conflict, InvalidInput
from safe2real.service.storage import Places, campaign_name

REMEMBERED = 1.0  # seconds before the table is read again
PREFIX = "s2r_"  # lets scanners of repositories and logs find tokens
_tables = sql.MetaData()
_tokens = sql.Table(
    "safe2real_token",
    _tables,
    sql.Column("name", sql.String(200), primary_key=True),
    sql.Column("role", sql.String(16), nullable=False),
    sql.Column("campaign", sql.String(64)),
    sql.Column("made", sql.String(40), nullable=False),
    sql.Column("revoked", sql.String(40)),
    sql.Column("digest", sql.String(64), nullable=False, unique=True),
)


class Role(StrEnum):
    """The rights of a token."""

    WORKER = "worker"
    """Asks, tells and abandons, under its own name only."""
    OPERATOR = "operator"
    """Everything."""
    AUDITOR = "auditor"
    """Reads, plans and verifies; records nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of a valid token; records name the owner by `name`."""

    name: str
    role: Role
    campaign: str | None = None  # the only campaign of the token; None for all


@dataclass(frozen=True, slots=True)
class Kept(Caller):
    """A token's record, without the token."""

    made: str = ""  # UTC
    revoked: str | None = None


class Tokens:
    """The tokens of one service, kept beside its campaigns."""

    def __init__(self, places: Places) -> None:
        self._places, self._lock = places, threading.Lock()
        self._valid: Mapping[str, Caller] = {}
        self._read_at = float("-inf")
        with places.explaining():
            self._engine = places.engine()
            _tables.create_all(self._engine)

    def add(self, name: str, role: Role | str, campaign: str | None = None) -> str:
        """Make a token, to be shown once; a name is never used again, because records refer to it.

        Raises:
            Conflict: A token has or had this name.
        """
        checked_name("the token's name", name)
        if role not in list(Role):
            raise InvalidInput(f"role is {str(role)[:40]!r}; give one of {', '.join(Role)}")
        token = PREFIX + secrets.token_urlsafe(32)
        kept = Kept(name, Role(role), None if campaign is None else campaign_name(campaign), now())
        try:
            self._write(_tokens.insert().values(**asdict(kept), digest=_digest(token)))
        except IntegrityError:
            raise Conflict(f"there is a token of the name {name!r}, or there was one; choose another name") from None
        return token

    def revoke(self, name: str) -> bool:
        """Revoke the token of this name; return False if it was revoked before.

        Raises:
            InvalidInput: No token has this name.
        """
        if name not in {one.name for one in self.all()}:
            raise InvalidInput(f"there is no token of the name {name[:60]!r}; see `safe2real serve token list`")
        valid = (_tokens.c.name == name) & _tokens.c.revoked.is_(None)
        return self._write(_tokens.update().where(valid).values(revoked=now())) == 1

    def all(self) -> list[Kept]:
        """Return every token that was ever made, by name."""
        rows = self._read(sql.select(_tokens).order_by(_tokens.c.name))
        return [Kept(row.name, Role(row.role), row.campaign, row.made, row.revoked) for row in rows]

    @property
    def is_fresh(self) -> bool:
        """Whether `caller` needs no database."""
        return time.monotonic() - self._read_at <= REMEMBERED

    def caller(self, token: str) -> Caller | None:
        """Return the owner of a token; None if it is unknown or revoked."""
        with self._lock:
            if not self.is_fresh:
                rows = self._read(sql.select(_tokens).where(_tokens.c.revoked.is_(None)))
                self._valid = {row.digest: Caller(row.name, Role(row.role), row.campaign) for row in rows}
                self._read_at = time.monotonic()
            return self._valid.get(_digest(token))

    def _read(self, statement: Any) -> Sequence[Any]:
        with self._places.explaining(), self._engine.connect() as connection:
            return connection.execute(statement).all()

    def _write(self, statement: Any) -> int:
        with self._places.explaining(), self._engine.begin() as connection:
            changed = connection.execute(statement).rowcount
        self._read_at = float("-inf")
        return changed


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
