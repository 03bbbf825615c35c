"""The safety ledger: from the events alone, was every policy allowed when it was handed out?

Nothing that the record says about itself is believed. For each deployment the model is rebuilt from the episodes counted
before it, the uncertainty Delta is computed again, the recorded policies are evaluated on that model, and the lower bound
on V_c follows from these numbers. A record can be checked on another machine, where the planner may break a tie
differently, and by a later release, whose bounds may be tighter: the policies need not be the ones that would be proposed
here and now, they need to be certified. A bound is wrong if it misses its threshold, or if it claims more than is provable;
that it could have claimed more is a difference, and is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from safe2real.campaign import events as kinds
from safe2real.campaign.events import BEFORE_THE_FIRST, AskBody, Event, ImportBody, check_bounds
from safe2real.campaign.import_log import key_of
from safe2real.campaign.journal.base import Disturbed
from safe2real.campaign.leases import EXPIRED
from safe2real.campaign.record import Record
from safe2real.campaign.replay import Replay, declared_in
from safe2real.campaign.signing import KEY_FILE, signatures_checked
from safe2real.campaign.snapshot import contradicts
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.exploration.episode_log import seen_from
from safe2real.exploration.learner import Learner
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.methods.base import Reason, Recorded
from safe2real.model.constraint_text import count
from safe2real.model.policy import MarkovPolicy, Mixture, check_policy
from safe2real.model.serialization import check_keys, digest_of, from_text, is_marked, policy_from_bytes
from safe2real.model.trajectory import check_actions
from safe2real.model.validation import ROUNDING, Floats, shown
from safe2real.standing import Doubt, Standing, standing_of

_UNCHECKED = f"; the record is signed, and its signatures were NOT checked: {KEY_FILE} names no file of keys here"
_FALSE_SNAPSHOT = (
    "the snapshot of the record up to this event says something else than the events do, and a campaign that is opened "
    "may begin with it: delete it (the table safe2real_snapshot)"
)
_READS = 2  # of a file that others begin to write to meanwhile, before the last
_REMEMBERED = 256  # policies kept decoded
# The body of a told episode as it is written is its own key.
_AS_WRITTEN = re.compile(r'\{"actions":\[[0-9,]*\],"states":\[[0-9,]*\]\}')
_DRAWN = re.compile(r'"drawn":(0|[1-9][0-9]{0,8}),')  # in a body as it is written; a text inside it has escaped quotes


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A problem that `verify` found in the record."""

    sequence: int  # the event
    deployment: int | None
    what: str


@dataclass(frozen=True, slots=True)
class Differences:
    """Deployments whose recorded bounds differ from today's without claiming too much: older revisions, other machines."""

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
    version: str | None  # the release that the campaign was created with; None where the first event does not say
    signatures_checked: bool | None = None  # None where the record has none and this process no key

    @property
    def standing(self) -> Standing:
        """The standing of all deployments, by the record alone; never certified if the record does not verify."""
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
        """Say what was checked and found.

        Returns:
            One sentence.
        """
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
        if contradicts(found[2], found[:2], replay, record.problem_digest, record.own_keys):
            report(event, _FALSE_SNAPSHOT)

    with record.journal.reading(as_it_is=True) as transaction:  # what was seen before is compared by `head`
        end = transaction.last()  # first of all: every event up to it is to be accounted for
        events = transaction.events(until=end[0])
        if keys is not None:
            events = signatures_checked(events, transaction.signatures(), keys, report)
        count_checked = None if progress is None else lambda done: progress(done, end[0])
        checker = Checker(record.name, record.problem_digest, record.fresh_learner(), transaction.blob)
        ledger = check_record(checker, events, end=end, head=head, progress=count_checked, after=compare)
        problems += [Discrepancy(0, None, f"the database is damaged: {what}") for what in transaction.damage()]
        checked = True if keys is not None else False if transaction.is_signed() else None
    return replace(ledger, problems=(*ledger.problems, *problems), signatures_checked=checked)


def _snapshot(record: Record) -> tuple[int, str, bytes] | None:
    """The one that a process would begin with; none where it cannot be read, for then it cannot be begun with."""
    with suppress(StorageFailure), record.journal.reading(as_it_is=True) as transaction:
        return transaction.snapshot()
    return None


