"""One event after the other: is it as it must be, given all that came before it?

Here the record is checked: its chain, its ids and places, what it names. Whether a deployment was allowed is for `recheck`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from safe2real.campaign import events as kinds
from safe2real.campaign.declared import declared_in
from safe2real.campaign.episodes import seen_from
from safe2real.campaign.events import AskBody, Event, ImportBody
from safe2real.campaign.imports import key_of
from safe2real.campaign.leases import EXPIRED
from safe2real.campaign.recheck import check_coin, recheck
from safe2real.campaign.replay import Replay
from safe2real.campaign.revisions import check_bounds
from safe2real.campaign.trials import change_in
from safe2real.errors import InvalidInput
from safe2real.exploration.coin import coin_of
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Reason
from safe2real.model.constraint_text import count
from safe2real.model.policy import MarkovPolicy, Mixture, check_policy
from safe2real.model.serialization import check_keys, digest_of, fingerprint, from_text, policy_from_bytes
from safe2real.model.trajectory import check_actions
from safe2real.model.validation import shown
from safe2real.standing import Standing

_REMEMBERED = 256  # policies kept decoded
# The body of a told episode as it is written is its own key.
_AS_WRITTEN = re.compile(r'\{"actions":\[[0-9,]*\],"states":\[[0-9,]*\]\}')
_DRAWN = re.compile(r'"drawn":(0|[1-9][0-9]{0,8}),')  # in a body as it is written; a text inside it has escaped quotes


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something in the record that is not as it must be."""

    sequence: int  # the event
    deployment: int | None
    what: str


class Checker:
    """Takes the events of a record in order; `problems` are what it found."""

    def __init__(self, name: str, learner: Learner, digest: str, policy_content: Callable[[str], bytes | None]) -> None:
        self.name, self.problem, self.problem_digest = name, learner.problem, digest
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
                raise InvalidInput("an episode was told that nobody asked for, or a second time")
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
        elif event.kind == kinds.TRIAL:
            change_in(event)  # the rest is refused where it does not fit what came before
        elif event.kind == kinds.MIGRATE:
            _body(event, "the migration", "from", "to", "version")
        self.replay.take_unchecked(event)

    def _check_create(self, event: Event) -> None:
        later = ("version", "method", "bounds", "trust_margin", "lease")  # than release 0.1
        body = _body(event, "the first event", "campaign", "specification", optional=later)
        if (body["campaign"], body["specification"]) != (self.name, self.problem_digest):
            raise InvalidInput("the campaign's name or its specification was changed after it was created")
        if body.keys().isdisjoint(later):
            return
        method, version = self.replay.learner.method, body.get("version")
        names = [method.name, *(f"{method.name}/{revision}" for revision in range(2, method.revision + 1))]
        if body.get("method") not in names or not isinstance(version, str) or body.get("trust_margin", True) is not True:
            raise InvalidInput(f"the first event does not say the version and the method {method.name} as it must")
        check_bounds(body.get("bounds"), self.problem.settings)
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
        if body.after is None and self.version is not None:  # in release 0.1 logs had no place
            raise InvalidInput("the import has no place in the order in which episodes are counted")
        if body.after is not None and body.after != self.replay.deployments:
            raise InvalidInput(f"the import comes after deployment {self.replay.deployments}, not after {body.after}")
        this = (body.log, event.worker, body.parts, body.overlap, body.alike, body.skipped)
        log, part, sequence = self._open_log
        follows = body.part == part + 1 and log == this and event.sequence == sequence + 1
        if body.after is not None and not follows and (body.part != 1 or part):
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
        if alike and body.overlap == kinds.NO_OVERLAP and body.after is not None:  # release 0.1 did not look
            raise InvalidInput(f"{len(alike)} imported episodes look like recorded ones, and nobody said what they are")
        fitted = self.problem.fitted_episodes() if body.overlap == kinds.NO_OVERLAP else frozenset()
        if number := sum(fingerprint(one["states"], one["actions"]) in fitted for _, one in episodes if fitted):
            raise InvalidInput(
                f"{number} imported episodes look like ones that the simulator was estimated from, and nobody said that "
                "they are others"
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
        if not halted and AskBody.read(held.event).reason == Reason.BASELINE.name:
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
            check_coin(index, np.array(body.weights), coin_of(self.problem.settings.coin_seed, number))
            self.identical, self.different = self.identical + self._last[2], self.different + self._last[3]
            return
        body, identical, different = AskBody.read(event), self.identical, self.different
        self._asked[number] = body.policies[body.drawn]
        self._check_claims(body, number)
        self._last = (basis, body, self.identical - identical, self.different - different)

    def _check_claims(self, body: AskBody, number: int) -> None:
        settings, learner = self.problem.settings, self.replay.learner
        if body.bounds is not None or self.version is not None:  # release 0.1 named neither
            check_bounds(body.bounds, settings)
        mixture = Mixture.of(body.weights, [self._policy(digest) for digest in body.policies])
        if len(mixture.weights) != len(body.weights):
            raise InvalidInput("the mixture names policies without weight")
        counted = learner.evidence.counts.episodes
        if body.episodes_counted != counted:
            raise InvalidInput(f"the model had counted {count(counted, 'episode')} here, not {body.episodes_counted}")
        found = recheck(body, mixture, coin_of(settings.coin_seed, number), learner)
        self.identical += found.identical
        self.smallest_margin = min(self.smallest_margin, found.margin)
        if found.doubts:
            raise InvalidInput("; ".join(found.doubts))
        if found.difference is not None:
            self.different += 1
            self.largest_difference = max(self.largest_difference, found.difference)

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
