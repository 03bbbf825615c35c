"""A record: how it begins, and what one process knows of it.

That is the journal, and the state that its events lead to, kept up with what others write.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from safe2real.campaign.events import CREATE, AskBody, Draft, Event, bounds_of
from safe2real.campaign.journal import FORMAT, Header, Journal, Transaction
from safe2real.campaign.leases import Lease, lease_in
from safe2real.campaign.replay import Replay
from safe2real.campaign.signing import current_principal
from safe2real.campaign.snapshot import is_sealed, replay_from, snapshot_of
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.methods.document import document_of, extensions_of, problem_and_method
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import Extensions, digest_of, from_text, policy_from_bytes, policy_to_bytes, to_text
from safe2real.model.validation import shown
from safe2real.problem.document import without_words
from safe2real.problem.problem import Problem
from safe2real.version import __version__

_A_MOMENT = 1.0  # seconds
LEAST_STEP = 5_000  # events and imported episodes between two snapshots
_SHARE = 50  # or the record's work / _SHARE, when that is more
_REMEMBERED = 1000  # policies kept decoded: enough for a fleet; they can be read again
_NAMED = 3  # differences, before the rest is counted


class Record:
    """A journal with a replay of its events."""

    def __init__(self, journal: Journal, extensions: Extensions = ()) -> None:
        self.journal = journal
        self.own_keys = journal.keys  # seal snapshots; keys of those who are acted for are for their own events
        self.by = current_principal(journal.keys)  # named in everything that this object records
        header = journal.header()
        self.name, self.format = header.name, header.format
        self.problem_digest = digest_of(header.specification.encode())
        try:
            self.problem, self.method = problem_and_method(header.specification, extensions)
        except InvalidInput as error:
            with journal.reading() as transaction:
                first = next(transaction.events(until=1), None)
            if first is not None and self._names_this_campaign(
                first
            ):  # it is as it was recorded: what differs is this process
                raise
            raise StorageFailure(
                f"{journal.place}: the stored specification was changed after it was recorded ({error}); restore a copy"
            ) from error
        self.replay = Replay(self.fresh_learner())
        self.covered = 0  # by the newest snapshot that is known
        self._worked = 0  # `_work_in` the record when that snapshot was made
        self._replaceable: int | None = None  # the event that a snapshot covers which no other process uses
        self._alone_at = float("-inf")  # when the record was read and held nothing new
        self._policies: dict[str, MarkovPolicy] = {}
        self._baseline_content: bytes | None = None

    def fresh_learner(self) -> Learner:
        """Return a learner without counts."""
        return Learner(self.problem, self.method, warm_start=False, trust_margin=True)  # `create` asked

    @contextmanager
    def acting_as(self, principal: str) -> Iterator[None]:
        """Record events in this block as `principal`, signed with its key if the record is signed."""
        by, keys = self.by, self.journal.keys
        own = None if keys is None else keys.first(principal)
        self.by, self.journal.keys = principal, own
        try:
            yield
        finally:
            self.by, self.journal.keys = by, keys

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The only writer, with all taken in that others have recorded."""
        self.catch_up_unlocked()
        with self.journal.writing() as transaction:
            self.catch_up(transaction)
            yield transaction

    def catch_up_unlocked(self) -> Replay:
        """Catch up before the lock is taken, so that other writers wait less; `writing` catches up again under it.

        Skips the look if no other process had written anything when this object looked a moment ago.
        """
        return self.replay if time.monotonic() - self._alone_at < _A_MOMENT else self.catch_up()

    def take(self, events: Sequence[Event], asked: Sequence[AskBody] = ()) -> None:
        """Take in what this object has just recorded, so that it need not be read again.

        Args:
            events: what was appended.
            asked: their bodies, where they are deployments.
        """
        for event, body in zip_longest(events, asked):
            self.replay.apply(event, body)

    def catch_up(self, transaction: Transaction | None = None) -> Replay:
        """Take in what others have recorded."""
        if transaction is None:
            with self.journal.reading() as own:
                return self.catch_up(own)
        if self.replay.sequence == 0:
            self._resume(transaction)
        before = self.replay.sequence
        for event in transaction.events(before):
            if event.kind == CREATE and not self._names_this_campaign(event):
                raise StorageFailure(
                    "the campaign's name or its specification was changed after it was created, so nothing is handed out; "
                    "run verify, or restore a copy"
                )
            self.replay.apply(event)
        if self.replay.sequence == 0:
            raise StorageFailure(
                f"{self.journal.place}: the campaign's events are gone, even the first; nothing is handed out, for numbers "
                "would be given twice: restore a copy"
            )
        self.journal.remember(self.replay.sequence, self.replay.digest)
        self._alone_at = time.monotonic() if self.replay.sequence == before else float("-inf")
        return self.replay

    def _resume(self, transaction: Transaction) -> None:
        """Begin from a snapshot, where there is one that can be used."""
        found, first = transaction.snapshot(), next(transaction.events(until=1), None)
        if found is None or first is None or not self._names_this_campaign(first):
            return
        sequence, digest, content = found
        # The learner that is there has counted nothing; for a large system another one takes seconds.
        replay = replay_from(content, (sequence, digest), self.replay.learner, self.problem_digest, self.own_keys)
        if replay is None:  # the learner may have been filled by half
            self.replay = Replay(self.fresh_learner())
            # Damaged, or of another release; unless it is of another key, whose processes begin with it.
            self._replaceable = sequence if self.own_keys is None or is_sealed(content, self.own_keys) else None
            return
        replay.lease = lease_in(from_text(first.body, "the first event"))
        self.replay, self.covered, self._worked, self._replaceable = replay, sequence, _work_in(replay), sequence

    def keep_snapshot(self) -> None:
        """Best-effort cache: speeds up the next open; skipped if the record is read-only."""
        replay, work = self.replay, _work_in(self.replay)
        if not _is_due(work, self._worked):
            return
        self.covered, self._worked = replay.sequence, work  # also when it fails: the next is as far away
        with suppress(StorageFailure):  # of what is counted here first, too: the next call says so
            content = snapshot_of(replay, self.problem_digest, self.own_keys)
            if content is None:
                return
            with self.journal.writing() as transaction:
                there = transaction.snapshot()
                if there is None or there[0] == self._replaceable or _is_due(replay.sequence, there[0]):
                    transaction.keep_snapshot(replay.sequence, replay.digest, content)
                    self._replaceable = replay.sequence

    def _names_this_campaign(self, event: Event) -> bool:
        """Whether the first event names this campaign and its specification."""
        body = from_text(event.body, "the first event")
        spoken = (body.get("campaign"), body.get("specification")) if isinstance(body, dict) else None
        return spoken == (self.name, self.problem_digest)

    def encoded(self, policy: MarkovPolicy) -> bytes:
        """Return the stored bytes of a policy."""
        baseline = self.replay.learner.baseline
        if self._baseline_content is None:  # in every mixture, and often the largest of its policies
            self._baseline_content = policy_to_bytes(baseline)
        return self._baseline_content if policy is baseline else policy_to_bytes(policy)

    def policy(self, transaction: Transaction, digest: str) -> MarkovPolicy:
        """A stored policy, checked against its digest."""
        if digest in self._policies:
            return self._policies[digest]
        content = transaction.blob(digest)
        if content is None or digest_of(content) != digest:
            raise StorageFailure(
                f"policy {digest[:12]} is missing or was changed after it was recorded, so it is not handed out; run verify"
            )
        policy = policy_from_bytes(content)
        if len(self._policies) > _REMEMBERED:
            self._policies.clear()
        self._policies[digest] = policy
        return policy


