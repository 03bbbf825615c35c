"""The safety ledger: from the events alone, was every policy allowed when it was handed out?

Nothing that the record says about itself is believed. For each deployment the model is rebuilt from the episodes counted
before it, the uncertainty Delta is computed again, the recorded policies are evaluated on that model, and the lower bound
on V_c follows from these numbers. A record can be checked on another machine, where the planner may break a tie
differently: the policies need not be the ones that would be proposed here, they need to be certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from safe2real.campaign.encoding import check_keys, digest_of, from_text, policy_from_bytes
from safe2real.campaign.episodes import check_actions, episode_from_json
from safe2real.campaign.events import ABANDON, ASK, BEFORE_THE_FIRST, CREATE, IMPORT, TELL, AskBody, Event
from safe2real.campaign.replay import Replay
from safe2real.campaign.specification import Specification
from safe2real.errors import InvalidInput
from safe2real.explore.learner import Reason, coin_of, drawn
from safe2real.model.checks import shown
from safe2real.model.policy import MarkovPolicy, Mixture, check_policy
from safe2real.standing import Doubt, Standing, standing_of

ROUNDING = 1e-9  # what two machines may differ by
_REMEMBERED = 256  # policies kept decoded


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the record that is not as it must be."""

    sequence: int  # the event
    deployment: int | None
    what: str


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
    problems: tuple[Problem, ...]

    @property
    def standing(self) -> Standing:
        """What the deployments are worth, as far as the record shows."""
        return standing_of(self.doubts)

    @property
    def certified(self) -> bool:
        return not self.doubts

    @property
    def holds(self) -> bool:
        """Whether every event is as it was written and every deployment's certificate holds."""
        return not self.problems

    def describe(self) -> str:
        if not self.holds:
            first = self.problems[0]
            return f"NOT VERIFIED: {len(self.problems)} problems; the first is in event {first.sequence}: {first.what}"
        reasons = "; ".join(map(str, self.doubts))
        label = "certified:" if self.certified else f"{self.standing.upper()}, not a guarantee ({reasons}):"
        return (
            f"{label} {self.deployments} deployments and {self.episodes} episodes ({self.samples} samples) check; "
            f"the smallest margin of a lower bound over its threshold is {max(0.0, self.smallest_margin):.6g}"
        )


