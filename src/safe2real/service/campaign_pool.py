"""A running service and its campaigns: replayed `Campaign` objects, each used by one thread of its own.

A `Campaign` must not be shared between threads. Each hosted campaign has three threads:

- the writer asks and tells, and keeps its object in memory;
- the reader answers status, deployments and maps, and keeps its object in memory: reading never blocks asking;
- the planner computes plans and forecasts, which may take minutes, so that no page and no alert waits for them. It opens an
  object for each call and closes it afterwards.

The journal is authoritative, for these objects as for other servers on the same database.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import status_document
from safe2real.campaign.events import BEFORE_THE_FIRST
from safe2real.campaign.history import DeploymentHistory, Entry
from safe2real.campaign.journal.url import shown_place
from safe2real.campaign.signing import current_principal, keys_from_environment
from safe2real.errors import Safe2RealError
from safe2real.service.middleware import Metrics
from safe2real.service.problem_documents import Busy, Forbidden, NotFound, NoToken, TooMany
from safe2real.service.storage import Places
from safe2real.service.tokens import Caller, Role, Tokens

if TYPE_CHECKING:
    from safe2real.service.record_endpoints import Verification

_Answer = TypeVar("_Answer")
Work = Callable[[Campaign], _Answer]
Head = tuple[int, str]  # sequence and digest of an event
QUEUE = 256  # calls that may wait for one object
LOOK = 0.5  # seconds between two reads of a record's head
_REMEMBERED = 10_000  # keys of a rate limit before idle ones are forgotten


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the service; the defaults are for a fleet of some hundred machines."""

    body: int = 8 << 20  # bytes of one request, decompressed
    log: int = 1 << 28  # bytes of one imported log, decompressed: counting it takes some 12 times as much memory
    rate: float = 500.0  # requests per second of one token
    failures: float = 5.0  # per second and address, of requests without a valid token
    sending: float = 60.0  # seconds until all of a body has arrived
    importing: float = 600.0  # the same for a log, and the seconds until it is recorded
    answering: float = 120.0  # seconds until a campaign has answered
    planning: float = 300.0  # the same for long requests: plans, maps, forecasts
    streams: int = 200  # event streams at the same time
    own_streams: int = 50  # of those, by one token


class Rate:
    """A rate limit for each key: `per_second` requests on average, twice as many at once."""

    def __init__(self, per_second: float) -> None:
        self._rate, self._most = per_second, 2.0 * per_second
        self._left: dict[str, tuple[float, float]] = {}  # key -> (left, at)

    def take(self, key: str) -> None:
        """Count one request of `key`.

        Raises:
            TooMany: The key has used up its rate.
        """
        at = time.monotonic()
        left = self._now(key, at) - 1.0
        if left < 0.0:
            raise TooMany(f"more than {self._rate:g} requests a second; wait a moment")
        if len(self._left) > _REMEMBERED:
            self._left = {one: state for one, state in self._left.items() if self._now(one, at) < self._most}
        self._left[key] = (left, at)

    def _now(self, key: str, at: float) -> float:
        left, since = self._left.get(key, (self._most, at))
        return min(self._most, left + (at - since) * self._rate)


