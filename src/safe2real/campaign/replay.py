"""The state of a campaign, computed from its events alone.

Episodes are counted in the order in which their policies were handed out, not in the order in which they were told. An
episode that is still out holds back the ones handed out after it: they are recorded, and they are counted as soon as it is
told, abandoned or withdrawn. So it does not matter for the guarantee whether a bad episode takes longer to be reported than
a good one: for every row the counted successors are always the first n of one sequence of independent draws, which is what
the confidence radius is about (docs/campaigns.md). Counting in the order of arrival would let the outcome choose what is
counted first. An imported log has its place in that order too, after all that was handed out before it came; and it is
counted as a whole, since its own order may have been chosen by its content.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from safe2real.campaign import events as kinds
from safe2real.campaign.deployment import FIELD_ASSUMPTIONS
from safe2real.campaign.events import AskBody, Event, ImportBody
from safe2real.campaign.leases import Lease, lease_in
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.episode_log import Episodes, Step, count_in_order, leaves, outside_support, packed, transitions_in
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.constraint_text import count
from safe2real.model.policy import fitted
from safe2real.model.serialization import check_keys, digest_of, from_text, named_from_json, policy_to_bytes
from safe2real.standing import Assumption, AssumptionCode

_NUMBERS = (
    "sequence", "digest", "deployments", "told", "cut_short", "left_model", "told_late", "imported", "samples", "branches",
    "departures", "outside_support", "forced", "_next_to_count",
)  # fmt: skip
# What reading raises that expects the content of an event to be what it was written as.
_MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Held:
    """A deployment that was handed out and not yet told."""

    number: int
    worker: str
    at: str
    event: Event
    written: AskBody | None = field(default=None, compare=False, repr=False)  # its body, where this process wrote it

    @cached_property
    def body(self) -> AskBody:
        """Why it was handed out; read once."""
        return AskBody.read(self.event) if self.written is None else self.written


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A deployment that was taken back from its worker, and has not been told since."""

    held: Held
    at: str
    reason: str