def check_record(
    checker: Checker,
    events: Iterable[Event],
    *,
    end: tuple[int, str] | None = None,
    head: str | None = None,
    progress: Callable[[int], None] | None = None,
    after: Callable[[Event, Replay], None] | None = None,
) -> Ledger:
    """Check every event of a record.

    Args:
        checker: of the record's name, problem and method; it has taken nothing.
        events: all of them, in order.
        end: (sequence, digest) with which the record ends, as read first: all events up to it must be there.
        head: a digest that was noted earlier; the record must still contain it.
        progress: called with the number of events checked, as it goes.
        after: called with every event that was taken in, and with the state that all up to it lead to.

    Returns:
        What was found; nothing is raised over a record that is wrong.
    """
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
    whole: list[tuple[int, str]] = []  # what is wrong with the record, not with one event
    if not head_seen:
        whole.append((last, f"the event with digest {head} is no longer in the record"))
    if end is not None and (last, previous) != end:
        whole.append((last, f"the record ends with event {end[0]}, and it could be read up to event {last} only"))
    if replay.unfinished:
        whole.append((checker.log_begun, "the record ends within an imported log; its last part is missing"))
    if last == 0:
        whole.append((0, "the record is empty; its first event is missing"))
    return Ledger(
        events=last,
        deployments=replay.deployments,
        episodes=replay.told + replay.imported,
        samples=replay.samples,
        identical=checker.identical,
        smallest_margin=checker.smallest_margin,
        doubts=replay.learner.doubts(),
        head=previous,
        problems=(*checker.problems, *(Discrepancy(sequence, None, what) for sequence, what in whole)),
        differences=Differences(checker.different, checker.largest_difference),
        version=checker.version,
    )


