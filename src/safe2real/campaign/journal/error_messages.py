"""What databases say when they fail, and what helps."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, ProgrammingError

from safe2real.campaign.journal.url import without_secrets

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


def explained(error: DBAPIError | sqlite3.Error | UnicodeDecodeError, place: str) -> str:
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
