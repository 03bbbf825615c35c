"""Middleware: security headers, metrics for Prometheus, and, without authentication, refusal of requests from elsewhere."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import Counter, defaultdict

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from safe2real.campaign.campaign import Campaign
from safe2real.service.problem_documents import Forbidden, problem
from safe2real.standing import Standing

_NO_FRAMES = b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; " + _NO_FRAMES),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
_NO_STORE, _NO_CACHE = (b"cache-control", b"no-store"), (b"cache-control", b"no-cache")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_OF_A_CAMPAIGN = ("rounds", "told", "abandoned", "withdrawn", "samples", "suspects", "events")
_LOOPBACK_HOST = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")


class Shield:
    """Plain ASGI middleware, which passes streams on unbuffered."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, loopback_only: bool) -> None:
        self._app, self._metrics, self._loopback_only = app, metrics, loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        own = [*_HEADERS, _NO_CACHE if scope["path"].startswith("/page/") else _NO_STORE]

        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in own if one[0] not in given)]
                address = getattr(scope.get("route"), "path", "other")
                self._metrics.count(address, message["status"], time.perf_counter() - began)
            await send(message)

        if self._loopback_only and not _is_from_this_machine(scope):
            refusal = problem(
                Forbidden.kind, "without tokens the service answers programs and pages of its own machine alone"
            )
            await refusal(scope, receive, shielded)
            return
        await self._app(scope, receive, shielded)


def _is_from_this_machine(scope: Scope) -> bool:
    """Return whether a request names this machine as its host and was not sent by a page of another site.

    A page of another site can send requests to 127.0.0.1, also under a host name of its own; browsers declare both.
    """
    headers = dict(scope["headers"])
    host, origin = headers.get(b"host", b""), headers.get(b"origin")
    own_site = headers.get(b"sec-fetch-site", b"none") in (b"same-origin", b"none")  # a GET declares this without an origin
    return own_site and bool(_LOOPBACK_HOST.fullmatch(host)) and origin in (None, b"http://" + host, b"https://" + host)


class Metrics:
    """Counts and durations of requests since the start of the server."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def count(self, address: str, status: int, seconds: float) -> None:
        """Count one answer; `address` is the route's pattern, of which there are few."""
        self._requests[address, status] += 1
        self._times[address][bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[address] += seconds

    def text(self) -> list[str]:
        """Return lines of the exposition format."""
        lines = ["# TYPE safe2real_requests_total counter"]
        for (address, status), number in sorted(self._requests.items()):
            lines.append(f'safe2real_requests_total{{address="{_quoted(address)}",status="{status}"}} {number}')
        lines.append("# TYPE safe2real_request_seconds histogram")
        for address, counts in sorted(self._times.items()):
            label, total = f'address="{_quoted(address)}"', 0
            for bound, number in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                total += number
                lines.append(f'safe2real_request_seconds_bucket{{{label},le="{bound}"}} {total}')
            lines.append(f"safe2real_request_seconds_sum{{{label}}} {self._seconds[address]:.6f}")
            lines.append(f"safe2real_request_seconds_count{{{label}}} {total}")
        return lines


def campaign_lines(name: str, campaign: Campaign) -> list[str]:
    """Return the metrics of one campaign."""
    status = campaign.status(forecast=False)
    label = f'campaign="{_quoted(name)}"'
    numbers = {one: getattr(status, one) for one in _OF_A_CAMPAIGN}
    numbers |= {"held": len(status.held), "overdue": len(status.overdue), "waiting": status.episodes_waiting}
    numbers |= {"stopped": int(status.stopped), "halted": int(status.halted), "tolerance": status.tolerance}
    lines = [f"safe2real_campaign_readable{{{label}}} 1"]
    lines += [f"safe2real_campaign_{key}{{{label}}} {value}" for key, value in numbers.items()]
    lines.append(f"safe2real_campaign_uncertainty{{{label}}} {status.uncertainty}".replace(" inf", " +Inf"))
    for standing in Standing:
        lines.append(f'safe2real_campaign_standing{{{label},standing="{standing}"}} {int(status.standing is standing)}')
    return lines


def unreadable_line(name: str) -> str:
    """Return the metric of a campaign that cannot be read."""
    return f'safe2real_campaign_readable{{campaign="{_quoted(name)}"}} 0'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