class CampaignThread:
    """A thread and the `Campaign` object that it uses; calls are executed in order.

    Args:
        place: The campaign's place.
        keeps: Whether the object stays in memory between two calls.
    """

    def __init__(self, place: str, *, keeps: bool = True) -> None:
        self._place, self._keeps, self._waiting = place, keeps, 0
        self._campaign: Campaign | None = None
        self._known: Head = (0, BEFORE_THE_FIRST)  # last event that a closed object knew of
        self._thread = ThreadPoolExecutor(1, "campaign")

    async def do(self, work: Work[_Answer], *, timeout: float, by: str | None = None, reopen: bool = False) -> _Answer:
        """Return the result of `work`, executed in the thread.

        Args:
            work: A function of the campaign.
            timeout: Seconds until it must have returned.
            by: The principal that the record names for what `work` records.
            reopen: Whether to read the record anew, also if it went back behind what the old object knows. Opening and
                `work` are one task of the thread: nothing is handed out in between, and if `work` fails, the old object
                stays and goes on to refuse the record.

        Raises:
            Busy: Too many calls wait, or this one timed out. Work that has begun continues to its end.
        """
        if self._waiting >= QUEUE:
            raise Busy(f"{self._waiting} calls wait for this campaign already; try again in a moment")
        self._waiting += 1
        future = self._thread.submit(self._do_reopened if reopen else self._do, work, by)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        except TimeoutError:
            raise Busy(
                f"no answer within {timeout:g} s; work that has begun continues. Asks and tells may be sent again"
            ) from None
        finally:
            self._waiting -= 1

    def _do(self, work: Work[_Answer], by: str | None) -> _Answer:
        if self._campaign is None:
            self._campaign = Campaign.open(self._place)
            self._campaign.journal.remember(*self._known)
        keeps = self._keeps
        try:
            with _acting_as(by, self._campaign):
                return work(self._campaign)
        except Safe2RealError:
            raise
        except BaseException:  # a bug or too little memory: the object may be half changed, so it is not used again
            keeps = False
            raise
        finally:
            if not keeps:
                self._known = self._campaign.journal.known  # the next object still notices a restored record
                self._close()

    def _do_reopened(self, work: Work[_Answer], by: str | None) -> _Answer:
        opened = Campaign.open(self._place)
        try:
            with _acting_as(by, opened):
                answer = work(opened)
        except BaseException:
            opened.close()
            raise
        self._close()
        self._campaign, self._known = opened, (0, BEFORE_THE_FIRST)
        return answer

    def renew(self) -> None:
        """Close the object after all waiting calls; the next call opens the record as it is then, however far it goes."""
        self._thread.submit(self._forget)

    def _forget(self) -> None:
        self._close()
        self._known = (0, BEFORE_THE_FIRST)

    def close(self) -> None:
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True, cancel_futures=False)

    def _close(self) -> None:
        if self._campaign is not None:
            self._campaign.close()
        self._campaign = None


def _acting_as(by: str | None, campaign: Campaign) -> AbstractContextManager[None]:
    return nullcontext() if by is None else campaign.acting_as(by)


class HostedCampaign:
    """One campaign of the service."""

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place, self.shown_place = name, place, shown_place(place)
        self.writer, self.reader = CampaignThread(place), CampaignThread(place)
        self.planner = CampaignThread(place, keeps=False)
        self.changed = asyncio.Event()  # replaced after each event that this server records
        self._history: tuple[Campaign, DeploymentHistory] | None = None  # of the reader's object, used by the reader alone
        self.verification: Verification | None = None  # the last one
        self._head: Head = (0, "")
        self._head_read_at = float("-inf")
        self._status: tuple[Head, str] = ((-1, ""), "")

    async def head(self, timeout: float) -> Head:
        """Return the record's head, at most a quarter of a second old; read once for all streams."""
        if time.monotonic() - self._head_read_at >= LOOK / 2:
            self._head_read_at = time.monotonic()  # before the answer, so that other streams do not read it too
            self._head = await self.reader.do(_head, timeout=timeout)
        return self._head

    async def status(self, timeout: float) -> tuple[Head, str]:
        """Return the head, and the status document at that head as JSON; computed once for each head."""
        if self._status[0] != self._head:
            self._status = await self.reader.do(_status, timeout=timeout)
        return self._status

    def deployments(self, campaign: Campaign) -> list[Entry]:
        """Return all deployments in the order in which they were handed out; `campaign` is the reader's object."""
        if self._history is None or self._history[0] is not campaign:
            self._history = campaign, DeploymentHistory(campaign.name, campaign.problem.simulator)
        history = self._history[1]
        with campaign.journal.reading() as transaction:
            history.read(transaction.events(history.sequence))
        return history.entries

    def has_changed(self) -> None:
        """Wake all streams after this server recorded an event."""
        self._head_read_at = float("-inf")
        self.changed.set()
        self.changed = asyncio.Event()

    def renew_readers(self) -> None:
        """Let reader and planner read the record anew, after a branch was recorded on a restored copy."""
        self.reader.renew()
        self.planner.renew()

    def close(self) -> None:
        for thread in (self.writer, self.reader, self.planner):
            thread.close()


def _head(campaign: Campaign) -> Head:
    with campaign.journal.reading() as transaction:
        return transaction.last()


def _status(campaign: Campaign) -> tuple[Head, str]:
    document = status_document(campaign, forecast=False)
    return (document["events"], document["head"]), json.dumps(document, allow_nan=False)