class Checker:
    """Takes the events of a record in order: is each as it must be, given all before it? `problems` are what it found."""

    def __init__(
        self, name: str, problem_digest: str, learner: Learner, policy_content: Callable[[str], bytes | None]
    ) -> None:
        """`learner` has counted nothing; `policy_content` returns what the record stores of a policy, by its digest."""
        self.name, self.problem, self.problem_digest = name, learner.problem, problem_digest
        self.replay = Replay(learner)
        self.events, self.identical, self.smallest_margin = 0, 0, float("inf")
        self.different, self.largest_difference = 0, 0.0
        self.version: str | None = None
        self.problems: list[Discrepancy] = []
        self._policy_content = policy_content
        self._policies: dict[str, MarkovPolicy] = {}
        self._logs: dict[str, str | None] = {}  # digest of an imported log -> its source
        # The last deployment that was checked: on what, and what it added to `identical` and `different`.
        self._last: tuple[Any, AskBody, int, int] | None = None
        self._asked: dict[int, str] = {}  # open and given up deployments: digest of the policy that was run
        self._imported: tuple[set[str], set[str]] = (set(), set())  # content of imported episodes without and with an id
        self._told: set[tuple[str, str]] = set()  # (policy, content) of told ones
        self._ids: set[str] = set()
        self._parts: list[tuple[str, dict[str, Any]]] = []  # (policy, episode) of the import that is being read
        self._open_log: tuple[Any, Any, int] = (None, 0, 0)  # which it is, its last part, and that part's event

    def report(self, event: Event, what: str) -> None:
        self.problems.append(Discrepancy(event.sequence, event.deployment, what))

    def check(self, event: Event) -> None:
        """Raises InvalidInput with what is wrong; the event is taken into the model only when an episode can be read."""
        if event.deployment is not None and type(event.deployment) is not int:  # SQLite keeps any type in any column
            raise InvalidInput(f"the deployment is {shown(event.deployment)}, which is not a number")
        if (event.kind == kinds.CREATE) != (event.sequence == 1):
            raise InvalidInput("the campaign's first event is missing, or another one is in its place")
        if event.kind == kinds.CREATE:
            self._check_create(event)
        elif event.kind == kinds.ASK:
            try:
                self._check_ask(event)
            finally:
                self.replay.take_unchecked(event)  # its number is taken, whatever is wrong with it
            return
        elif event.kind == kinds.TELL:
            if event.deployment not in self._asked:
                raise InvalidInput("an episode was told that no deployment asked for, or a second time")
            policy = self._asked[event.deployment]
            episode = from_text(event.body, "the episode")
            self._check_episode(episode, policy, "the episode")
            self._told.add((policy, event.body if _AS_WRITTEN.fullmatch(str(event.body)) else key_of(episode)))
            del self._asked[event.deployment]
        elif event.kind == kinds.ABANDON:
            _body(event, "the abandonment", "reason")
            if event.deployment not in self.replay.held:
                raise InvalidInput("a deployment was abandoned that is not out")
        elif event.kind == kinds.WITHDRAW:
            self._check_withdrawal(event)
        elif event.kind == kinds.IMPORT:
            self._check_import(event)
        elif event.kind == kinds.BRANCH:
            _body(event, "the branch", "reason")
        elif event.kind == kinds.FORCE:
            _body(event, "force", "deployment", "holder", "reason")
        elif event.kind == kinds.DECLARE:
            declared_in(event).check(self.problem)
        self.replay.take_unchecked(event)

    def _check_create(self, event: Event) -> None:
        names = ("campaign", "specification", "version", "method", "bounds")
        body = _body(event, "the first event", *names, optional=("trust_margin", "lease"))
        if (body["campaign"], body["specification"]) != (self.name, self.problem_digest):
            raise InvalidInput("the campaign's name or its specification was changed after it was created")
        method, version = self.replay.learner.method, body["version"]
        known = [method.name, *(f"{method.name}/{revision}" for revision in range(2, method.revision + 1))]
        if body["method"] not in known or not isinstance(version, str) or body.get("trust_margin", True) is not True:
            raise InvalidInput(f"the first event does not say the version and the method {method.name} as it must")
        check_bounds(body["bounds"], self.problem.settings)
        self.version = version

    def _check_episode(self, episode: Any, digest: str, where: str, *, of_log: bool = False) -> None:
        model = self.problem.simulator
        if not of_log and isinstance(episode, dict) and "id" in episode:
            raise InvalidInput("an episode that was told has no id but its deployment's")
        for name in ("states", "actions"):  # records are written with whole numbers: 1.0 would look like another episode
            listed = episode.get(name) if isinstance(episode, dict) else None
            if not isinstance(listed, list) or any(type(entry) is not int for entry in listed):
                raise InvalidInput(f"{where}.{name} is not a list of whole numbers as it is recorded")
        seen = seen_from(model, episode, where, partial=True, of_log=True)
        check_actions(self._policy(digest), seen.path, where)

    def _check_import(self, event: Event) -> None:
        body = ImportBody.read(event)
        if self._logs.setdefault(body.log, event.worker) != event.worker and body.overlap != kinds.COUNTED:
            raise InvalidInput(f"the log of {event.worker!r} was imported before, as {self._logs[body.log]!r}")
        for index, episode in enumerate(body.episodes):
            self._check_episode(episode, body.policy, f"episodes[{index}]", of_log=True)
        if body.after != self.replay.deployments:
            raise InvalidInput(f"the import comes after deployment {self.replay.deployments}, not after {body.after}")
        this = (body.log, event.worker, body.parts, body.overlap, body.alike, body.skipped)
        log, part, sequence = self._open_log
        follows = body.part == part + 1 and log == this and event.sequence == sequence + 1
        if not follows and (body.part != 1 or part):
            raise InvalidInput(f"part {body.part} of {body.parts} of a log does not follow the part before it")
        self._open_log = (None, 0, 0) if body.part == body.parts else (this, body.part, event.sequence)
        self._parts += [(body.policy, episode) for episode in body.episodes]
        if body.part == body.parts:
            episodes, self._parts = self._parts, []
            self._check_overlap(body, episodes)

    @property
    def log_begun(self) -> int:
        """The event of the first part of the log that the record ends within: up to it everything can be kept."""
        _, part, sequence = self._open_log
        return sequence - part + 1 if part else self.events

    def _check_overlap(self, body: ImportBody, episodes: list[tuple[str, dict[str, Any]]]) -> None:
        """No episode that looks like a recorded one was counted unless someone said that it is another."""
        without, named = self._imported
        keys = [(policy, key_of(episode), episode.get("id")) for policy, episode in episodes]
        ids = [id for _, _, id in keys if id is not None]
        twice = len(set(ids)) < len(ids) or not self._ids.isdisjoint(ids)
        alike = [
            key for policy, key, id in keys if key in without or (id is None and key in named) or (policy, key) in self._told
        ]
        for _, key, id in keys:
            (without if id is None else named).add(key)
        self._ids.update(ids)
        if twice:
            raise InvalidInput("an imported episode has the id of an earlier one")
        if alike and body.overlap == kinds.NO_OVERLAP:
            raise InvalidInput(
                f"{len(alike)} imported episodes look like recorded ones, and the import does not say what they are"
            )
        fitted = self.problem.fitted_episodes() if body.overlap == kinds.NO_OVERLAP else frozenset()
        if number := sum(is_marked(fitted, one["states"], one["actions"]) for _, one in episodes if fitted):
            raise InvalidInput(
                f"{number} imported episodes look like ones that the simulator was estimated from, and the import does "
                "not say that they are others"
            )

    def _check_withdrawal(self, event: Event) -> None:
        body = _body(event, "the withdrawal", "cause", "reason")
        held = self.replay.held.get(event.deployment or 0)
        if held is None or held.worker != event.worker:
            raise InvalidInput("a deployment was withdrawn that is not out, or from another worker")
        if body["cause"] == EXPIRED:
            lease = self.replay.lease
            if lease is None or not lease.withdraws or not lease.is_over(held.at, event.at):
                raise InvalidInput("a deployment was withdrawn for its lease, which was not over, or takes nothing back")
            return
        learner = self.replay.learner
        halted = learner.propose().reason is Reason.HALT
        if learner.standing is not Standing.REFUTED or body["cause"] != (kinds.HALTED if halted else kinds.REFUTED):
            raise InvalidInput("a deployment was withdrawn though the data did not refute what it rests on")
        if not halted and held.body.reason == Reason.BASELINE.name:
            raise InvalidInput("the baseline alone was withdrawn though the data did not refute its margin")

    def _check_ask(self, event: Event) -> None:
        number = event.deployment
        if number != self.replay.deployments + 1 or not event.worker:
            raise InvalidInput(f"deployment {number} does not follow deployment {self.replay.deployments}")
        # The deployments of a fleet share a proposal: what differs is the coin. With nothing counted in between, and the
        # same text but for that, the same numbers follow.
        learner, text = self.replay.learner, str(event.body)  # SQLite keeps any type in any column
        found = _DRAWN.search(text)
        basis = (_DRAWN.sub("", text, count=1), learner.evidence.counts.episodes, learner.doubts(), id(learner.method))
        if self._last is not None and self._last[0] == basis and found is not None:
            body, index = self._last[1], int(found.group(1))
            if index >= len(body.policies):
                raise InvalidInput(f"event {event.sequence} is not a deployment as it was recorded")
            self._asked[number] = body.policies[index]
            _check_coin(index, np.array(body.weights), coin_of(self.problem.settings.coin_seed, number))
            self.identical, self.different = self.identical + self._last[2], self.different + self._last[3]
            return
        body, identical, different = AskBody.read(event), self.identical, self.different
        self._asked[number] = body.policies[body.drawn]
        self._check_claims(body, number)
        self._last = (basis, body, self.identical - identical, self.different - different)

    def _check_claims(self, body: AskBody, number: int) -> None:
        """Refuse a deployment that was not allowed on what was counted before it, or that claims more than is provable."""
        settings, learner = self.problem.settings, self.replay.learner
        check_bounds(body.bounds, settings)
        mixture = Mixture.of(body.weights, [self._policy(digest) for digest in body.policies])
        if len(mixture.weights) != len(body.weights):
            raise InvalidInput("the mixture names policies without weight")
        counted = learner.evidence.counts.episodes
        if body.episodes_counted != counted:
            raise InvalidInput(f"the model had counted {count(counted, 'episode')} here, not {body.episodes_counted}")
        _check_coin(body.drawn, mixture.weights, coin_of(settings.coin_seed, number))
        doubts = learner.doubts()
        if body.certified and doubts:
            raise InvalidInput(f"the deployment is labelled certified though it was not: {'; '.join(map(str, doubts))}")
        bounds, delta, identical = _provable(body, mixture, learner)
        self.identical += identical
        thresholds, claimed = learner.simulator.thresholds, np.array(body.lower_bounds, dtype=np.float64)
        for found, how in ((claimed, "recorded"), (bounds, "proved")):
            if found.shape != thresholds.shape:
                raise InvalidInput(f"{found.size} lower bounds are {how} for {thresholds.size} constraints")
        self.smallest_margin = min(self.smallest_margin, float(np.min(bounds - thresholds, initial=np.inf)))
        if not (bounds >= thresholds - ROUNDING).all():
            raise InvalidInput(f"the certificate does not hold: the data prove {_in_words(learner, bounds)}")
        if not (claimed <= bounds + ROUNDING).all():
            raise InvalidInput(
                f"the recorded lower bounds claim more than the data prove: {_in_words(learner, claimed)}; proved is "
                f"{_in_words(learner, bounds)}"
            )
        if not (claimed >= thresholds - ROUNDING).all():
            raise InvalidInput(f"the recorded lower bounds miss what was asked for: {_in_words(learner, claimed)}")
        difference = max(
            float(np.max(bounds - claimed, initial=0.0)), _uncertainty_of(body) - delta if delta < np.inf else 0
        )
        if difference > ROUNDING or body.certified != (not doubts) or body.reason != learner.decide().reason.name:
            self.different += 1
            self.largest_difference = max(self.largest_difference, difference if difference < np.inf else 0.0)

    def _policy(self, digest: Any) -> MarkovPolicy:
        if not isinstance(digest, str):
            raise InvalidInput(f"policy {shown(digest)} is missing; policies are named by digests")
        if digest in self._policies:
            return self._policies[digest]
        content = self._policy_content(digest)
        if content is None:
            raise InvalidInput(f"policy {digest[:12]} is missing")
        if digest_of(content) != digest:
            raise InvalidInput(f"policy {digest[:12]} was changed after it was recorded")
        policy = policy_from_bytes(content)
        check_policy(policy, self.problem.simulator)
        if len(self._policies) >= _REMEMBERED:
            self._policies.clear()
        self._policies[digest] = policy
        return policy


