"""The contract of journals: durability and atomicity of a campaign's record.

Subclass it in a test file, and say how a journal at an empty place is made and how another object on the same place is:

    class TestMyJournal(JournalContract):
        def make(self): return MyJournal(fresh_place())
        def reopen(self, journal): return MyJournal(journal.where)

A process cannot pull its own plug. The contract counts calls of os.fsync and os.fdatasync instead: a transaction that ends
without one would not survive a loss of power. Where a database or a server syncs, override `syncs` and read its settings.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from safe2real.campaign import Campaign
from safe2real.campaign.events import BEFORE_THE_FIRST, Draft, Event
from safe2real.campaign.journal import FORMAT, Header, Journal
from safe2real.campaign.signing import Signature
from safe2real.errors import Conflict, Safe2RealError, StorageFailure
from safe2real.testing.systems import random_case, refused, run_rounds

HEADER = Header("0123abcd", '{"any": "text, \\u00e9 or \'é\'"}', FORMAT)
MANY = 300  # events, each in a transaction of its own: one lost in a hundred shows
LONG = 20_000  # events, in transactions that double
SYNCED = 50  # transactions, each of which has to be synced
TEXTS = ("", "a", "two\nlines", "quotes \"'", "é ☃ \U0001f600", "null", " spaces ", "\\n", "0")


class JournalContract:
    """Test methods for pytest, or for `check()`; every one of them works on a new journal."""

    kills = 10

    def make(self) -> Journal:
        """Return an empty journal at a new place.

        Returns:
            A journal; each call makes another place.
        """
        raise NotImplementedError

    def reopen(self, journal: Journal) -> Journal:
        """Open the same place again, as another process would.

        Args:
            journal: one that `make` returned.

        Returns:
            Another object on the same place.
        """
        raise NotImplementedError

    def syncs(self, journal: Journal, write: Callable[[], None]) -> int:
        """Count how often `write()`, a transaction, waits until its data are on the disk.

        Args:
            journal: where `write` writes to.
            write: writes one transaction.

        Returns:
            The calls of `os.fsync` and `os.fdatasync`. Override it for a journal that syncs by other means (a database, a
            server, O_DSYNC): call `write()`, and return 1 only where the settings that are in force there say so.
        """
        del journal
        with ExitStack() as patches:
            calls = [
                patches.enter_context(patch.object(os, name, wraps=getattr(os, name)))
                for name in ("fsync", "fdatasync")
                if hasattr(os, name)
            ]
            write()
        return sum(call.call_count for call in calls)

    def check(self) -> None:
        """Run all tests in turn; the AssertionError names the first that fails, and why."""
        for name in sorted(dir(self)):
            if name.startswith("test_"):
                try:
                    getattr(self, name)()
                except (AssertionError, Safe2RealError) as error:
                    raise AssertionError(f"{name}: {error}") from error

    def test_a_header_comes_back_as_it_was_put(self) -> None:
        journal = self.make()
        with journal.created(HEADER):
            pass
        _expect("the header", journal.header(), HEADER)
        _expect("the header of another object", self.reopen(journal).header(), HEADER)
        with refused(Conflict, "a second campaign in the same place"), self.reopen(journal).created(HEADER):
            pass

    def test_events_come_back_in_order_as_they_were_put(self) -> None:
        journal = self._begun()
        drafts = [Draft(f"note {index}", text, index or None) for index, text in enumerate(TEXTS)]
        drafts += [Draft("note", None, None, text) for text in TEXTS]
        with journal.writing() as transaction:
            put = transaction.append(drafts)
            _expect("a transaction's own events", list(transaction.events()), put)
        for index in range(MANY):
            with journal.writing() as transaction:
                put += transaction.append([Draft("note", {"number": index})])
        for one in (journal, self.reopen(journal)):
            with one.reading() as transaction:
                _expect("the events", list(transaction.events()), put)
                _expect("the end", transaction.last(), (len(put), put[-1].digest))
                for after, until in ((0, 1), (0, 0), (7, None), (7, 7), (7, 12), (len(put), None), (len(put) - 1, 10**9)):
                    found = list(transaction.events(after, until))
                    _expect(f"events after {after} until {until}", found, put[after:until])
                _expect("the digest of one event", transaction.digest_at(9), put[8].digest)
                _expect("the digest of an event that is not there", transaction.digest_at(len(put) + 1), None)
                _expect("the events of one deployment", transaction.events_of(3), {"note 3": put[3]})
                _expect("the events of a kind", list(transaction.events_of_kind("note")), put[len(TEXTS) :])
        _check_chain(put)

    def test_no_event_of_a_long_record_is_lost(self) -> None:
        journal, length = self._begun(), 0
        while length < LONG:
            with journal.writing() as transaction:
                put = transaction.append([Draft("note", number) for number in range(length + 1)])
            length = put[-1].sequence
        for one in (journal, self.reopen(journal)):
            with one.reading() as transaction:
                _expect("the events of a long record", _check_chain(list(transaction.events())), length)
                _expect("the end of a long record", transaction.last(), (length, put[-1].digest))

    def test_every_transaction_is_synced(self) -> None:
        """A transaction's writes must be on the disk when it ends, not in the memory of the operating system."""
        journal = self._begun()
        if not journal.durable:
            return

        def write() -> None:
            with journal.writing() as transaction:
                transaction.append([Draft("note", "synced")])

        for number in range(1, SYNCED + 1):
            if not self.syncs(journal, write):
                raise AssertionError(
                    f"transaction {number} ended without os.fsync or os.fdatasync: a loss of power would lose what was "
                    "acknowledged. Sync before the transaction ends; override `syncs` if the journal syncs by other means, "
                    "or set `durable = False` in a journal that keeps nothing on a disk"
                )

    def test_an_exception_leaves_nothing(self) -> None:
        journal = self._begun()
        with journal.writing() as transaction:
            put = transaction.append([Draft("note", "kept")])
        for _ in range(2):
            with refused(_Interrupted, "an exception, which has to come out as it is"), journal.writing() as transaction:
                (digest,) = transaction.add_policies([b"lost"])
                transaction.append([Draft("note", "lost"), Draft("note", "too")])
                raise _Interrupted
        for one in (journal, self.reopen(journal)):
            with one.reading() as transaction:
                _expect("the events after an exception", list(transaction.events()), put)
                _expect("a blob after an exception", transaction.blob(digest), None)
        with journal.writing() as transaction:
            put += transaction.append([Draft("note", "after")])
        with self.reopen(journal).reading() as transaction:
            _expect("the events of the next transaction", list(transaction.events()), put)

    def test_an_exception_while_it_is_created_leaves_no_campaign(self) -> None:
        journal = self.make()
        with refused(_Interrupted, "an exception, which has to come out as it is"), journal.created(HEADER):
            raise _Interrupted
        with refused(StorageFailure, "a place without a campaign"):
            self.reopen(journal).header()
        with journal.created(HEADER):
            pass
        _expect("the header", journal.header(), HEADER)

    def test_blobs_come_back_by_their_digests(self) -> None:
        journal = self._begun()
        contents = [
            bytes(range(256)) * 50,
            random.Random(3).randbytes(2**21),
            b"\n",
            b'{"kind":"deterministic"}',
            "é".encode(),
        ]
        with journal.writing() as transaction:
            digests = transaction.add_policies(contents)
        with journal.writing() as transaction:
            _expect("the digests of stored policies", transaction.add_policies(contents[:2]), digests[:2])
        with self.reopen(journal).reading() as transaction:
            for digest, content in zip(digests, contents, strict=True):
                _expect("a blob", transaction.blob(digest), content)
            _expect("a blob that is not there", transaction.blob("0" * 64), None)

    def test_a_long_event_comes_back(self) -> None:
        journal = self._begun()
        with journal.writing() as transaction:
            put = transaction.append([Draft("note", "é long " * 200_000)])
        with self.reopen(journal).reading() as transaction:
            _expect("whether a long event is as it was put", list(transaction.events()) == put, True)

    def test_signatures_and_snapshots_come_back(self) -> None:
        journal = self._begun()
        with journal.writing() as transaction:
            first, second = transaction.append([Draft("note", 1), Draft("note", 2)])
            _expect("whether a record without signatures is signed", transaction.is_signed(), False)
            signatures = [Signature(event.sequence, "cell 3 é", "f" * 64) for event in (first, second)]
            transaction.put_signatures(signatures)
            transaction.keep_snapshot(1, first.digest, b"old\n")
        with journal.writing() as transaction:
            transaction.keep_snapshot(2, second.digest, b"new\n\0")
        with self.reopen(journal).reading() as transaction:
            _expect("the signatures", list(transaction.signatures()), signatures)
            _expect("whether a record with signatures is signed", transaction.is_signed(), True)
            _expect("the newest snapshot", transaction.snapshot(), (2, second.digest, b"new\n\0"))

    def test_two_objects_on_one_place_see_each_other(self) -> None:
        journal = self._begun()
        objects = [journal, self.reopen(journal), self.reopen(journal)]
        for index in range(9):
            with objects[index % 3].writing() as transaction:
                transaction.append([Draft("note", index)])
            with objects[(index + 1) % 3].reading() as transaction:
                _expect("the event of another object", transaction.last()[0], index + 1)

    def test_one_writer_at_a_time(self) -> None:
        journal, failures = self._begun(), []

        def write() -> None:
            own = self.reopen(journal)
            try:
                for index in range(20):
                    with own.writing() as transaction:
                        transaction.append([Draft("note", index), Draft("note", index)])
            except (StorageFailure, Conflict) as error:
                failures.append(error)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _expect("the errors of concurrent writers", failures, [])
        with journal.reading() as transaction:
            _expect("the events of four writers", _check_chain(list(transaction.events())), 4 * 20 * 2)

    def test_a_campaign_runs_on_it_and_verifies(self) -> None:
        journal = self.make()
        case = random_case(0)  # certified, and far from its stop
        campaign = Campaign.create(journal, case.problem, trust_margin=True)
        run_rounds(campaign, case, 30)
        ledger = campaign.verify()
        _expect("the findings of verify", ledger.problems, ())
        _expect("the deployments that were reproduced", (ledger.events, ledger.identical), (61, 30))
        again = Campaign.open(self.reopen(journal))
        _expect("the record after it was opened again", again.events(), campaign.events())
        _expect("the end of the record", again.verify(head=ledger.head).holds, True)

    def test_a_killed_process_takes_nothing_with_it(self) -> None:
        """After a kill at any moment, acknowledged transactions are there, and each transaction is whole or absent."""
        journal, chance = self._begun(), random.Random(1)
        if not journal.durable or not hasattr(os, "fork"):
            return
        for _ in range(self.kills):
            acknowledged = _kill_a_writer(lambda: self.reopen(journal), chance.uniform(0.0, 0.05))
            with self.reopen(journal).reading() as transaction:
                found = list(transaction.events())
            length = _check_chain(found)
            _expect("whether acknowledged events are there", length >= acknowledged, True)
            _expect("events of a transaction of three that are there without the others", length % 3, 0)

    def _begun(self) -> Journal:
        journal = self.make()
        with journal.created(HEADER):
            pass
        journal.header()
        return journal