class Service:
    """The state that all requests share: campaigns, tokens, limits and metrics.

    Args:
        places: The storage of the campaigns.
        auth: Whether a token is needed; without, the service must be reachable on loopback only.
        limits: Limits of requests.
    """

    def __init__(self, places: Places, *, auth: bool = True, limits: Limits | None = None) -> None:
        self.places, self.auth, self.limits = places, auth, limits or Limits()
        self.tokens = Tokens(places) if auth else None
        self.anonymous = Caller(current_principal(keys_from_environment()), Role.OPERATOR)  # where no token is needed
        self.rate, self.failures = Rate(self.limits.rate), Rate(self.limits.failures)
        self.metrics = Metrics()
        self.streams: Counter[str] = Counter()  # open event streams, by the token's name
        self._hosted: dict[str, HostedCampaign] = {}
        self._helpers = ThreadPoolExecutor(2, "service")  # for the database of tokens and names
        self._makers = ThreadPoolExecutor(
            2, "making"
        )  # for new campaigns, exports and logs; no check of a token waits for these

    async def admitted(self, authorization: str | None, address: str, roles: frozenset[Role], name: str | None) -> Caller:
        """Authenticate and authorise a request.

        Args:
            authorization: The header of that name.
            address: The client's address; failures are limited for each.
            roles: The admitted roles.
            name: The campaign in the address of the request, if there is one.

        Returns:
            The owner of the token.

        Raises:
            NoToken: The header has no valid token.
            TooMany: The token or the address exceeds its rate.
            Forbidden: Another role or campaign is needed; the message does not tell whether the campaign exists.
        """
        caller = self.anonymous if self.tokens is None else await self._caller(self.tokens, authorization)
        if caller is None:
            self.failures.take(address)
            raise NoToken("this needs a token that is valid: send the header `Authorization: Bearer TOKEN`")
        if self.tokens is not None:
            self.rate.take(caller.name)
        if caller.role not in roles:
            raise Forbidden(f"this token has the role {caller.role}; this needs {' or '.join(sorted(roles))}")
        if name is not None and caller.campaign not in (None, name):
            raise Forbidden(f"this token is for the campaign {caller.campaign!r} alone")
        return caller

    async def is_still(self, caller: Caller, authorization: str | None) -> bool:
        """Return whether the header's token is still valid: a stream may outlive its token."""
        return self.tokens is None or await self._caller(self.tokens, authorization) == caller

    async def _caller(self, tokens: Tokens, authorization: str | None) -> Caller | None:
        kind, _, token = (authorization or "").partition(" ")
        shown = token.strip() if kind.lower() == "bearer" else ""
        if not shown:
            return None
        if tokens.is_fresh:  # a thread only if the database must be read
            return tokens.caller(shown)
        found: Caller | None = await self.in_helper_thread(tokens.caller, shown)
        return found

    async def hosted(self, name: str) -> HostedCampaign:
        """Return the campaign `name`, opened at its first use.

        Raises:
            NotFound: No campaign has this name.
        """
        if name not in self._hosted:
            if name not in await self.in_helper_thread(self.places.names):
                raise NotFound("there is no campaign of this name; see GET /api/v1/campaigns")
            # Another request may have opened it meanwhile.
            self._hosted.setdefault(name, HostedCampaign(name, self.places.place_of(name)))
        return self._hosted[name]

    async def names(self, caller: Caller) -> list[str]:
        """Return the names of the campaigns that a caller may see."""
        found = await self.in_helper_thread(self.places.names)
        return [name for name in found if caller.campaign in (None, name)]

    async def in_helper_thread(self, work: Any, *arguments: Any) -> Any:
        """Run short work that may wait for a disk."""
        return await asyncio.get_running_loop().run_in_executor(self._helpers, work, *arguments)

    async def in_slow_thread(self, work: Any, *arguments: Any) -> Any:
        """Run work that may take minutes, in one of two threads."""
        return await asyncio.get_running_loop().run_in_executor(self._makers, work, *arguments)

    def without_places(self, message: str, name: str) -> str:
        """Return a message for clients, without the places where campaigns are stored."""
        if name in self._hosted:
            message = message.replace(self._hosted[name].shown_place, f"campaign {name}")
        return message.replace(self.places.shown, "the service's database")

    def open_now(self) -> list[HostedCampaign]:
        """Return the campaigns that were used since the start."""
        return list(self._hosted.values())

    def close(self) -> None:
        for one in self._hosted.values():
            one.close()
        self._helpers.shutdown()
        self._makers.shutdown(cancel_futures=True)
