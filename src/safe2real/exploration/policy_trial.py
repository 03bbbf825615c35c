"""Bring in a policy that has no table, safely, by the returns of its own episodes: deep RL, a program, a person.

Problem: a candidate that looks good in simulation, a baseline whose margin is known, and episodes whose sums can be read.
Algorithm: that of `methods.Trial`, with nothing but numbers: an anytime lower bound on what the candidate is worth from its
own episodes, and a coin that shows the candidate as often as the baseline's margin pays for. The proof is in docs/trials.md;
it needs no state, no model and no Markov property.

A trial is a function of its terms and of what was told, in order. It is kept as one JSON document, written before an episode
is handed out and after it was told: an episode that nobody told, because the program died with it, counts for the worst, and
a number that leaves its range is recorded and refutes the trial for good.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.errors import Conflict, Halted, InvalidInput, OutOfOrder, OutsideModel, Stopped
from safe2real.evidence.assumptions import COUNTED, INDEPENDENT
from safe2real.evidence.baseline_margin import RETURNS_SHARE
from safe2real.evidence.mean_bounds import RunningLower
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.proposal import HALT_ADVICE
from safe2real.exploration.randomness import coin_of
from safe2real.methods.base import candidate_share
from safe2real.methods.trial import share_of_delta
from safe2real.model.archive import complete_file, locked_folder
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.environment_seeds import EnvironmentSeeds, entropy_of
from safe2real.model.serialization import bounded, check_keys, from_text, to_text
from safe2real.model.validation import (
    ROUNDING,
    check_function,
    check_reset,
    finite_number,
    positive_integer,
    probability_of_failure,
    seed_number,
    shown,
)
from safe2real.progress import Report, progress_bar
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """The terms of a `PolicyTrial`, checked once; give `threshold` (at least) or `limit` (at most), not both."""

    margin: float
    """By how much the baseline's mean is better than the threshold or limit on the real system: the assumption that pays."""
    high: float
    """No episode's constraint value is above this."""
    low: float = 0.0
    """No episode's constraint value is below this."""
    threshold: float | None = None
    """The mean of the constraint value of an episode is to be at least this."""
    limit: float | None = None
    """Or: the mean cost of an episode is to be at most this."""
    delta: float = 0.05
    """Probability that anything promised is false, over this trial and all that share delta."""
    rewards: Mapping[str, Range] = field(default_factory=dict)
    """Named rewards with the range that no episode's sum can leave."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Floors of rewards at which the trial is over."""
    number: int = 1
    """Which trial this is among those that share delta."""
    seed: int = 0
    """Of the coins; and, with the number, of the environment that `trial_run` runs in."""
    name: str = "constraint"
    """What the constraint value is called on certificates."""

    def __post_init__(self) -> None:
        low, high, margin = (finite_number(name, getattr(self, name)) for name in ("low", "high", "margin"))
        if low >= high:
            raise InvalidInput(f"low is {low:g} and high is {high:g}; give a range that no episode can leave, low < high")
        if (self.threshold is None) == (self.limit is None):
            raise InvalidInput("give either a threshold, which the mean is to reach, or the limit of a mean cost, not both")
        bound = finite_number("the limit" if self.is_cost else "the threshold", self._stated)
        room = bound - low if self.is_cost else high - bound
        if not low <= bound <= high or not 0.0 < margin <= room:
            raise InvalidInput(
                f"the {'limit' if self.is_cost else 'threshold'} is {bound:g} with the margin {margin:g}, in a range from "
                f"{low:g} to {high:g}; the margin must be positive, and the baseline's mean within the range"
            )
        probability_of_failure("delta", self.delta)
        positive_integer("number", self.number)
        seed_number("seed", self.seed)
        for name, ends in self.rewards.items():
            if not isinstance(ends, tuple | list) or len(ends) != 2 or not float(ends[0]) < float(ends[1]):
                raise InvalidInput(
                    f"rewards[{name!r}] is {shown(ends)}; give (low, high), a range that no episode can leave"
                )
        unknown = set(self.target) - set(self.rewards)
        if unknown:
            raise InvalidInput(f"target names {sorted(unknown)}; there are the rewards {sorted(self.rewards)}")
        object.__setattr__(self, "rewards", {name: (float(ends[0]), float(ends[1])) for name, ends in self.rewards.items()})
        object.__setattr__(self, "target", {name: finite_number("target", goal) for name, goal in self.target.items()})

    @property
    def is_cost(self) -> bool:
        return self.limit is not None

    @property
    def _stated(self) -> float:
        return self.limit if self.limit is not None else self.threshold  # type: ignore[return-value]

    @property
    def least(self) -> float:
        """The threshold as a utility from 0 to high - low, where more is better."""
        return self.utility(self._stated)

    def utility(self, value: float) -> float:
        """What a constraint value is worth, from 0 at the worst to high - low at the best."""
        return self.high - value if self.is_cost else value - self.low

    def value(self, utility: float) -> float:
        """The constraint value that a utility stands for, as the user counts it."""
        return self.high - utility if self.is_cost else self.low + utility

    def proved(self, utility: float) -> str:
        """Say which bound on the mean a lower bound on the utility is, rounded conservatively, and which one is asked."""
        found = round(self.value(utility), 9)
        if self.is_cost:
            return f"mean {self.name} <= {rounded_up(found)} (limit {self._stated:.6g})"
        return f"mean {self.name} >= {rounded_down(found)} (threshold {self._stated:.6g})"

    def assumptions(self) -> tuple[Assumption, ...]:
        """All that the certificates rest on."""
        word, bound = ("limit", "below") if self.is_cost else ("threshold", "above")
        margin = f"the baseline's mean {self.name} is at least {self.margin:g} {bound} the {word} on the real system"
        of_rewards = (f"{low:g} to {high:g} ({name})" for name, (low, high) in self.rewards.items())
        ranges = ", ".join((f"{self.low:g} to {self.high:g} ({self.name})", *of_rewards))
        sure = f"an event of probability at least {1.0 - self.delta:g} holds"
        return (
            Assumption(AssumptionCode.MARGIN, margin, self.name),
            Assumption(AssumptionCode.RANGE, f"no episode leaves the ranges {ranges}", self.name),
            INDEPENDENT,
            COUNTED,
            Assumption(
                AssumptionCode.EVENT, f"{sure}, over this trial (number {self.number}) and all others that share delta"
            ),
        )

    def to_json(self) -> dict[str, Any]:
        rewards = {name: list(ends) for name, ends in self.rewards.items()}
        return {**asdict(self), "rewards": rewards, "target": dict(self.target)}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class TrialCertificate(Certificate):
    """The statement about one deployed mixture of candidate and baseline, in the words in which it was asked for.

    With probability at least 1 - delta over the whole trial, the mean of every deployed mixture keeps the limit. It is in
    expectation, over the coin too: once the coin shows the candidate, only its own floor is promised.
    """

    terms: TrialTerms = field(kw_only=True)

    def statement(self) -> str:
        return self.terms.proved(float(self.lower_bounds[0]))


