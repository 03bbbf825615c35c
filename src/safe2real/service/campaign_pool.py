"""A campaign in a running server: replayed objects that stay in memory, each used by one thread of its own.

`Campaign` is not for several threads, so each object has one, which does what it is given in order. A campaign has three:
the field's, which asks and tells; the desk's, which says where it stands; and the study's, opened when it is first needed,
for what may take minutes (plans, forecasts). No machine and no page waits in line behind a plan. The journal decides what
is true, for these three as for other servers on the same database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.events import BEFORE_THE_FIRST
from safe2real.campaign.journal.url import shown_place
from safe2real.errors import Safe2RealError
from safe2real.service.history import History
from safe2real.service.jobs import Verification
from safe2real.service.problems import Busy
from safe2real.service.streaming import Watch

_Answer = TypeVar("_Answer")
QUEUE = 256  # calls that may wait for one object


class Actor:
    """One `Campaign` object and the thread that uses it."""

    def __init__(self, place: str) -> None:
        self._place, self._waiting = place, 0
        self._campaign: Campaign | None = None
        self._known: tuple[int, str] = (0, BEFORE_THE_FIRST)  # by an object that is gone
        self._thread = ThreadPoolExecutor(1, "campaign")

    async def do(self, work: Callable[[Campaign], _Answer], *, patience: float, by: str | None = None) -> _Answer:
        """What `work` answers; what it records names `by`.

        Raises:
            Busy: Too many wait, or it was not done within `patience` seconds. What had begun goes on to its end.
        """
        return await self._waited_for(self._do, work, by, patience)

    async def do_anew(self, work: Callable[[Campaign], _Answer], *, patience: float, by: str) -> _Answer:
        """The same on the record as it is now, whatever was read of it before; that is forgotten when `work` is done.

        It is one task of the thread: nothing is handed out between the opening and what `work` records, and where `work`
        fails, the object that knows more than the record goes on to refuse it.
        """
        return await self._waited_for(self._do_anew, work, by, patience)

    async def _waited_for(
        self,
        doing: Callable[[Callable[[Campaign], _Answer], Any], _Answer],
        work: Callable[[Campaign], _Answer],
        by: str | None,
        patience: float,
    ) -> _Answer:
        if self._waiting >= QUEUE:
            raise Busy(f"{self._waiting} calls wait for this campaign already; try again in a moment")
        self._waiting += 1
        future = self._thread.submit(doing, work, by)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), patience)
        except TimeoutError:
            raise Busy(
                f"no answer within {patience:g} s; what had begun goes on. Asks and tells may be sent again"
            ) from None
        finally:
            self._waiting -= 1

    def _do(self, work: Callable[[Campaign], _Answer], by: str | None) -> _Answer:
        if self._campaign is None:
            self._campaign = Campaign.open(self._place)
            self._campaign.journal.remember(*self._known)
        try:
            with nullcontext() if by is None else self._campaign.acting_as(by):
                return work(self._campaign)
        except Safe2RealError:
            raise
        except BaseException:  # no refusal but a mistake, or too little memory: what it was about may be done by half
            self._known = self._campaign.journal.known  # a record that went back is still noticed
            self._close()
            raise

    def _do_anew(self, work: Callable[[Campaign], _Answer], by: str) -> _Answer:
        anew = Campaign.open(self._place)
        try:
            with anew.acting_as(by):
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


class Hosted:
    """One campaign of the service."""

    def __init__(self, name: str, place: str) -> None:
        self.name, self.place, self.shown_place = name, place, shown_place(place)
        self.field, self.desk, self.study = Actor(place), Actor(place), Actor(place)
        self.changed = asyncio.Event()  # replaced after each change that this server knows of
        self.watch, self.history = Watch(), History()  # the desk's
        self.verification: Verification | None = None  # the last one

    def has_changed(self) -> None:
        """Wake those who watch."""
        self.watch.stale()
        self.changed.set()
        self.changed = asyncio.Event()

    def renew_readers(self) -> None:
        """The record was restored from a copy, and the field has said so: read it as it is now."""
        self.desk.renew(self.history.forget)
        self.study.renew()

    def close(self) -> None:
        self.field.close()
        self.desk.close()
        self.study.close()
