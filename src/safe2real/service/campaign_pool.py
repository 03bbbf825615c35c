"""A running service and its campaigns: replayed objects that stay in memory, each used by one thread of its own.

`Campaign` is not for several threads, so each object has one, which does what it is given in order. A campaign keeps two:
the field's, which asks and tells, and the desk's, which says where it stands. So looking never blocks asking. What may take
minutes (plans, forecasts) has a third thread, the study's, so that no page and no alert waits in line behind a plan; its
object is opened for one call and let go after it. The journal decides what is true, for these as for other servers on the
same database.
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
from safe2real.campaign.documents import certificate_document, status_document
from safe2real.campaign.events import BEFORE_THE_FIRST
from safe2real.campaign.history import DeploymentHistory, Entry
from safe2real.campaign.journal.url import shown_place
from safe2real.campaign.signing import keys_from_environment, who_calls
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
LOOK = 0.5  # seconds between two looks at a record's head
_REMEMBERED = 10_000  # keys of a rate limit before idle ones are forgotten


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the whole service; the defaults are for a fleet of some hundred machines."""

    body: int = 8 << 20  # bytes of one request, written out
    log: int = 1 << 30  # bytes of one imported log, written out
    rate: float = 500.0  # requests per second of one token
    failures: float = 5.0  # per second and address, of requests without a token that is valid
    sending: float = 60.0  # seconds until all of a body is here
    importing: float = 600.0
    answering: float = 120.0  # seconds until a campaign has answered
    planning: float = 300.0  # the same for what may take long: plans, maps, forecasts
    streams: int = 200  # pages that watch at the same time
    own_streams: int = 50  # of them, by one token


class Rate:
    """So many a second for each key, and twice as many at once."""

    def __init__(self, per_second: float) -> None:
        self._rate, self._most = per_second, 2.0 * per_second
        self._left: dict[str, tuple[float, float]] = {}  # key -> (left, at)

    def take(self, key: str) -> None:
        """Count one.

        Raises:
            TooMany: There were too many.
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


class Actor:
    """One `Campaign` object and the thread that uses it.

    Args:
        place: Where the campaign is.
        keeps: Whether the object stays in memory between two calls.
    """

    def __init__(self, place: str, *, keeps: bool = True) -> None:
        self._place, self._keeps, self._waiting = place, keeps, 0
        self._campaign: Campaign | None = None
        self._known: Head = (0, BEFORE_THE_FIRST)  # by an object that is gone
        self._thread = ThreadPoolExecutor(1, "campaign")

    async def do(self, work: Work[_Answer], *, patience: float, by: str | None = None, anew: bool = False) -> _Answer:
        """What `work` answers.

        Args:
            work: What is done with the campaign.
            patience: Seconds until it has answered.
            by: Whom the record names as the one who did it.
            anew: Whether the record is read as it is now, whatever was known of it; that is forgotten when `work` is done.
                It is one task of the thread: nothing is handed out between the opening and what `work` records, and where
                `work` fails, the object that knows more than the record goes on to refuse it.

        Raises:
            Busy: Too many wait, or it was not done in time. What had begun goes on to its end.
        """
        if self._waiting >= QUEUE:
            raise Busy(f"{self._waiting} calls wait for this campaign already; try again in a moment")
        self._waiting += 1
        future = self._thread.submit(self._do_anew if anew else self._do, work, by)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), patience)
        except TimeoutError:
            raise Busy(
                f"no answer within {patience:g} s; what had begun goes on. Asks and tells may be sent again"
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
        except BaseException:  # no refusal but a mistake, or too little memory: what it was about may be done by half
            keeps = False
            raise
        finally:
            if not keeps:
                self._known = self._campaign.journal.known  # a record that went back is still noticed
                self._close()

    def _do_anew(self, work: Work[_Answer], by: str | None) -> _Answer:
        anew = Campaign.open(self._place)
        try:
            with _acting_as(by, anew):
                answer = work(anew)
        except BaseException:
            anew.close()
            raise
        self._close()
        self._campaign, self._known = anew, (0, BEFORE_THE_FIRST)
        return answer

    def renew(self, forget: Callable[[], None] | None = None) -> None:
        """Forget what was read, when all that waits now is done: the call after that opens the record as it is then."""
        self._thread.submit(self._forget)
        if forget is not None:
            self._thread.submit(forget)

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


class Hosted:
    """One campaign of the service."""

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place, self.shown_place = name, place, shown_place(place)
        self.field, self.desk, self.study = Actor(place), Actor(place), Actor(place, keeps=False)
        self.changed = asyncio.Event()  # replaced after each change that this server knows of
        self._history: DeploymentHistory | None = None  # the desk's
        self.verification: Verification | None = None  # the last one
        self._head: Head = (0, "")
        self._looked_at = float("-inf")
        self._status: tuple[Head, str] = ((-1, ""), "")

    async def head(self, patience: float) -> Head:
        """Of the record, as it was less than half a second ago; read once for all who watch."""
        if time.monotonic() - self._looked_at >= LOOK / 2:
            self._looked_at = time.monotonic()  # before the answer: others need not ask too
            self._head = await self.desk.do(_head, patience=patience)
        return self._head

    async def status(self, patience: float) -> tuple[Head, str]:
        """The status document, and the head that it is of; computed once for each head."""
        if self._status[0] != self._head:
            self._status = await self.desk.do(_status, patience=patience)
        return self._status

    def deployments(self, campaign: Campaign) -> list[Entry]:
        """All of them, in the order in which they were handed out; `campaign` is the desk's object."""
        if self._history is None:
            self._history = DeploymentHistory(campaign.name, campaign.problem.simulator)
        with campaign.journal.reading() as transaction:
            self._history.read(transaction.events(self._history.sequence))
        return self._history.entries

    def has_changed(self) -> None:
        """Something was recorded here: wake those who watch."""
        self._looked_at = float("-inf")
        self.changed.set()
        self.changed = asyncio.Event()

    def renew_readers(self) -> None:
        """The record was restored from a copy, and the field has said so: read it as it is now."""
        self.desk.renew(self._forget_history)
        self.study.renew()

    def _forget_history(self) -> None:
        self._history = None

    def close(self) -> None:
        for actor in (self.field, self.desk, self.study):
            actor.close()