CANDIDATE, BASELINE = "candidate", "baseline"
_KIND = "safe2real policy trial 1"


@dataclass(frozen=True, eq=False, slots=True)
class Turn:
    """Whose turn it is, and why it may be."""

    number: int  # 1, 2, 3, ...
    policy: str  # "candidate" or "baseline": run this one for one episode
    share: float  # of the candidate in what the certificate speaks of
    certificate: TrialCertificate
    floors: Mapping[str, float]  # of the candidate alone; see `PolicyTrial.floors`


class PolicyTrial:
    """One candidate against one baseline, by numbers alone.

    Guarantee: if the baseline has its margin, no value leaves its stated range, and episodes of one policy are independent
    and alike, then with probability at least 1 - delta the mean of every deployed mixture keeps the threshold or limit, and
    every floor is at most the candidate's mean, at all times. Reference: docs/trials.md.

    Example:
        >>> trial = s2r.PolicyTrial(limit=25.0, high=200.0, margin=5.0, rewards={"return": (-1600.0, 0.0)}, name="cost")
        >>> turn = trial.ask()  # run turn.policy for one episode, then
        >>> trial.tell(18.0, {"return": -240.0})
        >>> print(trial.ask().certificate.describe())
    """

    def __init__(
        self,
        *,
        margin: float,
        high: float,
        low: float = 0.0,
        threshold: float | None = None,
        limit: float | None = None,
        delta: float = 0.05,
        rewards: Mapping[str, Range] | None = None,
        target: Mapping[str, float] | None = None,
        number: int = 1,
        seed: int | None = None,
        name: str = "constraint",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Nothing is known yet; see `TrialTerms` for what each number means. A seed that is not given is drawn and recorded.

        With a `path` every turn is kept there before it is handed out, and again when it was told; a trial that is there
        already is never overwritten: `PolicyTrial.load` comes back to it.

        Raises:
            InvalidInput: the numbers cannot be what they say.
            Conflict: there is a file at `path`.
        """
        ranges, goals = _ranges(rewards), _by_name("target", target)
        own = entropy_of(seed)
        terms = TrialTerms(margin, high, low, threshold, limit, delta, ranges, goals, number, own, name)
        _check_names_and_targets(terms)
        self._begin(terms)
        self._path = None if path is None else Path(path)
        with self._kept():
            pass

    def _begin(self, terms: TrialTerms) -> None:
        self.terms, self._path = terms, None
        self._written: str | None = None  # digest of what this process last read or wrote at `_path`
        self._turn: Turn | None = None  # the one that is out
        alpha, width = share_of_delta(terms.delta, terms.number, 1 + len(terms.rewards)), terms.high - terms.low
        self._bound = RunningLower(alpha, high=width)
        self._rewards = {name: RunningLower(alpha, low=ends[0], high=ends[1]) for name, ends in terms.rewards.items()}
        # By how much the baseline misses the best: a lower bound on that mean refutes a margin.
        self._missed = RunningLower(RETURNS_SHARE * terms.delta, high=width)
        self._told: list[list[Any]] = []  # [policy, constraint value, {reward: sum}], or [policy, None, {}] where lost
        self._left: list[tuple[str, str]] = []  # (what left its range, how)

    # Asking

    def ask(self) -> Turn:
        """Who runs the next episode; the same until it is told.

        Raises:
            Halted: what the baseline did refutes its margin: stop the machine.
            Stopped: every floor with a target has reached it.
            Conflict: another process has written the trial's file since.
        """
        if self._turn is None:
            if self.halted:
                raise Halted(HALT_ADVICE)
            if self.stopped:
                raise Stopped(f"every floor of a reward has reached its target. {self._proved_alone()}")
            number, share = len(self._told) + 1, self.share
            policy = CANDIDATE if coin_of(self.terms.seed, number) < share else BASELINE
            turn = Turn(number, policy, share, self.certificate(), self.floors)
            with self._kept():
                self._turn = turn
        return self._turn

    def tell(self, value: float | None, rewards: Mapping[str, float] | None = None) -> None:
        """What came of the episode that was asked for: the constraint value, or cost, and the sum of every named reward.

        `None` says that nobody knows: the episode was cut short, or lost. It then counts for the worst that it can have
        been; an episode is never left out. What is no number, or missing, is refused and changes nothing. A number outside
        its range is what happened: it is recorded, nothing is certified from then on, and the baseline alone is handed out.

        Raises:
            OutOfOrder: nothing was asked for.
            InvalidInput: a number is missing, or is none.
            OutsideModel: a number is outside the range that no episode was to leave; it IS recorded, and that is final.
            Conflict: another process has written the trial's file since; nothing is counted, and nothing is overwritten.
        """
        if self._turn is None:
            raise OutOfOrder("no episode was asked for; ask first, run what is answered, then tell")
        already = len(self._left)
        with self._kept():
            self._take(self._turn.policy, value, rewards)
            self._turn = None
        if len(self._left) > already:
            raise OutsideModel(
                f"{'; '.join(text for _, text in self._left[already:])}. It is recorded, and refutes for good what "
                "everything rests on: nothing is certified any more, and the baseline alone is handed out. Begin a new "
                "trial with a range that no episode can leave"
            )

    def _take(self, policy: str, value: float | None, rewards: Mapping[str, float] | None) -> None:
        """Count one episode; what is outside its range counts as its nearer end, and is noted."""
        terms = self.terms
        sums = _by_name("rewards", rewards)
        if value is not None:
            if sums.keys() != terms.rewards.keys():
                raise InvalidInput(f"the rewards {sorted(sums)} were told; give the sums of {sorted(terms.rewards)}")
            value = finite_number(f"the {terms.name} of an episode", value)
            sums = {name: finite_number(f"the {name} of an episode", one) for name, one in sums.items()}
            self._left += _outside(terms.name, value, (terms.low, terms.high))
            for name, one in sums.items():
                self._left += _outside(name, one, terms.rewards[name])
        kept, width = None if value is None else min(max(value, terms.low), terms.high), terms.high - terms.low
        if policy == CANDIDATE:
            self._bound.add(0.0 if kept is None else terms.utility(kept))
            for name, bound in self._rewards.items():
                bound.add(bound.low if kept is None else min(max(sums[name], bound.low), bound.high))
        else:  # lost, it was perfect for all that is known: it refutes nothing
            self._missed.add(0.0 if kept is None else width - terms.utility(kept))
        self._told.append([policy, value, {} if value is None else sums])

    # Looking

    @property
    def share(self) -> float:
        """alpha: how much of the candidate the baseline's margin pays for; nothing once a range is refuted."""
        if self.refuted:
            return 0.0
        lower, least, margin = (np.array([one]) for one in (self._bound.bound, self.terms.least, self.terms.margin))
        return candidate_share(lower, least, margin)

    @property
    def floors(self) -> dict[str, float]:
        """What the candidate alone is worth at least: every reward, and the constraint; of a cost, what it is at most.

        Infinite, which says nothing, once a range is refuted.
        """
        if self.refuted:
            own = np.inf if self.terms.is_cost else -np.inf
            return {self.terms.name: own} | dict.fromkeys(self._rewards, -np.inf)
        own = self.terms.value(self._bound.bound)
        return {self.terms.name: own} | {name: one.bound for name, one in self._rewards.items()}

    @property
    def episodes(self) -> dict[str, int]:
        """Told so far, by policy."""
        return {CANDIDATE: self._bound.count, BASELINE: self._missed.count}

    @property
    def refuted(self) -> bool:
        """Whether a number has left the range that none was to leave: final."""
        return bool(self._left)

    @property
    def halted(self) -> bool:
        """Whether what the baseline did refutes its margin: final."""
        trusted = self.terms.least + self.terms.margin
        return self._missed.bound > self.terms.high - self.terms.low - trusted + ROUNDING

    @property
    def stopped(self) -> bool:
        """Whether every floor with a target has reached it; never without one."""
        goals = self.terms.target
        return bool(goals) and not self.refuted and all(self._rewards[name].bound >= goal for name, goal in goals.items())

    def _proved_alone(self) -> str:
        """What is certified of the constraint if the candidate runs alone."""
        said = self.terms.proved(self._bound.bound)
        if self._bound.bound >= self.terms.least:
            return f"The candidate alone is certified: {said}"
        what = "limit" if self.terms.is_cost else "threshold"
        return (
            f"The candidate ALONE IS NOT CERTIFIED to keep the {what}: only {said} is proved. Certified is a mixture with "
            f"a share of {self.share:.3g} of it. To prove more, start trial {self.terms.number + 1} with a higher target"
        )

    def certificate(self) -> TrialCertificate:
        """Of what would be deployed now."""
        terms, share = self.terms, self.share
        doubts = [Doubt(DoubtCode.LEFT_MODEL, text, name) for name, text in self._left]
        if self.halted:
            text = f"the data refute the baseline's margin for {terms.name}: stop the machine"
            doubts.append(Doubt(DoubtCode.MARGIN_REFUTED, text, terms.name))
        return TrialCertificate(
            lower_bounds=np.array([share * self._bound.bound + (1.0 - share) * (terms.least + terms.margin)]),
            thresholds=np.array([terms.least]),
            assumptions=terms.assumptions(),
            doubts=tuple(doubts),
            terms=terms,
        )

    def __repr__(self) -> str:
        done, what = self.episodes, ", refuted" if self.refuted or self.halted else ""
        counts = f"{done[CANDIDATE]} of the candidate, {done[BASELINE]} of the baseline"
        return f"PolicyTrial({counts}, share {self.share:.3g}, seed {self.terms.seed}{what})"

    def seeds(self) -> EnvironmentSeeds:
        """Return the environment seeds of the episodes to come: another stream for every seed and number."""
        terms = self.terms
        found = EnvironmentSeeds(terms.seed, *((b"trial %d" % terms.number,) if terms.number > 1 else ()))
        for number in range(1, len(self._told) + 1):
            found.of_round(number)
        return found

    # Keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """One JSON document, complete or not there at all."""
        if self._path is not None and Path(path).absolute() == self._path.absolute():
            with self._kept():
                return
        self._write(Path(path))

    def _write(self, path: Path) -> str:
        """Write the document; returns its digest."""
        out = self._turn is not None
        text = to_text({"kind": _KIND, "terms": self.terms.to_json(), "told": self._told, "out": out})
        with complete_file(path) as file:
            file.write(text)
        return _digest(text.encode())

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """What is changed within is written, if nobody else has written the file since; else it is refused beforehand."""
        if self._path is None:
            yield
            return
        with locked_folder(self._path.parent):
            found = _digest(self._path.read_bytes()) if self._path.exists() else None
            if found != self._written:
                raise Conflict(self._overtaken(found))
            yield
            self._written = self._write(self._path)

    def _overtaken(self, found: str | None) -> str:
        if self._written is None:
            return f"{self._path} is there already; come back to it with PolicyTrial.load, or choose another place"
        if found is None:
            return (
                f"{self._path} was removed since this trial was kept there; put it back, or save the trial at another place "
                "and go on with PolicyTrial.load from there"
            )
        return (
            f"{self._path} was written by another process since this one wrote or read it, so nothing is counted here and "
            "nothing is overwritten there. A trial is run by one process at a time: end the other one, then come back with "
            "PolicyTrial.load; an episode that was out here counts there for the worst"
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, keep: bool = True) -> PolicyTrial:
        """The trial that is kept at `path`, which goes on being kept there unless told otherwise.

        Everything is computed again from what was told. A turn that was out when it was saved, and can be told no more,
        counts for the worst.

        Raises:
            InvalidInput: the file cannot be read, or is none of a trial.
            Conflict: another process writes it at the same time.
        """
        try:
            with Path(path).open("rb") as file:
                text = bounded(file, str(path))
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error.strerror}); give the file of a policy trial") from error
        document = check_keys(from_text(text, str(path)), str(path), required=("kind", "terms", "told", "out"))
        if document["kind"] != _KIND or not isinstance(document["terms"], dict) or not isinstance(document["told"], list):
            raise InvalidInput(f"{path} is of the kind {shown(document['kind'])}; give the file of a policy trial")
        trial = cls.__new__(cls)
        try:
            trial._begin(TrialTerms(**document["terms"]))
            for number, entry in enumerate(document["told"]):
                if not isinstance(entry, list) or len(entry) != 3:
                    raise InvalidInput(f"{path}: told[{number}] is {shown(entry)}; it is to be [policy, value, rewards]")
                trial._replay(*entry)
            if document["out"]:
                trial.ask()
                trial.tell(None)
        except (TypeError, AttributeError) as error:
            raise InvalidInput(f"{path} does not hold a policy trial as it was written ({error}); take a copy") from error
        if keep:
            trial._path, trial._written = Path(path), _digest(text)
            with trial._kept():
                pass
        return trial

    def _replay(self, policy: Any, value: Any, rewards: Any) -> None:
        if policy != self.ask().policy:
            raise InvalidInput(f"episode {len(self._told) + 1} is of the {shown(policy)}, which the coin does not show")
        self._take(policy, value, rewards)  # what left its range did so when it was told, and was said then
        self._turn = None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _outside(name: str, number: float, ends: Range) -> list[tuple[str, str]]:
    """[(name, text)] of a number that is outside its range, else nothing."""
    low, high = ends
    room = ROUNDING * max(1.0, high - low)
    if low - room <= number <= high + room:
        return []
    return [(name, f"the {name} of an episode is {number:g}, outside its range from {low:g} to {high:g}")]