class _Interrupted(Exception):
    """An error in the middle of a transaction."""


def _expect(what: str, found: Any, wanted: Any) -> None:
    if found != wanted or type(found) is not type(wanted):
        raise AssertionError(f"{what}: {_brief(found)} instead of {_brief(wanted)}")


def _brief(value: Any) -> str:
    text = f"{len(value)} of them, {value!r}" if isinstance(value, list) else repr(value)
    return text if len(text) < 300 else f"{text[:300]}..."


def _check_chain(events: Sequence[Event]) -> int:
    previous = BEFORE_THE_FIRST
    for index, event in enumerate(events):
        _expect("the place of an event", event.sequence, index + 1)
        _expect("the digest of an event", event.digest, event.digest_after(previous))
        previous = event.digest
    return len(events)


def _kill_a_writer(open_journal: Callable[[], Journal], delay: float) -> int:
    """The number of the last event that a process acknowledged before it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # a process of its own: it leaves by no other way than being killed
        try:
            journal = open_journal()
            while True:
                with journal.writing() as transaction:
                    events = transaction.append([Draft("note", index) for index in range(3)])
                os.write(writing, f"{events[-1].sequence}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        first = said.readline()  # else most would be killed before they had begun
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        rest = said.read().splitlines()
    if not os.WIFSIGNALED(status):
        raise AssertionError("a process that was to write until it is killed ended by itself; run it alone to see why")
    return int(rest[-1] if rest else first)
