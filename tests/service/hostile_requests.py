"""Requests that nobody honest sends: sizes, encodings, nesting, paths, ids of others, forged tokens, HTML in every text."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.service.servers import API

HTML = "<script>alert(1)</script><img src=x onerror=alert(2)>"
TEXTS = (
    "", " ", HTML, "'; DROP TABLE safe2real_event; --", "\x00", "\ud800", "a" * 20_000, "../../etc/passwd", "%00", "-1",
    "${7*7}", "{{7*7}}", "\u202e", "null", "1e999", "NaN", "arm", "\r\nSet-Cookie: a=b", "🦾" * 50,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *TEXTS, None, True, -1, 0, 10**400, 1e308, [], {}, [[]], [[[[[[0]]]]]], {"a": {}}, [None] * 10, ["x"],
    {"dtype": "<f8", "shape": [2**39, 2**39], "zlib": "eJw="}, {"dtype": "<f8", "shape": [3, 2], "zlib": "!"},
    {"dtype": "|O", "shape": [1], "zlib": ""},
)  # fmt: skip
PATHS = (
    "/ask", "/deployments/x/tell", "/deployments/x/abandon", "/abandon", "/declare", "/plan", "/verify",
    "/import", "/branch",
)  # fmt: skip
KEYS = (
    "worker", "n", "mixture", "packed", "states", "actions", "left_model", "partial", "force", "reason", "rewards", "drop",
    "policy", "delta", "target", "reward", "head", "source", "overlap", "name", "problem", "lease", "__proto__", HTML,
)  # fmt: skip
NAMES = (
    "arm",
    "nowhere",
    "..",
    "%2e%2e",
    "arm.db",
    "ARM",
    "a" * 300,
    "safe2real-service",
    "pg_catalog",
    "arm%00",
    "arm%2f..",
)
QUERIES = ("", "?limit=-1", "?limit=1e9", "?a=b", "?limit=1&limit=2", f"?verdict={HTML}", "?offset=99999999999999999999",
           "?order=__class__", "?form=pickle", "?points=0", "?format=../../x", "?forecast=maybe", "?state=-1")  # fmt: skip
_BOMB, _LONG = gzip.compress(b" " * 30_000_000), {"X-A": "b" * 5000}
READ = ("/status", "/map", "/course", "/deployments", "/export", "/verify", "/problem", "", "/nothing")


def requests(number: int, seed: int, ids: tuple[str, ...], tokens: tuple[str | None, ...]) -> Iterator[dict[str, Any]]:
    """So many hostile requests; `ids` are deployments that must not be told, `tokens` what may be shown (None for none)."""
    chance = random.Random(seed)
    for _ in range(number):
        token = chance.choice(tokens)
        headers = {} if token is None else {"Authorization": token}
        name = chance.choice(NAMES) if chance.random() < 0.4 else "arm"
        if chance.random() < 0.25:
            yield {
                "method": chance.choice(("GET", "GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")),
                "url": f"{API}/{name}{chance.choice(READ)}{chance.choice(QUERIES)}",
                "headers": headers | chance.choice(({}, {"Last-Event-ID": HTML}, {"Range": "bytes=0-"}, _LONG)),
            }
            continue
        path = chance.choice(PATHS).replace("/x/", f"/{chance.choice((*ids, 'x', HTML, '..%2f..'))}/")
        address = API if chance.random() < 0.1 else f"{API}/{name}{path}"
        content, more = _body(chance)
        yield {
            "method": "POST",
            "url": address + (chance.choice(QUERIES) if chance.random() < 0.1 else ""),
            "content": content,
            "headers": headers | more,
        }


def _body(chance: random.Random) -> tuple[bytes, dict[str, str]]:
    """What is sent, and what is said of it."""
    given = {chance.choice(KEYS): chance.choice(VALUES) for _ in range(chance.randrange(4))}
    text = json.dumps(given).encode()
    kind = {"Content-Type": chance.choice(("application/json", "application/json", "application/x-ndjson", "text/html"))}
    return chance.choice(
        (
            (text, kind),
            (text, kind),
            (text, kind),
            (b"[" * 100_000 + b"]" * 100_000, kind),
            (b'{"a":' * 50_000, kind),
            (text[:-1], kind),
            (b"\xff\xfe\x00" + text, kind),
            (text * 3, kind),
            (b'{"worker": "a", "worker": "b"}', kind),
            (b'{"n": 1' + b"0" * 5000 + b"}", kind),
            (b'{"n": NaN}', kind),
            (gzip.compress(text), {**kind, "Content-Encoding": "gzip"}),
            (_BOMB, {**kind, "Content-Encoding": "gzip"}),
            (text, {**kind, "Content-Encoding": "gzip"}),
            (text, {**kind, "Content-Encoding": "deflate, gzip"}),
            (b"\n" * 10_000 + text, kind),
        )
    )
