"""Where a campaign is, and what of that must never be shown: the one module that reads places and hides secrets.

A place is a file name, sqlite:///file, or postgresql://user@host/database. Whatever looks like a way to connect to a
database and is none of these is refused, so that no password becomes the name of a file; nothing of it is shown. Of a
server's place SQLAlchemy shows all but the password. Settings after the ? are those that libpq knows and does not hide.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from safe2real.errors import InvalidInput

HIDDEN = "***"
_LONGEST = 4000  # characters of a message
PLACES = "give a file name, sqlite:///file, or postgresql://user@host/database"
ELSEWHERE = "keep secrets in PGPASSWORD, a password file or a service file (postgresql://?service=NAME), not in the place"

# user:password@..., a setting that names a secret or a server, or the name of a kind of database.
_CONNECTION = re.compile(
    r"(?![A-Za-z]:[\\/])[^/:@]+:[^/:@]+@"
    r"|\w*(?:pass|pwd|secret|token|credential)\w*\s*="
    r"|(?:^|[\s;,&])(?:host|hostaddr|port|dbname|user|service)\s*="
    r"|^(?:postgres|postgresql|psql|pgsql|sqlite|mysql|mariadb|mssql|oracle|redis|mongodb|jdbc)(?:\+\w+)?:?/*[^/]*@",
    re.IGNORECASE,
)
_SEARCH_PATH = re.compile(r"\s*-c\s*search_path\s*=\s*[\w,\"$ ]*\s*")
_PARTS = re.compile(r"[:@/?&;=\s'\"\[\]#]+")
_WORDS = set(_PARTS.split(PLACES))  # of messages, which must stay readable

_seen: set[str] = set()  # every secret that a place of this process held, to be found in what others write


def parse_place(url: str | os.PathLike[str]) -> sql.URL:
    """Return the place as SQLAlchemy takes it, a password in its own field.

    Raises:
        InvalidInput: It is not a place; the message does not repeat it.
    """
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(text, str):
        raise InvalidInput(f"the place of the campaign is a {type(text).__name__}; {PLACES}")
    if not text.strip() or "\0" in text:
        raise InvalidInput(f"the place of the campaign is {'empty' if not text.strip() else 'no text'}; {PLACES}")
    if not looks_like_a_connection(text):
        return _file(sql.URL.create("sqlite", database=text))
    return _connection(text)


def shown_place(url: str | os.PathLike[str] | sql.URL) -> str:
    """A place for messages, documents and logs. A file name is shown as it is; of a server, what is not secret."""
    if not isinstance(url, sql.URL):
        text = str(os.fspath(url))
        if not looks_like_a_connection(text):
            return without_secrets(text)
        try:
            url = parse_place(text)
        except InvalidInput:
            return HIDDEN
    if url.get_backend_name() == "sqlite":
        return without_secrets(url.render_as_string(hide_password=True))
    shown = url.set(drivername=url.get_backend_name()).difference_update_query(_hidden_in(url))
    return shown.render_as_string(hide_password=True)


def looks_like_a_connection(text: str) -> bool:
    """Whether a text was meant for a database server: a URL, `host=...`, `user:password@host`."""
    return "://" in text or _CONNECTION.search(text) is not None


def without_secrets(text: str) -> str:
    """`text`, which a driver or a library may have written, without the secrets of this process."""
    known = {*_seen, os.environ.get("PGPASSWORD", "")} - {""}
    for secret in sorted(known, key=len, reverse=True):
        for written in {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), repr(secret)[1:-1]}:
            # A short one would be found inside words, where it shows nothing.
            whole = re.escape(written) if len(written) > 3 else rf"(?<!\w){re.escape(written)}(?!\w)"
            text = re.sub(whole, HIDDEN, text)
            # A long text is cut somewhere in messages, and what is left of a secret is secret too.
            cut = "|".join(re.escape(written[:length]) for length in range(len(written) - 1, 2, -1))
            text = re.sub(rf"(?:{cut})(?=\.\.\.)", HIDDEN, text) if cut else text
    return text


def safe_message(text: str) -> str:
    """Return a message without the secrets of this process, and cut to the length that is shown."""
    safe = without_secrets(text[: 10 * _LONGEST])  # the rest is not shown, and would take long to search
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]}..."


def remember_secrets(text: str) -> None:
    """Hide from now on what is secret in a text that looks like a way to connect: all of it, if it is no place."""
    if looks_like_a_connection(text):
        try:
            parse_place(text)
        except InvalidInput:  # whichever part was meant for what
            _seen.update(part for part in _PARTS.split(unquote(text)) if len(part) > 3 and part not in _WORDS)


def harmless_cause(error: BaseException) -> BaseException | None:
    """`error` to be named as the cause of another one; None where its text, or that of its own causes, holds a secret."""
    link: BaseException | None = error
    while link is not None:
        if without_secrets(str(link)) != str(link):
            return None
        link = link.__cause__ or link.__context__
    return error


# The two kinds of places


def _file(parsed: sql.URL) -> sql.URL:
    if parsed.host or parsed.username or parsed.password:
        raise InvalidInput("an SQLite file has no user, password or host; give sqlite:///file")
    if parsed.database in (None, "", ":memory:"):
        raise InvalidInput("a campaign in memory would be lost with the process; give a file name")
    if parsed.query:
        raise InvalidInput(
            f"{parsed.database!r} has settings after the file's name, which are not supported; give a file name"
        )
    return parsed


def _connection(text: str) -> sql.URL:
    scheme, mark, _ = text.partition("://")
    place = f"the place of the campaign ({scheme if mark and scheme.isalpha() else ''}{mark}{HIDDEN})"
    if not mark:
        raise InvalidInput(
            f"{place} looks like a way to connect to a database, but it is neither a URL nor taken for a file name; "
            f"{PLACES} (a file of such a name is ./NAME)"
        )
    try:
        parsed = sql.make_url(text)
        parsed.get_dialect()
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError, ImportError):  # what they say may hold the password
        raise InvalidInput(f"{place} is no URL of a database that is known here; {PLACES}") from None
    if backend == "sqlite":
        return _file(parsed)
    if backend != "postgresql":
        raise InvalidInput(f"{backend} databases are not supported; {PLACES}")
    head, _, query = text.partition("://")[2].partition("?")
    if head.count("@") > 1 or "@" in query:
        raise InvalidInput(f"{place} has an @ that may be part of a secret; write @ as %40 there, / as %2F and ? as %3F")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise InvalidInput(f"{place} has a port outside 1 to 65535; was the host forgotten? {PLACES}")
    if any("=" in (part or "") for part in (parsed.username, parsed.host, parsed.database)):
        raise InvalidInput(f"{place} has a setting where a name belongs; settings follow a single ?, joined by &")
    return _with_password(parsed, place)


def _with_password(parsed: sql.URL, place: str) -> sql.URL:
    """The address of a server whose settings are such as libpq knows; a password among them goes into its own field."""
    shows = _settings_of_libpq() if parsed.query else {}
    for key, value in parsed.query.items():
        if key not in shows:
            raise InvalidInput(f"{place} has a setting after the ? that PostgreSQL does not know; check its spelling")
        if not shows[key] and key != "password":
            raise InvalidInput(f"{place} has {key} in it; {ELSEWHERE}")
        if not isinstance(value, str) and key not in ("host", "port"):
            raise InvalidInput(f"{place} gives {key} more than once; give it once")
    password = parsed.query.get("password")
    if password is not None:
        if parsed.password is not None:
            raise InvalidInput(f"{place} has two passwords; give one, or better none: {ELSEWHERE}")
        parsed = parsed.difference_update_query(["password"]).set(password=str(password))
    _seen.update(str(one) for one in (parsed.password, *_hidden_in(parsed).values()) if one)
    return parsed.set(drivername="postgresql+psycopg")


def _hidden_in(parsed: sql.URL) -> dict[str, Any]:
    """Settings of the server (`options`) can hold anything; the one that chooses a schema is worth showing."""
    options = parsed.query.get("options")
    return {} if options is None or _SEARCH_PATH.fullmatch(str(options)) else {"options": options}


def _settings_of_libpq() -> dict[str, bool]:
    """Every setting of a connection, and whether libpq says that its value may be shown."""
    try:
        from psycopg.pq import Conninfo
    except ImportError as error:
        raise InvalidInput(f"PostgreSQL needs its driver ({error}): pip install 'safe2real[postgresql]'") from error
    return {one.keyword.decode(): not one.dispchar for one in Conninfo.get_defaults()}
