"""Alerts: a webhook receives each event that a person should know of before the next look at a page, once.

The alerts are a function of a campaign's status and of the time (`alerts_in`). They record and change nothing: a silent
worker keeps its deployments until a person abandons them, because the reason must not depend on the episode's content, which
no program can know.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn
from urllib.parse import urlsplit

from safe2real.campaign.documents import status_document
from safe2real.campaign.events import now
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.model.constraint_text import count
from safe2real.model.validation import finite_number
from safe2real.service.campaign_pool import Service
from safe2real.standing import DoubtCode, Standing

_PAUSE = 2.0  # seconds between two checks of all campaigns
_TIMEOUT = 10.0  # seconds until the webhook has answered
_AT_ONCE = 4  # urgent alerts that are sent at the same time; as many others
_log = logging.getLogger("safe2real.service.alerts")


class Cause(StrEnum):
    """The cause of an alert."""

    REFUTED = "refuted"
    """The data contradict an assumption: no guarantee holds any more."""
    MARGIN_REFUTED = "margin-refuted"
    """The baseline is less safe than stated: stop the machine."""
    SILENT = "worker-silent"
    """A worker holds a deployment for longer than the stated time."""
    STOPPED = "stop-reached"
    """The uncertainty has reached the tolerance: plan now."""


URGENT = (Cause.MARGIN_REFUTED, Cause.REFUTED)  # these wait for no other alert
_Key = tuple[str, Cause, str]  # campaign, cause and subject of an alert


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert, sent to the webhook as JSON."""

    campaign: str  # the service's name of it
    cause: Cause
    subject: str  # the deployment that a silent worker holds; else empty
    text: str


@dataclass(frozen=True, slots=True)
class AlertTerms:
    """The webhook, and the time after which a worker counts as silent."""

    url: str  # may hold a secret: never shown
    silent_after: float | None = None  # seconds; None for no such alerts

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput("the alerts' address is not one of the web; give https://host/path")
        if self.silent_after is not None and finite_number("silent-after", self.silent_after) <= 0.0:
            raise InvalidInput(f"silent-after is {self.silent_after:g}; give the seconds after which a worker is silent")


def alerts_in(name: str, status: Mapping[str, Any], silent_after: float | None, at: str) -> list[Alert]:
    """Return the alerts of a campaign.

    Args:
        name: the service's name of the campaign.
        status: its status document.
        silent_after: seconds that a worker may hold a deployment before it counts as silent; None for any time.
        at: now, UTC.

    Returns:
        Alerts, the gravest first.
    """
    found = []
    doubts = [one for one in status["assurance"]["doubts"] if DoubtCode(one["code"]).standing is Standing.REFUTED]
    margins = [one["text"] for one in doubts if one["code"] == DoubtCode.MARGIN_REFUTED]
    if margins:
        found.append(Alert(name, Cause.MARGIN_REFUTED, "", f"STOP THE MACHINE: {'; '.join(margins)}"))
    if status["standing"] == Standing.REFUTED:
        why = "; ".join(one["text"] for one in doubts)
        machines = ", ".join(sorted({one["worker"] for one in status["held"] if one["id"] in status["uncertified"]}))
        stop = f". Stop these machines, what they run is not certified any more: {machines}" if machines else ""
        found.append(Alert(name, Cause.REFUTED, "", f"nothing is certified any more: {why}{stop}"))
    if status["stopped"]:
        after = count(status["rounds"], "deployment")
        text = f"the uncertainty has reached the tolerance of {status['tolerance']:g} after {after}"
        found.append(Alert(name, Cause.STOPPED, "", text))
    for one in status["held"]:
        if silent_after is not None and _seconds(one["at"], at) > silent_after:
            text = (
                f"{one['worker']} has had {one['id']} since {one['at']}, for more than {silent_after:g} s. Ask what became "
                "of it; tell what was seen, or abandon it with the reason"
            )
            found.append(Alert(name, Cause.SILENT, one["id"], text))
    return found