def _work_in(replay: Replay) -> int:
    """Return the amount of work of a replay: events plus imported episodes, since one event can hold many of them."""
    return replay.sequence + replay.imported


def _is_due(work: int, covered: int) -> bool:
    """Return whether to write a snapshot when the last one covers `covered` of the `work`."""
    return work - covered >= max(LEAST_STEP, work // _SHARE)


# Beginning a record: what its first event says, written once


def first_event_of(
    problem: Problem, method: Method, *, trust_margin: bool, lease: float | None, withdraw_overdue: bool
) -> tuple[str, dict[str, Any]]:
    """A problem, as text, and the body of the first event; refuses what no campaign can be about."""
    if withdraw_overdue and lease is None:
        raise InvalidInput("withdraw_overdue is set without a lease; give the seconds that a deployment may be out")
    leased = {} if lease is None else {"lease": asdict(Lease.of(lease, withdraw_overdue))}
    if not isinstance(problem, Problem):
        raise InvalidInput(f"specification is a {type(problem).__name__}; give a Problem")
    Learner(problem, method, trust_margin=trust_margin)
    if not method.can_be_rechecked or not method.keeps_safe:
        raise InvalidInput(
            f"the method {method.name!r} does not keep to the constraints, or brings nothing by which its record could be "
            "checked again; a campaign hands out no policy without a certificate: use methods.SimToReal(), or `simulate` to "
            "study it"
        )
    text = to_text(document_of(problem, method))
    read, again = problem_and_method(text, extensions_of(problem, method))
    for here, there in ((problem.settings.radius, read.settings.radius), (method, again)):
        if type(here) is not type(there):
            raise InvalidInput(
                f"{type(here).__name__} is called {here.name!r}, which is the name of {type(there).__name__}; records could "
                "not tell them apart: give it a name of its own"
            )
    body = {
        "campaign": secrets.token_hex(4),
        "specification": digest_of(text.encode()),
        "version": __version__,
        "method": f"{method.name}/{method.revision}" if method.revision > 1 else method.name,
        "bounds": bounds_of(problem.settings),
    }
    return text, body | ({"trust_margin": True} if trust_margin else {}) | leased


def create_record(journal: Journal, text: str, body: dict[str, Any], *, exist_ok: bool) -> None:
    """Make the record, all or nothing; with `exist_ok` one that is there already has to be about the same."""
    try:
        with journal.created(Header(body["campaign"], text, FORMAT)) as transaction:
            transaction.append([Draft(CREATE, body)])
    except Conflict:
        if not exist_ok:
            raise
        with journal.reading() as transaction:
            header, first = transaction.header(), next(transaction.events(until=1), None)
        if header is None or first is None:
            raise
        there = _with_lease(header.specification, from_text(first.body, "the first event"))
        found = list(_differences(there, _with_lease(text, body)))
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            raise Conflict(
                f"{journal.place} holds a campaign about another problem: {', '.join(found[:_NAMED])}{more}; choose "
                "another place"
            ) from None


def _with_lease(text: str, first: Mapping[str, Any]) -> dict[str, Any]:
    return {**without_words(from_text(text, "the specification")), "lease": first.get("lease")}


def _differences(there: Any, here: Any, place: str = "") -> Iterator[str]:
    """Return the differences of two documents in words."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in sorted({*there, *here}):
            yield from _differences(there.get(key), here.get(key), f"{place}.{key}" if place else key)
    elif there != here:
        yield f"{place} is {shown(there)} there and {shown(here)} here"