def _body(event: Event, what: str, *required: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return check_keys(from_text(event.body, what), what, required=required, optional=optional)


def _in_words(learner: Learner, bounds: Floats) -> str:
    """Return lower bounds [K] on V_c beside the thresholds, in the user's wording."""
    pairs = zip(learner.simulator.wordings, bounds, learner.simulator.thresholds, strict=True)
    return ", ".join(
        f"{words.quantity} {words.relation} {words.number(low):.12g} ({words.bound(limit)})" for words, low, limit in pairs
    )


def _check_coin(index: int, weights: Floats, coin: float) -> None:
    """Refuse a policy that is not the one which the coin shows."""
    if index != drawn(weights, coin):
        raise InvalidInput("the policy that was run is not the one that the coin of this deployment shows")


def _provable(recorded: AskBody, mixture: Mixture, learner: Learner) -> tuple[Floats, float, bool]:
    """The bound on V_c of the recorded mixture, Delta, and whether the mixture is the one that is proposed here."""
    candidates, uncertainty = recorded.candidates, _uncertainty_of(recorded)
    baseline = mixture.policies[candidates:]
    if len(baseline) > 1 or any(not _same(policy, learner.baseline) for policy in baseline):
        raise InvalidInput("what the candidate is mixed with is not the trusted baseline")
    alpha = float(mixture.weights[:candidates].sum())
    if abs(alpha - recorded.exploration_weight) > ROUNDING:
        raise InvalidInput(f"the candidate has the weight {alpha:.12g}, not {recorded.exploration_weight:.12g}")
    trusted, now = learner.evidence.trusted, learner.decide()
    if recorded.reason == Reason.BASELINE.name:
        if candidates or uncertainty < np.inf:
            raise InvalidInput("a deployment of the baseline alone names other policies")
        if now.reason is Reason.HALT:
            raise InvalidInput("the baseline was handed out though the data had refuted its margin")
        return trusted, np.inf, now.reason is Reason.BASELINE
    if learner.is_refuted or not candidates:
        raise InvalidInput(f"the data did not allow a mixture here: the answer was {now.reason.name}")
    candidate = Mixture.of(mixture.weights[:candidates] / alpha, mixture.policies[:candidates])
    lower = learner.method.recheck(Recorded(candidate, alpha, uncertainty), learner.evidence, now)
    bounds = np.asarray(alpha * lower + (1.0 - alpha) * trusted)
    return bounds, now.uncertainty, _identical(mixture, now.mixture(learner.baseline))


def _uncertainty_of(recorded: AskBody) -> float:
    return np.inf if recorded.uncertainty is None else recorded.uncertainty


def _same(one: MarkovPolicy, other: MarkovPolicy) -> bool:
    return one is other or np.array_equal(one.probabilities, other.probabilities)


def _identical(recorded: Mixture, proposed: Mixture | None) -> bool:
    return (
        proposed is not None
        and np.array_equal(recorded.weights, proposed.weights)
        and all(_same(one, other) for one, other in zip(recorded.policies, proposed.policies, strict=True))
    )
