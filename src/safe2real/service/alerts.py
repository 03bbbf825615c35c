"""Alerts: a webhook that is told once when something happens that a person should know before looking at a page.

What is told is a function of a campaign's status and of the time (`alerts_in`); nothing is recorded, and nothing is done: a
worker that is silent keeps what it holds until a person abandons it, because the reason must have nothing to do with what
happened in the episode, and no program knows that.
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

_LOOK = 2.0  # seconds between two looks at all campaigns
_PATIENCE = 10.0  # seconds until the webhook has answered
_AT_ONCE = 4  # urgent alerts under way, and others
_log = logging.getLogger("safe2real.service.alerts")


class Cause(StrEnum):
    """The cause of an alert."""

    REFUTED = "refuted"
    """The data contradict an assumption: nothing is a guarantee any more."""
    MARGIN_REFUTED = "margin-refuted"
    """The baseline itself is not as safe as was stated: stop the machine."""
    SILENT = "worker-silent"
    """A worker holds a deployment for longer than was stated."""
    STOPPED = "stop-reached"
    """The model is accurate enough: plan now."""


URGENT = (Cause.MARGIN_REFUTED, Cause.REFUTED)  # nothing else is sent before these
_Key = tuple[str, Cause, str]  # campaign, cause and subject of an alert


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that a person should know; what the webhook is sent, as JSON."""

    campaign: str  # as the service calls it
    cause: Cause
    subject: str  # the deployment that a silent worker holds; else empty
    text: str


@dataclass(frozen=True, slots=True)
class AlertTerms:
    """Whom to tell, and from when on a worker is silent."""

    url: str  # may hold a secret: never shown
    silent_after: float | None = None  # seconds; None where silence is no news

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
    """What is to be told of a campaign that stands like this.

    Args:
        name: as the service calls it.
        status: a status document with its `assurance`.
        silent_after: seconds that a worker may hold a deployment before it is called silent.
        at: now, UTC.

    Returns:
        The gravest first.
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
    """Looks at all campaigns of a service, and tells each alert once for as long as it is true.

    No campaign waits for another: each is looked at by a task of its own, and a look never waits for the webhook. Urgent
    alerts have threads of their own. Of the others one is under way for each campaign, so that a fleet that is silent does
    not delay the alerts of other campaigns.
    """

    def __init__(self, service: Service, terms: AlertTerms) -> None:
        self._service, self._terms = service, terms
        self._told: set[_Key] = set()
        self._current: dict[str, set[_Key]] = {}  # what is true of each campaign
        self._looks: dict[str, asyncio.Task[None]] = {}  # by campaign
        self._posts: dict[_Key, asyncio.Task[None]] = {}
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # of alerts that are not urgent
        self._threads = {urgent: ThreadPoolExecutor(_AT_ONCE, "alerts") for urgent in (True, False)}

    async def look(self) -> None:
        """Begin a look at every campaign whose last one is over. What the webhook did not take is told after the next."""
        for name in await self._service.in_helper_thread(self._service.places.names):
            if name not in self._looks or self._looks[name].done():
                self._looks[name] = asyncio.create_task(self._look_at(name))

    async def _look_at(self, name: str) -> None:
        with _going_on(name):  # one that cannot be read must not hide the others; its page says why
            hosted = await self._service.hosted(name)
            document = await hosted.reader.do(
                lambda campaign: status_document(campaign, forecast=False), patience=self._service.limits.answering
            )
            found = alerts_in(name, document, self._terms.silent_after, now())
            alerts: dict[_Key, Alert] = {(one.campaign, one.cause, one.subject): one for one in found}
            # What is over may come again, and is news then.
            self._told = {key for key in self._told if key[0] != name or key in alerts}
            self._current[name] = set(alerts)
            for key, alert in alerts.items():
                if key not in self._told and key not in self._posts:
                    self._posts[key] = asyncio.create_task(self._post(key, alert))

    async def _post(self, key: _Key, alert: Alert) -> None:
        urgent, loop = alert.cause in URGENT, asyncio.get_running_loop()
        try:
            async with nullcontext() if urgent else self._turns[alert.campaign]:
                if key in self._current[alert.campaign]:  # it may be over by now
                    taken = await loop.run_in_executor(self._threads[urgent], posted, self._terms.url, alert)
                    self._told |= {key} if taken else set()
        finally:
            del self._posts[key]

    async def watch(self) -> NoReturn:
        """Look again and again, as long as the service runs."""
        try:
            while True:
                with _going_on("the service's database"):  # which may be away now, and is looked at again
                    await self.look()
                await asyncio.sleep(_LOOK)
        finally:
            for task in (*self._looks.values(), *self._posts.values()):
                task.cancel()
            for threads in self._threads.values():
                threads.shutdown(wait=False, cancel_futures=True)


def posted(url: str, alert: Alert) -> bool:
    """Whether the webhook took it. Redirections are not followed: another host would receive the alert."""
    content = json.dumps({**asdict(alert), "at": now()}).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirection).open(request, timeout=_PATIENCE):
            return True
    except (OSError, http.client.HTTPException, ValueError) as error:  # also what answers something else than HTTP
        # The address may hold a secret, and so may what the error says of it.
        _log.warning("an alert (%s, %s) was not taken: %s", alert.campaign, alert.cause, type(error).__name__)
        return False


@contextmanager
def _going_on(subject: str) -> Iterator[None]:
    """Log any error and go on: one broken campaign must not stop the alerts of the others."""
    try:
        yield
    except Safe2RealError:
        pass
    except Exception:  # noqa: BLE001 (whatever it is)
        _log.exception("%s could not be looked at; it is tried again", subject)


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
    except (ValueError, TypeError):  # a time that this package did not write
        return 0.0