class Replay:
    """Applies events in order; `learner` is the model they lead to."""

    def __init__(self, learner: Learner) -> None:
        """`learner` is a fresh one, without warm starts: what it proposes has to be a function of the record alone."""
        self._learner, problem = learner, learner.problem
        self._support = learner.evidence.possible
        self._baseline = digest_of(policy_to_bytes(problem.baseline))
        tried = learner.method.tried
        self._tried = None if tried is None else digest_of(policy_to_bytes(fitted(tried, problem.simulator)))
        self.sequence = 0
        self.digest = kinds.BEFORE_THE_FIRST
        self.deployments = 0  # handed out so far
        self.held: dict[int, Held] = {}  # by number, oldest first
        self.told = 0
        self.cut_short = 0
        self.left_model = 0  # episodes, told or imported
        self.abandoned: dict[int, Held] = {}  # and not told since
        self.withdrawn: dict[int, Withdrawn] = {}  # and not told since
        self.told_late = 0
        self.imported = 0
        self.samples = 0  # recorded, counted or not
        # Counted or not, for what refutes does not wait:
        self.departures = 0  # episodes that left the model or began outside
        self.outside_support = 0  # transitions that the declared support rules out
        self.branches = 0  # times the record was restored and went on
        self.lease: Lease | None = None
        self.forced = 0  # deployments told or abandoned by others than their worker
        self._next_to_count = 1
        self._waiting: dict[int, Episodes | None] = {}  # number -> its episode, or None when abandoned or withdrawn
        self._logs: deque[tuple[int, list[Episodes]]] = deque()  # (the deployment that it comes after, what one import adds)
        self._parts: dict[str, list[Episodes]] = {}  # digest of all that an import adds -> what of it is read so far
        self._said: list[Assumption] = []
        self._ready: list[Step] = []  # to be counted, in order
        self._spoilt: str | None = None  # why nothing may be computed from it any more

    @property
    def learner(self) -> Learner:
        """The learner with everything counted that may be."""
        with self._whole_or_spoilt():
            if self._ready:
                ready, self._ready = self._ready, []
                try:
                    count_in_order(self._learner, ready)
                except _MALFORMED as error:
                    raise StorageFailure(
                        f"a recorded episode is not one ({error}); run verify, or restore a copy"
                    ) from error
        self._learner.evidence.announce(departures=self.departures, outside_support=self.outside_support)
        return self._learner

    @property
    def method(self) -> Method:
        """The method, with the rewards declared during the campaign."""
        return self._learner.method

    @property
    def uncounted(self) -> int:
        """Episodes that are recorded and wait for an earlier deployment."""
        return sum(len(one.contents) for one in self._all_waiting())

    @property
    def uncounted_samples(self) -> int:
        """Samples of episodes that wait, or belong to a log whose end is not read yet."""
        waiting = chain(self._all_waiting(), *self._parts.values())
        return sum(transitions_in(content) for one in waiting for content in one.contents)

    def _all_waiting(self) -> Iterator[Episodes]:
        waiting = (episodes for episodes in self._waiting.values() if episodes is not None)
        return chain(waiting, *(logs for _, logs in self._logs))

    @property
    def blocker(self) -> Held | None:
        """The deployment that the uncounted episodes wait for."""
        return self.held.get(self._next_to_count) if self._waiting or self._logs else None

    @property
    def unfinished(self) -> bool:
        """Whether the record ends within a log."""
        return bool(self._parts)

    def in_the_field(self, certificate: Certificate) -> Certificate:
        """Add to a certificate what a campaign assumes besides: of its fleet, its imports, its restores and its lease."""
        why = "for reasons that had nothing to do with the episodes that were lost"
        restored = Assumption(AssumptionCode.SELECTION, f"the record was restored {self.branches} times, {why}", "restore")
        lease = () if self.lease is None else self.lease.assumptions
        return certificate.assuming((*FIELD_ASSUMPTIONS, *self._said, *((restored,) if self.branches else ()), *lease))

    def held_by(self, worker: str) -> list[Held]:
        return [held for held in self.held.values() if held.worker == worker]

    def withdrawn_from(self, worker: str) -> list[Withdrawn]:
        return [one for one in self.withdrawn.values() if one.held.worker == worker]

    def was_told(self, number: int) -> bool:
        """Whether the episode of a deployment is recorded, by what was replayed."""
        untold = (self.held, self.abandoned, self.withdrawn)
        return 0 < number <= self.deployments and not any(number in gone for gone in untold)

    def apply(self, event: Event, written: AskBody | None = None) -> None:
        """Take in the next event; one that does not follow from the last was changed, and is refused.

        `written` is the body of an ask that this process has just written, which need not be read again.
        """
        if event.sequence != self.sequence + 1 or event.digest != event.digest_after(self.digest):
            raise StorageFailure(
                f"event {event.sequence} does not follow event {self.sequence}: the record was changed afterwards, "
                "so nothing more is handed out; run verify to see what is wrong"
            )
        with self._whole_or_spoilt(), as_recorded(event):
            self.take_unchecked(event, written)

    @contextmanager
    def _whole_or_spoilt(self) -> Iterator[None]:
        """Refuse all further use once something failed half-way (damage, lack of memory, an interrupt).

        What the counts then hold is unknown, so nothing may be handed out that was computed from them.
        """
        if self._spoilt is not None:
            raise StorageFailure(self._spoilt)
        try:
            yield
        except StorageFailure as error:
            self._spoilt = str(error)
            raise
        except BaseException as error:
            self._spoilt = f"an event was taken in by half ({type(error).__name__}), so nothing is handed out; open it again"
            raise

    def take_unchecked(self, event: Event, written: AskBody | None = None) -> None:
        """Apply an event without checking its number and digest: `verify` uses it to report faults instead of refusing."""
        self._take(event, written)
        self.sequence, self.digest = event.sequence, event.digest

    def _take(self, event: Event, written: AskBody | None) -> None:
        number = event.deployment
        if event.kind == kinds.ASK and number is not None:
            self.deployments = number
            self.held[number] = Held(number, event.worker or "", event.at, event, written)
        elif event.kind == kinds.TELL and number is not None:
            self._told(number, from_text(event.body, f"event {event.sequence}"))
        elif event.kind in (kinds.ABANDON, kinds.WITHDRAW) and number is not None:
            self._given_up(number, event)
        elif event.kind == kinds.IMPORT:
            self._imported(event)
        elif event.kind in (kinds.BRANCH, kinds.FORCE):
            self.branches += event.kind == kinds.BRANCH
            self.forced += event.kind == kinds.FORCE
        elif event.kind == kinds.CREATE:
            self.lease = lease_in(from_text(event.body, "the first event"))
        elif event.kind == kinds.DECLARE:
            _declare(self._learner, declared_in(event))
        else:
            raise InvalidInput(
                f"event {event.sequence} is of the unknown kind {event.kind!r}; a newer safe2real may know it: upgrade"
            )
        self._release()

    def _release(self) -> None:
        """Everything whose turn it is: logs after all that was handed out before them, and before what came later."""
        while True:
            while self._logs and self._logs[0][0] < self._next_to_count:
                self._ready.append(self._logs.popleft()[1])
            if self._next_to_count not in self._waiting:
                return
            episode = self._waiting.pop(self._next_to_count)
            if episode is not None:
                self._ready.append(episode)
            self._next_to_count += 1

    def _told(self, number: int, content: Any) -> None:
        self.told += 1
        left = self._notice(content)
        self.cut_short += transitions_in(content) < self._learner.simulator.steps and not left
        held = self.held.pop(number, None)
        if held is None:  # told after it was abandoned or withdrawn
            gone = self.withdrawn.pop(number, None)
            held = gone.held if gone is not None else self.abandoned.pop(number, None)
            self.told_late += 1
        of_baseline, of_candidate = (False, False) if held is None else self._drawn_from(held.event)
        if number >= self._next_to_count:
            self._waiting[number] = Episodes([content], of_baseline, of_candidate)
        else:  # reported late: its slot already counted as the worst case, so its transitions count now
            self._ready.append(Episodes([content], of_baseline))

    def _given_up(self, number: int, event: Event) -> None:
        held = self.held.pop(number, None)
        if held is None:
            return
        lost = self._drawn_from(held.event)[1]
        self._waiting[number] = Episodes([], False, True) if lost else None
        if event.kind == kinds.ABANDON:
            self.abandoned[number] = held
        else:
            reason = str(from_text(event.body, f"event {event.sequence}")["reason"])
            self.withdrawn[number] = Withdrawn(held, event.at, reason)

    def _imported(self, event: Event) -> None:
        body = ImportBody.read(event)
        self.imported += len(body.episodes)
        for content in body.episodes:
            self._notice(content)
        part = Episodes(packed(body.episodes), body.policy == self._baseline, body.policy == self._tried)
        logs = [*self._parts.pop(body.log, []), part]
        if body.part != body.parts:
            self._parts[body.log] = logs
            return
        self._said += _said_of(event.worker or "", body)
        self._logs.append((body.after, logs))

    def _notice(self, content: Any) -> bool:
        """Update the totals that need no counting for a recorded episode; return whether it left the model."""
        left = bool(content.get("left_model", False))
        self.samples += transitions_in(content)
        self.left_model += left
        self.departures += leaves(self._learner.simulator, content)
        self.outside_support += 0 if self._support is None else outside_support(self._support, content)
        return left

    def _drawn_from(self, event: Event) -> tuple[bool, bool]:
        """Return whether the baseline was drawn, and whether the policy whose returns are bounded, if any, was drawn.

        The rest is not checked: this is done for every recorded episode.
        """
        try:
            body = json.loads(event.body)
            of_baseline = bool(body["drawn"] >= body["candidates"])
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
        ):  # verify says so; it is of unknown origin
            return False, False
        return of_baseline, not of_baseline and self._learner.evidence.goes_by_returns

    # Keeping

    def state(self) -> dict[str, Any]:
        """Return, as plain data, all that it holds besides the learner; `restore` takes it in."""
        return {
            "numbers": {name: getattr(self, name) for name in _NUMBERS},
            "held": [asdict(held.event) for held in self.held.values()],
            "abandoned": [asdict(held.event) for held in self.abandoned.values()],
            "withdrawn": [[asdict(one.held.event), one.at, one.reason] for one in self.withdrawn.values()],
            "waiting": [[number, None if one is None else _listed(one)] for number, one in self._waiting.items()],
            "logs": [[after, [_listed(one) for one in logs]] for after, logs in self._logs],
            "parts": {log: [_listed(one) for one in parts] for log, parts in self._parts.items()},
            "said": [[one.code.value, one.text, one.subject] for one in self._said],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take in the `state` of another replay; the learner knows already what that one's knew.

        Raises:
            ValueError, KeyError or TypeError: It is not as `state` gives it; this replay is of no use then.
        """
        for name in _NUMBERS:
            setattr(self, name, state["numbers"][name])
        self.held, self.abandoned = _held_in(state["held"]), _held_in(state["abandoned"])
        for event, at, reason in state["withdrawn"]:
            ((number, held),) = _held_in([event]).items()
            self.withdrawn[number] = Withdrawn(held, at, reason)
        self._waiting = {number: None if one is None else Episodes(*one) for number, one in state["waiting"]}
        self._logs = deque((after, [_packed(*one) for one in logs]) for after, logs in state["logs"])
        self._parts = {log: [_packed(*one) for one in parts] for log, parts in state["parts"].items()}
        self._said = [Assumption(AssumptionCode(code), text, subject) for code, text, subject in state["said"]]


def _held_in(events: Sequence[Mapping[str, Any]]) -> dict[int, Held]:
    found = [Event(**event) for event in events]
    return {event.deployment or 0: Held(event.deployment or 0, event.worker or "", event.at, event) for event in found}


def _listed(one: Episodes) -> list[Any]:
    return [list(one.contents), one.of_baseline, one.of_candidate]


def _packed(contents: list[Any], of_baseline: bool, of_candidate: bool) -> Episodes:
    """A log, in little memory again."""
    return Episodes(packed(contents), of_baseline, of_candidate)


@contextmanager
def as_recorded(event: Event) -> Iterator[None]:
    """Say which event cannot be read. Digests are no signatures: any program that writes to the file can make them fit."""
    try:
        yield
    except _MALFORMED as error:
        raise StorageFailure(
            f"event {event.sequence} is not as this package records one ({error}), so nothing more is handed out; run "
            "verify, or restore a copy"
        ) from error


def _said_of(source: str, body: ImportBody) -> list[Assumption]:
    if body.overlap == kinds.COUNTED:
        text = (
            f"episodes of the log {source!r} that look like recorded ones or ones that the simulator was estimated from are "
            f"other episodes: {count(body.alike, 'episode')}"
        )
    elif body.overlap == kinds.SKIPPED:
        skipped = count(body.alike, "episode")
        text = f"episodes of the log {source!r} that were skipped are those that the record had already: {skipped}"
    else:
        return []
    return [Assumption(AssumptionCode.LOGS, text, source)]


def declared_in(event: Event) -> ForRewards:
    """The method that a declaration states; refuses one that is not as it was written."""
    where = f"event {event.sequence}"
    body = check_keys(from_text(event.body, where), where, required=("method",))
    method = named_from_json(body["method"], f"{where}.method", ForRewards, (ForRewards,))
    if not isinstance(method, ForRewards):
        raise InvalidInput(f"{where} declares no rewards; a newer safe2real may know what it says: upgrade")
    return method


def _declare(learner: Learner, method: ForRewards) -> None:
    """Let a learner go on with declared rewards; only one that had some may."""
    if not isinstance(learner.method, ForRewards):
        raise InvalidInput(f"rewards were declared in a campaign of the method {learner.method.name!r}, which has none")
    learner.direct(method)
