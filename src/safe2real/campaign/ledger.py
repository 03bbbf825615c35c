"""The safety ledger: from the events alone, was every policy allowed when it was handed out?

Nothing that the record says about itself is believed. For each deployment the model is rebuilt from the episodes counted
before it, the uncertainty Delta is computed again, the recorded policies are evaluated on that model, and the lower bound
on V_c follows from these numbers. A record can be checked on another machine, where the planner may break a tie
differently, and by a later release, whose bounds may be tighter: the policies need not be the ones that would be proposed
here and now, they need to be certified. A bound is wrong if it misses its threshold, or if it claims more than is provable;
that it could have claimed more is a difference, and is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from safe2real.campaign.checker import Checker, Discrepancy
from safe2real.campaign.events import BEFORE_THE_FIRST, Event
from safe2real.campaign.journal.base import Disturbed
from safe2real.campaign.record import Record
from safe2real.campaign.replay import Replay
from safe2real.campaign.signing import KEY_FILE, signatures_checked
from safe2real.campaign.snapshot import says_otherwise
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.exploration.learner import Learner
from safe2real.model.constraint_text import count
from safe2real.standing import Doubt, Standing, standing_of

_UNCHECKED = f"; the record is signed, and its signatures were NOT checked: {KEY_FILE} names no file of keys here"
_FALSE_SNAPSHOT = (
    "the snapshot of the record up to this event says something else than the events do, and whoever opens the campaign "
    "may begin with it: delete it (the table safe2real_snapshot)"
)
_READS = 2  # of a file that others begin to write to meanwhile, before the last


@dataclass(frozen=True, slots=True)
class Differences:
    """Deployments that would be another today, and claim no more than is provable: older revisions, other machines."""

    deployments: int
    largest: float  # of any bound or Delta


@dataclass(frozen=True, slots=True)
class Ledger:
    """The result of a check of the whole record."""

    events: int
    deployments: int
    episodes: int  # told or imported
    samples: int
    identical: int  # deployments whose proposal was reproduced bit for bit on this machine
    smallest_margin: float  # over all deployments, lower bound minus threshold as computed here; inf without any
    doubts: tuple[Doubt, ...]  # empty when certified: constants without a guarantee, data that refute an assumption
    head: str  # digest of the last event: note it elsewhere, and give it to a later check
    problems: tuple[Discrepancy, ...]
    differences: Differences  # no problems: what was claimed could be claimed today, and more
    version: str | None  # the release that the campaign was created with; None in records of the first, which did not say
    signatures_checked: bool | None = None  # None where the record has none and nobody expects any

    @property
    def standing(self) -> Standing:
        """What the deployments are worth, as far as the record shows: nothing is shown by one that does not check."""
        found = standing_of(self.doubts)
        return Standing.INCOMPLETE if self.problems and found is Standing.CERTIFIED else found

    @property
    def certified(self) -> bool:
        """Whether its standing is a guarantee."""
        return self.standing.is_guarantee

    @property
    def holds(self) -> bool:
        """Whether every event is as it was written and every deployment's certificate holds."""
        return not self.problems

    def describe(self) -> str:
        """What was checked and what was found, in one sentence."""
        if not self.holds:
            first = self.problems[0]
            return f"NOT VERIFIED: {len(self.problems)} problems; the first is in event {first.sequence}: {first.what}"
        reasons = "; ".join(map(str, self.doubts))
        label = "certified:" if self.certified else f"{self.standing.upper()}, not a guarantee ({reasons}):"
        found = self.differences
        others = (
            f"; the bounds of {found.deployments} deployments would be other ones today, by up to {found.largest:.3g}, and "
            "claim no more than is provable"
        )
        return (
            f"{label} {count(self.deployments, 'deployment')} and {count(self.episodes, 'episode')} "
            f"({count(self.samples, 'sample')}) check; "
            f"the smallest margin by which a bound keeps its constraint is {max(0.0, self.smallest_margin):.6g}"
            f"{others if found.deployments else ''}{_UNCHECKED if self.signatures_checked is False else ''}"
        )


def verify_record(record: Record, head: str | None, progress: Callable[[int, int], None] | None) -> Ledger:
    """See `Campaign.verify`."""
    for _ in range(_READS):
        with suppress(Disturbed):
            return _verified(record, head, progress)
    return _verified(record, head, progress)