class Watchman:
    """Checks all campaigns of a service, and sends each alert once for as long as it is true.

    No campaign waits for another: each is checked by a task of its own, and a check never waits for the webhook. Urgent
    alerts have threads of their own. Of the others, each campaign sends one at a time, so that a silent fleet does not delay
    the alerts of other campaigns.
    """

    def __init__(self, service: Service, terms: AlertTerms) -> None:
        self._service, self._terms = service, terms
        self._sent: set[_Key] = set()
        self._current: dict[str, set[_Key]] = {}  # alerts that are true now, by campaign
        self._checks: dict[str, asyncio.Task[None]] = {}  # by campaign
        self._posts: dict[_Key, asyncio.Task[None]] = {}
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by campaign, of alerts that are not urgent
        self._threads = {urgent: ThreadPoolExecutor(_AT_ONCE, "alerts") for urgent in (True, False)}

    async def check(self) -> None:
        """Begin a check of every campaign whose last one is over; alerts that the webhook refused are sent again."""
        for name in await self._service.in_helper_thread(self._service.places.names):
            if name not in self._checks or self._checks[name].done():
                self._checks[name] = asyncio.create_task(self._check(name))

    async def _check(self, name: str) -> None:
        with _errors_logged(name):  # an unreadable campaign must not hide the others; its page says why
            hosted = await self._service.hosted(name)
            document = await hosted.reader.do(
                lambda campaign: status_document(campaign, forecast=False), timeout=self._service.limits.answering
            )
            found = alerts_in(name, document, self._terms.silent_after, now())
            alerts: dict[_Key, Alert] = {(one.campaign, one.cause, one.subject): one for one in found}
            # An alert that is over may become true again, and is sent again then.
            self._sent = {key for key in self._sent if key[0] != name or key in alerts}
            self._current[name] = set(alerts)
            for key, alert in alerts.items():
                if key not in self._sent and key not in self._posts:
                    self._posts[key] = asyncio.create_task(self._post(key, alert))

    async def _post(self, key: _Key, alert: Alert) -> None:
        urgent, loop = alert.cause in URGENT, asyncio.get_running_loop()
        try:
            async with nullcontext() if urgent else self._turns[alert.campaign]:
                if key in self._current[alert.campaign]:  # it may be over by now
                    taken = await loop.run_in_executor(self._threads[urgent], post, self._terms.url, alert)
                    self._sent |= {key} if taken else set()
        finally:
            del self._posts[key]

    async def watch(self) -> NoReturn:
        """Check all campaigns again and again, as long as the service runs."""
        try:
            while True:
                with _errors_logged("the service's database"):  # which may be back at the next check
                    await self.check()
                await asyncio.sleep(_PAUSE)
        finally:
            for task in (*self._checks.values(), *self._posts.values()):
                task.cancel()
            for threads in self._threads.values():
                threads.shutdown(wait=False, cancel_futures=True)


def post(url: str, alert: Alert) -> bool:
    """Send an alert, and return whether the webhook took it. Redirections to other hosts are not followed."""
    content = json.dumps({**asdict(alert), "at": now()}).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirection).open(request, timeout=_TIMEOUT):
            return True
    except (OSError, http.client.HTTPException, ValueError) as error:  # also an answer that is not HTTP
        # The address may hold a secret, and the error's text may quote it.
        _log.warning("an alert (%s, %s) was not taken: %s", alert.campaign, alert.cause, type(error).__name__)
        return False


@contextmanager
def _errors_logged(subject: str) -> Iterator[None]:
    """Log any error of this block: one broken campaign must not stop the alerts of the others."""
    try:
        yield
    except Safe2RealError:
        pass
    except Exception:  # noqa: BLE001 (any error)
        _log.exception("%s could not be checked; it is tried again", subject)


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@asynccontextmanager
async def watching(service: Service, terms: AlertTerms | None) -> AsyncIterator[None]:
    """Run a watchman while the service runs, if terms are given."""
    if terms is None:
        yield
        return
    task = asyncio.create_task(Watchman(service, terms).watch())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _seconds(since: str, at: str) -> float:
    try:
        return (datetime.fromisoformat(at) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):  # not a time as this package writes it
        return 0.0
