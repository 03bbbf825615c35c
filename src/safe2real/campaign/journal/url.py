"""Where a campaign is, and what of that must never be shown: the one module that reads places and hides secrets.

A place is a file name, sqlite:///file, or postgresql://user@host/database. Whatever looks like a way to connect to a
database and is none of these is refused, so that no password ever becomes the name of a file. What is shown of a place is
put together from the parts that are known to be harmless, instead of leaving out those that are known to be secret:
a setting that nobody thought of, or a slip of the keys (`pasword=...`), stays hidden too.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, quote_plus, unquote, urlencode

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from safe2real.errors import InvalidInput

HIDDEN = "***"
PLACES = "give a file name, sqlite:///file, or postgresql://user@host/database"
ELSEWHERE = "keep secrets in PGPASSWORD, a password file or a service file (postgresql://?service=NAME), not in the place"

# Settings of a connection whose values may be shown. Others are refused: a driver would name them, perhaps with the value.
_HARMLESS = frozenset(
    (
        *("host", "hostaddr", "port", "dbname", "user", "service", "servicefile", "passfile", "requirepeer", "require_auth"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "sslsni", "sslcertmode", "sslnegotiation"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "channel_binding", "gssencmode", "krbsrvname", "gsslib"),
        *("connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
        *("application_name", "client_encoding", "target_session_attrs", "load_balance_hosts"),
    )
)
# Settings that are secret, for which a place is not the place. The password itself is taken, and hidden.
_SECRET = frozenset(("sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"))
_KEYWORDS = _HARMLESS | _SECRET | {"password", "options"}
_DATABASES = "postgresql|postgres|psql|pgsql|sqlite|mysql|mariadb|mssql|oracle|redis|mongodb|jdbc"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(/*)")  # of two letters at least: C:\ is a drive
_PAIR = re.compile(r"([A-Za-z_]\w*)\s*=\s*('(?:[^'\\]|\\.)*'?|\"[^\"]*\"?|[^\s&;,)\]}'\"]*)")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|credential|scram", re.IGNORECASE)
_SECRET_PAIR = re.compile(rf"\w*(?:{_SECRET_NAME.pattern})\w*\s*=", re.IGNORECASE)
_KEYWORD_PAIR = re.compile(rf"(?:^|[\s;,&])(?:{'|'.join(sorted(_KEYWORDS))})\s*=", re.IGNORECASE)
_IN_TEXT = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+:/+)(?P<rest>[^\s'\"]*[^\s'\":,;.])")
_BARE = re.compile(r"(?P<user>[\w.%+\-]+):(?P<password>[^\s@/'\"]+)@(?=[\w.\-\[])")
_SEARCH_PATH = re.compile(r"\s*-c\s*search_path\s*=\s*[\w,\"$ ]*\s*")

_PARTS = re.compile(r"[:@/?&;=\s'\"\[\]#]+")

_seen: set[str] = set()  # every secret that a place of this process held, to be found in what others write


def parse_place(url: str | os.PathLike[str]) -> sql.URL:
    """The place as SQLAlchemy wants it, a password in its own field; refuses what is not one, without showing a secret."""
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(text, str):
        raise InvalidInput(f"the place of the campaign is a {type(text).__name__}; {PLACES}")
    if not text.strip() or "\0" in text:
        raise InvalidInput(f"the place of the campaign is {'empty' if not text.strip() else 'no text'}; {PLACES}")
    if "://" not in text:
        if looks_like_a_connection(text):
            raise InvalidInput(
                f"{_salvaged(text)!r} looks like a way to connect to a database, but it is neither a URL nor taken for a "
                f"file name; {PLACES} (a file of such a name is ./NAME)"
            )
        return _file(sql.URL.create("sqlite", database=text))
    try:
        parsed = sql.make_url(text)
        parsed.get_dialect()
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError, ImportError) as error:
        # What a ValueError says may hold the password, and so may the error that it is raised from.
        why = "" if isinstance(error, ValueError) else f" ({without_secrets(str(error))})"
        raise InvalidInput(f"{_salvaged(text)!r} is not a place for a campaign{why}; {PLACES}") from None
    if backend == "sqlite":
        return _file(parsed)
    if backend != "postgresql":
        raise InvalidInput(f"{backend} databases are not supported; {PLACES}")
    return _server(text, parsed)


def shown_place(url: str | os.PathLike[str] | sql.URL) -> str:
    """A place for messages, documents and logs. A file name is shown as it is; of a server, what is not secret."""
    if isinstance(url, sql.URL):
        return _rendered(url)
    text = str(os.fspath(url))
    if "://" in text:
        try:
            return _rendered(parse_place(text))
        except InvalidInput:
            return _salvaged(text)
    return _salvaged(text) if looks_like_a_connection(text) else without_secrets(text)


def looks_like_a_connection(text: str) -> bool:
    """Whether a text that is no URL was meant for a database server: `host=...`, `postgresql:/...`, `user:password@host`."""
    named = text.startswith(("./", "../", "/", "~")) and not text.startswith("//")
    if _SECRET_PAIR.search(text) or re.match(rf"(?:{_DATABASES})(?:\+\w+)?\s*:*/*[^/]*@", text, re.IGNORECASE):
        return True
    if named:
        return re.match(r"/[^/@]+:[^/@]*@", text) is not None  # of a root folder of such a name nobody has heard
    scheme = _SCHEME.match(text)
    if scheme and (scheme[2] or re.fullmatch(_DATABASES, scheme[1].partition("+")[0], re.IGNORECASE)):
        return True
    return bool(_KEYWORD_PAIR.search(text)) or bool(re.match(r"(?![A-Za-z]:[\\/])/*[^/@]+:[^@]*@", text))


def without_secrets(text: str) -> str:
    """`text`, which somebody else may have written, without the secrets of any place or environment of this process."""
    known = {*_seen, os.environ.get("PGPASSWORD", "")} - {""}
    for secret in sorted(known, key=len, reverse=True):
        for written in {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), repr(secret)[1:-1]}:
            # A short one would be found inside words, where it shows nothing.
            whole = re.escape(written) if len(written) > 3 else rf"(?<!\w){re.escape(written)}(?!\w)"
            text = re.sub(whole, HIDDEN, text)
        # A long text is cut somewhere in messages, and what is left of a secret is secret too.
        cut = "|".join(re.escape(secret[:length]) for length in range(len(secret) - 1, 2, -1))
        text = re.sub(rf"(?:{cut})(?=\.\.\.)", HIDDEN, text) if cut else text
    text = _IN_TEXT.sub(lambda found: found["scheme"] + _rest_hidden(found["rest"]), text)
    text = _BARE.sub(lambda found: f"{found['user']}:{HIDDEN}@", text)
    return _PAIR.sub(lambda found: f"{found[1]}={HIDDEN}" if _SECRET_NAME.search(found[1]) else found[0], text)


def remember_secrets(text: str) -> None:
    """Take whatever is hidden of a text that looks like a place for a secret, wherever it may turn up again."""
    if "://" in text or looks_like_a_connection(text):
        shown = set(_PARTS.split(_salvaged(text)))
        _seen.update(part for part in _PARTS.split(unquote(text)) if len(part) > 3 and part not in shown | _KEYWORDS)


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
        raise InvalidInput(f"an SQLite file has no user, password or host: {shown_place(parsed)!r}; give sqlite:///file")
    if parsed.database in (None, "", ":memory:"):
        raise InvalidInput("a campaign in memory would be lost with the process; give a file name")
    if parsed.query:
        name = without_secrets(str(parsed.database))
        raise InvalidInput(f"{name!r} has settings after the file's name, which are not supported; give a file name")
    return parsed


def _server(text: str, parsed: sql.URL) -> sql.URL:
    head, _, query = text.partition("://")[2].partition("?")
    shown = _salvaged(text)
    if head.count("@") > 1 or "@" in query:
        raise InvalidInput(f"{shown!r} has an @ that may be part of a secret; write @ as %40 there, / as %2F and ? as %3F")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise InvalidInput(f"{shown!r} has a port outside 1 to 65535; was the host forgotten? {PLACES}")
    if any(_SECRET_PAIR.search(part or "") for part in (parsed.username, parsed.host, parsed.database)):
        raise InvalidInput(f"{shown!r} has a setting where a name belongs; settings follow a single ?, joined by &")
    for key, value in parsed.query.items():
        if key in _SECRET:
            raise InvalidInput(f"{shown!r} has {key} in it; {ELSEWHERE}")
        if key not in _KEYWORDS:
            raise InvalidInput(f"{shown!r} has a setting after the ? that is none of PostgreSQL's; check its spelling")
        if not isinstance(value, str) and key not in ("host", "port"):
            raise InvalidInput(f"{shown!r} gives {key} more than once; give it once")
    password = parsed.query.get("password")
    if password is not None:
        if parsed.password is not None:
            raise InvalidInput(f"{shown!r} has two passwords; give one, or better none: {ELSEWHERE}")
        parsed = parsed.difference_update_query(["password"]).set(password=str(password))
    hidden = [str(value) for key, value in parsed.query.items() if not _may_show(key, value)]
    _seen.update(one for one in (str(parsed.password or ""), *hidden) if one)
    return parsed.set(drivername="postgresql+psycopg")


# What is shown


def _may_show(key: str, value: object) -> bool:
    """Settings of the server (`options`) can hold anything; the one that chooses a schema is worth showing."""
    if key == "options":
        return isinstance(value, str) and _SEARCH_PATH.fullmatch(value) is not None
    return key in _HARMLESS


def _rendered(parsed: sql.URL) -> str:
    if parsed.get_backend_name() == "sqlite":
        return without_secrets(parsed.render_as_string(hide_password=True))
    query = {key: value if _may_show(key, value) else HIDDEN for key, value in parsed.query.items()}
    plain = parsed.set(drivername=parsed.get_backend_name(), query={}).render_as_string(hide_password=True)
    return plain + (f"?{urlencode(query, doseq=True, safe='*=,/ ')}" if query else "")


def _salvaged(text: str) -> str:
    """What may be shown of a place that is refused: nobody knows which part was meant for what."""
    scheme = _SCHEME.match(text)
    before = f"{scheme[1]}:{scheme[2]}" if scheme else ""
    head, _, query = text[len(before) :].partition("?")
    lone = head.count("@") == 1 and "@" not in query and "=" not in head  # else what follows the @ may be a secret's end
    server = head.rpartition("@")[2] if lone else ""
    server = server if re.fullmatch(r"[\w.\-\[\]:]*(?:/[\w.\-]*)?", server) else ""
    keys = [found[1] for found in _PAIR.finditer(text) if found[1].lower() in _KEYWORDS]
    pairs = " ".join(f"{key}={HIDDEN}" for key in keys)
    if before or "@" in head:
        nothing_hidden = head.partition("/")[0].replace(".", "").replace("-", "").isalnum() and not query
        shown = head if nothing_hidden and re.fullmatch(r"[\w.\-/]*", head) else f"{HIDDEN}@{server}" if server else HIDDEN
        return f"{before}{shown}{'?' if pairs else ''}{pairs.replace(' ', '&')}"
    return pairs or HIDDEN


def _rest_hidden(rest: str) -> str:
    """What follows :// in a text: no credentials, no values of settings but harmless ones."""
    head, mark, query = rest.partition("?")
    if "@" in query:
        return HIDDEN
    if "@" in head:
        user, _, server = head.rpartition("@")
        name, colon, _ = user.partition(":")
        head = f"{HIDDEN if '@' in user else name}{f':{HIDDEN}' if colon else ''}@{server}"
    elif "[" in head:
        head = HIDDEN
    elif re.match(r"[^/]*:(?!\d{1,5}(?:/|$))[^/]*", head):  # a port that is none: the host was forgotten, or cut off
        head = f"{head.partition(':')[0]}:{HIDDEN}"
    shown = _PAIR.sub(lambda found: found[0] if _may_show(found[1], found[2]) else f"{found[1]}={HIDDEN}", query)
    return f"{head}{mark}{shown}"