def _head(campaign: Campaign) -> Head:
    with campaign.journal.reading() as transaction:
        return transaction.last()


def _status(campaign: Campaign) -> tuple[Head, str]:
    document = status_with(campaign, forecast=False)
    return (document["events"], document["head"]), json.dumps(document, allow_nan=False)


def status_with(campaign: Campaign, *, forecast: bool) -> dict[str, Any]:
    """The status, and the certificate of whatever is handed out now, with all it rests on as codes and texts."""
    document = status_document(campaign.status(forecast=forecast), campaign)
    document["campaign"] = document.pop("name")
    problem, model = campaign.problem, campaign.problem.simulator
    about = {"delta": problem.settings.delta, "method": campaign.method.name}
    about |= {"format": campaign.format, "horizon": model.steps, "states": model.num_states, "actions": model.num_actions}
    return {**document, **about, "assurance": certificate_document(campaign.assurance())}


class Service:
    """Everything that requests share: campaigns, tokens, limits and numbers.

    Args:
        places: Where the campaigns are.
        auth: Whether a token is needed; without, the service must be reachable on loopback alone.
        limits: How much requests may take.
    """

    def __init__(self, places: Places, *, auth: bool = True, limits: Limits | None = None) -> None:
        self.places, self.auth, self.limits = places, auth, limits or Limits()
        self.tokens = Tokens(places) if auth else None
        self.nobody = Caller(who_calls(keys_from_environment()), Role.OPERATOR)  # who calls where no token is needed
        self.rate, self.failures = Rate(self.limits.rate), Rate(self.limits.failures)
        self.metrics = Metrics()
        self.streams: Counter[str] = Counter()  # pages that watch, by the token's name
        self._hosted: dict[str, Hosted] = {}
        self._helpers = ThreadPoolExecutor(2, "service")  # for the database of tokens and names
        self._makers = ThreadPoolExecutor(2, "making")  # for what takes long: new campaigns, copies; no token waits for it

    async def admitted(self, authorization: str | None, address: str, roles: frozenset[Role], name: str | None) -> Caller:
        """Who shows this header, where the token is for this.

        Args:
            authorization: The header.
            address: Where the request comes from.
            roles: Those who may.
            name: The campaign that the request is for, if it is for one.

        Raises:
            NoToken: The header shows no valid token.
            TooMany: There are too many requests.
            Forbidden: The token is not for this; the same is said of campaigns that are there and that are not.
        """
        caller = self.nobody if self.tokens is None else await self._caller(self.tokens, authorization)
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
        """Whether this header still shows the same: a stream lives longer than some tokens."""
        return self.tokens is None or await self._caller(self.tokens, authorization) == caller

    async def _caller(self, tokens: Tokens, authorization: str | None) -> Caller | None:
        kind, _, token = (authorization or "").partition(" ")
        shown = token.strip() if kind.lower() == "bearer" else ""
        if not shown:
            return None
        if tokens.is_fresh:  # a thread only where the disk may have to be waited for
            return tokens.caller(shown)
        found: Caller | None = await self.aside(tokens.caller, shown)
        return found

    async def hosted(self, name: str) -> Hosted:
        """The campaign of that name.

        Raises:
            NotFound: There is none.
        """
        if name not in self._hosted:
            if name not in await self.aside(self.places.names):
                raise NotFound("there is no campaign of this name; see GET /api/v1/campaigns")
            # Another request may have been faster meanwhile.
            self._hosted.setdefault(name, Hosted(name, self.places.place_of(name)))
        return self._hosted[name]

    async def names(self, caller: Caller) -> list[str]:
        """The campaigns that a caller may see."""
        found = await self.aside(self.places.names)
        return [name for name in found if caller.campaign in (None, name)]

    async def aside(self, work: Any, *arguments: Any) -> Any:
        """What may wait for a disk, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._helpers, work, *arguments)

    async def slowly(self, work: Any, *arguments: Any) -> Any:
        """What may take minutes, in one of two threads."""
        return await asyncio.get_running_loop().run_in_executor(self._makers, work, *arguments)

    def without_places(self, message: str, name: str) -> str:
        """A message for clients, who need not know where the campaigns are kept."""
        if name in self._hosted:
            message = message.replace(self._hosted[name].shown_place, f"campaign {name}")
        return message.replace(self.places.shown, "the service's database")

    def open_now(self) -> list[Hosted]:
        """Those that were asked for since the start."""
        return list(self._hosted.values())

    def close(self) -> None:
        for one in self._hosted.values():
            one.close()
        self._helpers.shutdown()
        self._makers.shutdown(cancel_futures=True)
