"""Around every answer: headers that a browser obeys, and, where no token is needed, proof that the caller is at home."""

from __future__ import annotations

import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from safe2real.service.metrics import Metrics
from safe2real.service.problems import problem

_NOTHING = b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; " + _NOTHING),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_NOT_KEPT, _ASKED_AGAIN = (b"cache-control", b"no-store"), (b"cache-control", b"no-cache")
_AT_HOME = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")


class Shield:
    """Middleware of the plain kind: streams pass as they come."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, loopback_only: bool) -> None:
        self._app, self._metrics, self._loopback_only = app, metrics, loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        own = [*_HEADERS, _ASKED_AGAIN if scope["path"].startswith("/page/") else _NOT_KEPT]

        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in own if one[0] not in given)]
                address = getattr(scope.get("route"), "path", "other")
                self._metrics.count(address, message["status"], time.perf_counter() - began)
            await send(message)

        if self._loopback_only and not _is_at_home(scope):
            refusal = problem(
                "forbidden", 403, "without tokens the service answers programs and pages of its own machine alone"
            )
            await refusal(scope, receive, shielded)
            return
        await self._app(scope, receive, shielded)


def _is_at_home(scope: Scope) -> bool:
    """Whether a request was made for this machine's own name, and by no page of another site.

    A page of another site can send requests to 127.0.0.1, and a name of its own can lead there; the browser says both.
    """
    headers = dict(scope["headers"])
    host, origin = headers.get(b"host", b""), headers.get(b"origin")
    own_site = headers.get(b"sec-fetch-site", b"none") in (b"same-origin", b"none")  # which a GET says without an origin
    return own_site and bool(_AT_HOME.fullmatch(host)) and origin in (None, b"http://" + host, b"https://" + host)