def _verified(record: Record, head: str | None, progress: Callable[[int, int], None] | None) -> Ledger:
    problems: list[Discrepancy] = []
    keys, found = record.journal.keys, _snapshot(record)

    def report(event: Event, what: str) -> None:
        problems.append(Discrepancy(event.sequence, event.deployment, what))

    def compare(event: Event, replay: Replay) -> None:
        """A snapshot is held against what the events alone lead to, never the other way round."""
        if found is None or (event.sequence, event.digest) != found[:2]:
            return
        if says_otherwise(found[2], found[:2], replay, record.problem_digest, record.own_keys):
            report(event, _FALSE_SNAPSHOT)

    with record.journal.reading(as_it_is=True) as transaction:  # what was seen before is compared by `head`
        end = transaction.last()  # first of all: every event up to it is to be accounted for
        events = transaction.events(until=end[0])
        if keys is not None:
            events = signatures_checked(events, transaction.signatures(), keys, report)
        learner, of_all = record.fresh_learner(), None if progress is None else lambda done: progress(done, end[0])
        ledger = check_record(
            record.name,
            learner,
            record.problem_digest,
            events,
            transaction.blob,
            head=head,
            end=end,
            progress=of_all,
            after=compare,
        )
        problems += [Discrepancy(0, None, f"the database is damaged: {what}") for what in transaction.damage()]
        checked = True if keys is not None else False if transaction.is_signed() else None
    return replace(ledger, problems=(*ledger.problems, *problems), signatures_checked=checked)


def _snapshot(record: Record) -> tuple[int, str, bytes] | None:
    """The one that a process would begin with; none where it cannot be read, for then it cannot be begun with."""
    with suppress(StorageFailure), record.journal.reading(as_it_is=True) as transaction:
        return transaction.snapshot()
    return None


def check_record(
    name: str,
    learner: Learner,
    problem_digest: str,
    events: Iterable[Event],
    policy_content: Callable[[str], bytes | None],
    *,
    head: str | None = None,
    end: tuple[int, str] | None = None,
    progress: Callable[[int], None] | None = None,
    after: Callable[[Event, Replay], None] | None = None,
) -> Ledger:
    """Check every event of a record; `learner` has counted nothing, `policy_content` looks a policy up by its digest.

    `end` is the (sequence, digest) with which the record ends, as it was read first: all events up to it must be there.
    `after` is called with every event that was taken in, and with the state that all up to it lead to.
    """
    checker = Checker(name, learner, problem_digest, policy_content)
    head_seen = head is None
    previous = BEFORE_THE_FIRST
    for event in events:
        if event.sequence != checker.events + 1:
            checker.report(event, f"events {checker.events + 1} to {event.sequence - 1} are missing")
        checker.events = event.sequence
        if event.digest != event.digest_after(previous):
            checker.report(event, "the event, or the one before it, was changed after it was recorded")
        previous = event.digest
        head_seen = head_seen or event.digest == head
        try:
            checker.check(event)
        except InvalidInput as error:
            checker.report(event, str(error))
        if after is not None:
            after(event, checker.replay)
        if progress is not None and event.sequence % 100 == 0:
            progress(event.sequence)
    replay, last = checker.replay, checker.events
    of_all: list[tuple[int, str]] = []
    if not head_seen:
        of_all.append((last, f"the event with digest {head} is no longer in the record"))
    if end is not None and (last, previous) != end:
        of_all.append((last, f"the record ends with event {end[0]}, and it could be read up to event {last} only"))
    if replay.unfinished:
        of_all.append((checker.log_begun, "the record ends within an imported log; its last part is missing"))
    if last == 0:
        of_all.append((0, "the record is empty; its first event is missing"))
    return Ledger(
        events=last,
        deployments=replay.deployments,
        episodes=replay.told + replay.imported,
        samples=replay.samples,
        identical=checker.identical,
        smallest_margin=checker.smallest_margin,
        doubts=replay.learner.doubts(),
        head=previous,
        problems=(*checker.problems, *(Discrepancy(sequence, None, what) for sequence, what in of_all)),
        differences=Differences(checker.different, checker.largest_difference),
        version=checker.version,
    )