def check_record(
    name: str,
    specification: Specification,
    specification_digest: str,
    events: Iterable[Event],
    policy_content: Callable[[str], bytes | None],
    *,
    head: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Ledger:
    """Check every event of a record; `policy_content` looks a stored policy up by its digest."""
    checker = _Checker(name, specification, specification_digest, policy_content)
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
        if progress is not None and event.sequence % 100 == 0:
            progress(event.sequence)
    if not head_seen:
        checker.problems.append(Problem(checker.events, None, f"the event with digest {head} is no longer in the record"))
    if checker.events == 0:
        checker.problems.append(Problem(0, None, "the record is empty; its first event is missing"))
    replay = checker.replay
    return Ledger(
        events=checker.events,
        deployments=replay.deployments,
        episodes=replay.told + replay.imported,
        samples=replay.samples,
        identical=checker.identical,
        smallest_margin=checker.smallest_margin,
        doubts=replay.learner.doubts(),
        head=previous,
        problems=tuple(checker.problems),
    )


class _Checker:
    def __init__(
        self, name: str, specification: Specification, digest: str, policy_content: Callable[[str], bytes | None]
    ) -> None:
        self.name, self.specification, self.specification_digest = name, specification, digest
        self.replay = Replay(specification)
        self.events, self.identical, self.smallest_margin = 0, 0, float("inf")
        self.problems: list[Problem] = []
        self._policy_content = policy_content
        self._policies: dict[str, MarkovPolicy] = {}
        self._logs: dict[str, str | None] = {}  # digest of an imported log -> its source
        self._asked: dict[int, str] = {}  # open and abandoned deployments: digest of the policy that was run

    def report(self, event: Event, what: str) -> None:
        self.problems.append(Problem(event.sequence, event.deployment, what))

    def check(self, event: Event) -> None:
        """Raises InvalidInput with what is wrong; the event is taken into the model only when an episode can be read."""
        if event.deployment is not None and type(event.deployment) is not int:  # SQLite keeps any type in any column
            raise InvalidInput(f"the deployment is {shown(event.deployment)}, which is not a number")
        if (event.kind == CREATE) != (event.sequence == 1):
            raise InvalidInput("the campaign's first event is missing, or another one is in its place")
        if event.kind == CREATE:
            body = from_text(event.body, "the first event")
            expected = {"campaign": self.name, "specification": self.specification_digest}
            if body != expected:
                raise InvalidInput("the campaign's name or its specification was changed after it was created")
        elif event.kind == ASK:
            try:
                self._check_ask(event)
            finally:
                self.replay.take_unchecked(event)  # its number is taken, whatever is wrong with it
            return
        elif event.kind == TELL:
            if event.deployment not in self._asked:
                raise InvalidInput("an episode was told that nobody asked for, or a second time")
            self._check_episode(from_text(event.body, "the episode"), self._asked[event.deployment], "the episode")
            del self._asked[event.deployment]
        elif event.kind == ABANDON:
            check_keys(from_text(event.body, "the abandonment"), "the abandonment", required=("reason",))
            if event.deployment not in self.replay.held:
                raise InvalidInput("a deployment was abandoned that is not out")
        elif event.kind == IMPORT:
            body = check_keys(from_text(event.body, "the import"), "the import", required=("policy", "log", "episodes"))
            if not isinstance(body["episodes"], list) or not body["episodes"] or not isinstance(body["log"], str):
                raise InvalidInput("the import holds no list of episodes, or not the digest of its log")
            if self._logs.setdefault(body["log"], event.worker) != event.worker:
                raise InvalidInput(f"the log of {event.worker!r} was imported before, as {self._logs[body['log']]!r}")
            for index, episode in enumerate(body["episodes"]):
                self._check_episode(episode, body["policy"], f"episodes[{index}]")
        self.replay.take_unchecked(event)

    def _check_episode(self, episode: Any, digest: str, where: str) -> None:
        trajectory = episode_from_json(self.specification.simulator, episode, where, partial=True)
        check_actions(self._policy(digest), trajectory, where)

    def _check_ask(self, event: Event) -> None:
        number = event.deployment
        if number != self.replay.deployments + 1 or not event.worker:
            raise InvalidInput(f"deployment {number} does not follow deployment {self.replay.deployments}")
        body = AskBody.read(event)
        self._asked[number] = body.policies[body.drawn]
        settings = self.specification.settings
        mixture = Mixture.of(body.weights, [self._policy(digest) for digest in body.policies])
        if len(mixture.weights) != len(body.weights):
            raise InvalidInput("the mixture names policies without weight")
        if body.drawn != drawn(mixture.weights, coin_of(settings.seed, number)):
            raise InvalidInput("the policy that was run is not the one that the coin of this deployment shows")
        if body.certified != (not self.replay.learner.doubts()):
            raise InvalidInput("the deployment is labelled certified though it was not, or the other way round")
        bounds = self._lower_bounds(body, mixture)
        thresholds = self.specification.simulator.thresholds
        recorded = np.array(body.lower_bounds, dtype=np.float64)
        self.smallest_margin = min(self.smallest_margin, float(np.min(bounds - thresholds, initial=np.inf)))
        if not (bounds >= thresholds - ROUNDING).all():
            raise InvalidInput(f"the certificate does not hold: V_c >= {bounds.tolist()}, thresholds {thresholds.tolist()}")
        if recorded.shape != bounds.shape or not (np.abs(recorded - bounds) <= ROUNDING).all():
            raise InvalidInput(f"the recorded lower bounds {body.lower_bounds} are not those of the data, {bounds.tolist()}")

    def _lower_bounds(self, body: AskBody, mixture: Mixture) -> np.ndarray[Any, Any]:
        """The bound on V_c of the recorded mixture, computed here (paper, Line 13 and Lemma 3)."""
        learner = self.replay.learner
        if body.episodes_counted != learner.hybrid.counts.episodes:
            raise InvalidInput(
                f"the model had counted {learner.hybrid.counts.episodes} episodes here, not {body.episodes_counted}"
            )
        baseline = mixture.policies[body.candidates :]
        if len(baseline) > 1 or any(not _same(policy, learner.baseline) for policy in baseline):
            raise InvalidInput("what the candidate is mixed with is not the trusted baseline")
        alpha = float(mixture.weights[: body.candidates].sum())
        if abs(alpha - body.exploration_weight) > ROUNDING:
            raise InvalidInput(f"the candidate has the weight {alpha:.12g}, not {body.exploration_weight:.12g}")
        trusted = self.specification.simulator.thresholds + learner.margins
        if body.reason == Reason.BASELINE.name:
            if body.candidates or body.uncertainty is not None:
                raise InvalidInput("a deployment of the baseline alone names other policies")
            self.identical += learner.propose().reason is Reason.BASELINE
            return np.asarray(trusted)
        proposal = learner.propose()
        if proposal.reason is not Reason.MIXTURE or body.uncertainty is None or not body.candidates:
            raise InvalidInput(f"the data did not allow a mixture here: the answer was {proposal.reason.name}")
        if body.uncertainty < proposal.uncertainty - ROUNDING:
            raise InvalidInput(f"Delta is {proposal.uncertainty:.12g} on these data, not {body.uncertainty:.12g}")
        candidate = Mixture.of(mixture.weights[: body.candidates] / alpha, mixture.policies[: body.candidates])
        self.identical += _identical(mixture, proposal.mixture)
        return np.asarray(alpha * learner.lower_bounds(candidate, body.uncertainty) + (1.0 - alpha) * trusted)

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
        check_policy(policy, self.specification.simulator)
        if len(self._policies) >= _REMEMBERED:
            self._policies.clear()
        self._policies[digest] = policy
        return policy


def _same(one: MarkovPolicy, other: MarkovPolicy) -> bool:
    return one is other or np.array_equal(one.probabilities, other.probabilities)


def _identical(recorded: Mixture, proposed: Mixture | None) -> bool:
    return (
        proposed is not None
        and np.array_equal(recorded.weights, proposed.weights)
        and all(_same(one, other) for one, other in zip(recorded.policies, proposed.policies, strict=True))
    )