def _by_name(what: str, given: Any) -> dict[str, Any]:
    """A mapping from names, or nothing."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise InvalidInput(f"{what} is {shown(given)}; give values by name, like {{'return': ...}}")
    return dict(given)


def _ranges(rewards: Any) -> dict[str, Range]:
    """Two finite numbers for every reward; which is to be the smaller one is for the terms to say."""
    found = {}
    for name, ends in _by_name("rewards", rewards).items():
        if not isinstance(ends, tuple | list) or len(ends) != 2:
            raise InvalidInput(f"rewards[{name!r}] is {shown(ends)}; give (low, high), a range that no episode can leave")
        low, high = (finite_number(f"rewards[{name!r}][{place}]", end) for place, end in enumerate(ends))
        found[name] = (low, high)
    return found


def _check_names_and_targets(terms: TrialTerms) -> None:
    """Refuse names that stand for two things, and targets that no candidate can reach or that all have reached.

    Only of new terms: what was agreed earlier is kept as it is.
    """
    if not isinstance(terms.name, str) or not terms.name:
        raise InvalidInput(f"name is {shown(terms.name)}; give a text, what the constraint value is called")
    if terms.name in terms.rewards:
        raise InvalidInput(f"a reward and the constraint are both called {terms.name!r}; give the reward another name")
    for name, goal in terms.target.items():
        low, high = terms.rewards[name]
        if not low <= goal < high:
            raise InvalidInput(
                f"target[{name!r}] is {goal:g}, and the range is from {low:g} to {high:g}; no floor stops there, give a "
                "number within the range, below its upper end"
            )


Act = Callable[[Any], Any]  # observation -> action
Cost = Callable[[Any, Any, dict[str, Any]], float]  # (observation, action, info) -> what the step costs, or is worth
RETURN = "return"


def trial_run(
    env: Any,
    candidate: Act,
    baseline: Act,
    trial: PolicyTrial,
    *,
    episodes: int,
    cost: Cost | None = None,
    progress: Report | bool | None = None,
) -> list[Turn]:
    """Ask, run the one whose turn it is, tell; until the trial stops, or for `episodes` episodes.

    The constraint value of an episode is the sum of info["cost"] over its steps, or of `cost`. A reward of the trial that is
    called "return" is the sum of the environment's rewards; any other is the sum of info[its name]. Whatever the environment
    or a policy raises, an interrupt too, the episode counts for the worst and the exception is raised again. What can be
    seen to be wired wrongly without a step of the environment is refused before an episode is asked for.

    Args:
        env: a Gymnasium environment, the real one; it is reset with a function of the trial's seed and number and of the
            episode, never twice with the same.
        candidate: observation -> action.
        baseline: observation -> action, the one whose margin is known.
        trial: it is changed, by every episode.
        episodes: at most.
        cost: (observation before the step, action, info) -> number, for environments that report none.
        progress: shows a bar with the time left: True always, False never, None on a terminal; or a function that is told
            (episodes done, in all).

    Returns:
        The turns in order, each with its certificate.

    Raises:
        InvalidInput: an argument is not what it should be, or the environment reports no cost.
        OutsideModel: an episode left a range that was stated; it is recorded, and nothing is certified any more.
        Halted: the data refute the baseline's margin: stop the machine. `trial` has all that happened.
        Exception: whatever the environment or a policy raised.

    Example:
        >>> trial_run(env, lambda seen: model.predict(seen)[0], damping, trial, episodes=1_000)
    """
    _check_wiring(env, trial, cost)
    for name, act in (("candidate", candidate), ("baseline", baseline)):
        check_function(name, act, "observation")
    if callable(progress):
        check_function("progress", progress, "done, total")
    episodes, turns = positive_integer("episodes", episodes), list[Turn]()
    seeds = trial.seeds()
    with progress_bar("episodes", progress) as report:
        for done in range(episodes):
            try:
                turn = trial.ask()
            except Stopped:
                break
            turns.append(turn)
            act = candidate if turn.policy == CANDIDATE else baseline
            try:
                value, sums = _episode(env, act, trial, seeds.of_round(turn.number), cost)
            except BaseException:
                trial.tell(None)
                raise
            try:
                trial.tell(value, sums)
            except OutsideModel:  # it is recorded
                raise
            except InvalidInput:  # a sum that is no finite number; it was run, so it is not to be run anew
                trial.tell(None)
                raise
            if report is not None:
                report(done + 1, episodes)
    return turns


def _check_wiring(env: Any, trial: Any, cost: Any) -> None:
    """Refuse what could not run; the environment is not touched, since what it does is an episode."""
    if not (callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))):
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
    check_reset(env)
    check_function("env.step", env.step, "action")
    if not isinstance(trial, PolicyTrial):
        raise InvalidInput(f"trial is {shown(trial)}; give a PolicyTrial")
    if cost is not None:
        check_function("cost", cost, "observation, action, info")


def _episode(env: Any, act: Act, trial: PolicyTrial, seed: int, cost: Cost | None) -> tuple[float, dict[str, float]]:
    """(constraint value, sums of the rewards) of one episode."""
    total, sums = 0.0, dict.fromkeys(trial.terms.rewards, 0.0)
    seen, _ = env.reset(seed=seed)
    over = False
    while not over:
        action = act(seen)
        after, reward, terminated, truncated, info = env.step(action)
        total += finite_number("the cost of a step", _read(info, "cost") if cost is None else cost(seen, action, info))
        for name in sums:
            sums[name] += finite_number(name, reward if name == RETURN else _read(info, name))
        seen, over = after, terminated or truncated
    return total, sums


def _read(info: Any, name: str) -> Any:
    if not isinstance(info, dict) or name not in info:
        cure = "; give cost=function(observation, action, info)" if name == "cost" else f"; is it called {RETURN!r}?"
        raise InvalidInput(f"the environment's info has no {name!r}{cure}")
    return info[name]
