"""Try a policy that has no table, safely, by the returns of its own episodes: deep RL, a program, a person.

Problem: a candidate that looks good in simulation, a baseline whose margin is known, and episodes whose sums can be read.
Algorithm: that of `methods.Trial`, with nothing but numbers: an anytime lower bound on the candidate's value from its
own episodes, and a coin that shows the candidate as often as the baseline's margin pays for. The proof is in docs/trials.md;
it needs no state, no model and no Markov property.

A trial is a function of its terms and of its results, in order. It is stored as one JSON document, written before each
episode and again after its result. An episode without a result, because the program died, counts as the worst case. A
number outside its range is recorded and refutes the trial for good.
"""

from __future__ import annotations

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
from safe2real.exploration.proposal import HALT_ADVICE, coin_of
from safe2real.methods.base import candidate_share
from safe2real.methods.trial import share_of_delta
from safe2real.model.archive import complete_file, locked_folder
from safe2real.model.constraint_text import Wording
from safe2real.model.environment_seeds import EnvironmentSeeds, entropy_of
from safe2real.model.serialization import bounded, check_keys, from_text, to_text
from safe2real.model.validation import (
    ROUNDING,
    Declared,
    by_name,
    check_function,
    check_reset,
    checked_name,
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
    """The terms of a `PolicyTrial`; give `threshold` (at least) or `limit` (at most), not both.

    Raises:
        InvalidInput: the numbers contradict each other, or a name stands for two things.

    Example:
        >>> TrialTerms(limit=25.0, margin=5.0, high=200.0, rewards={"return": (-1600.0, 0.0)}, name="cost")
    """

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
    seed: int = field(default_factory=lambda: entropy_of(None))
    """Of the coins; and, with the number, of the environment that `trial_run` runs in. Drawn where it is not given."""
    name: str = "constraint"
    """Name of the constraint value on certificates."""

    def __post_init__(self) -> None:
        low, high, margin = (finite_number(name, getattr(self, name)) for name in ("low", "high", "margin"))
        if low >= high:
            raise InvalidInput(f"low is {low:g} and high is {high:g}; give a range that no episode can leave, low < high")
        if (self.threshold is None) == (self.limit is None):
            raise InvalidInput("give either a threshold, which the mean is to reach, or the limit of a mean cost, not both")
        bound = finite_number("the limit" if self.is_cost else "the threshold", self.stated)
        room = bound - low if self.is_cost else high - bound
        if not low <= bound <= high or not 0.0 < margin <= room:
            raise InvalidInput(
                f"the {'limit' if self.is_cost else 'threshold'} is {bound:g} with the margin {margin:g}, in a range from "
                f"{low:g} to {high:g}; the margin must be positive, and the baseline's mean within the range"
            )
        probability_of_failure("delta", self.delta)
        positive_integer("number", self.number)
        seed_number("seed", self.seed)
        checked_name("name", self.name)
        rewards = {name: _range(name, ends) for name, ends in by_name("rewards", self.rewards).items()}
        if self.name in rewards:
            raise InvalidInput(f"a reward and the constraint are both called {self.name!r}; give the reward another name")
        target = {name: finite_number("target", goal) for name, goal in by_name("target", self.target).items()}
        unknown = set(target) - set(rewards)
        if unknown:
            raise InvalidInput(f"target names {sorted(unknown)}; there are the rewards {sorted(rewards)}")
        for name, goal in target.items():
            least, most = rewards[name]
            if not least <= goal < most:
                raise InvalidInput(
                    f"target[{name!r}] is {goal:g}, and the range is from {least:g} to {most:g}; no floor stops there, give "
                    "a number within the range, below its upper end"
                )
        object.__setattr__(self, "rewards", Declared(rewards))
        object.__setattr__(self, "target", Declared(target))

    @property
    def is_cost(self) -> bool:
        """Whether the constraint is written as cost <= limit."""
        return self.limit is not None

    @property
    def stated(self) -> float:
        """The limit or the threshold."""
        return self.limit if self.limit is not None else self.threshold  # type: ignore[return-value]

    @property
    def words(self) -> Wording:
        """Its wording; `number` turns a constraint value into a utility, of which more is better, and back."""
        return Wording(self.name, self.high, self.is_cost)

    @property
    def least(self) -> float:
        """The threshold as a utility."""
        return self.words.number(self.stated)

    @property
    def ends(self) -> Range:
        """Range of the utility of an episode."""
        return (0.0, self.high - self.low) if self.is_cost else (self.low, self.high)

    def assumptions(self) -> tuple[Assumption, ...]:
        """Return everything that the trial's certificates assume.

        Returns:
            The assumptions.
        """
        margin = f"the baseline's {self.words.margin(self.margin)} on the real system"
        of_rewards = (f"{low:g} to {high:g} ({name})" for name, (low, high) in self.rewards.items())
        ranges = ", ".join((f"{self.low:g} to {self.high:g} ({self.name})", *of_rewards))
        event = (
            f"an event of probability at least {1.0 - self.delta:g} holds, over this trial (number {self.number}) and all "
            "others that share delta"
        )
        return (
            Assumption(AssumptionCode.MARGIN, margin, self.name),
            Assumption(AssumptionCode.RANGE, f"no episode leaves the ranges {ranges}", self.name),
            INDEPENDENT,
            COUNTED,
            Assumption(AssumptionCode.EVENT, event),
        )


CANDIDATE, BASELINE = "candidate", "baseline"
_KIND = "safe2real policy trial 1"


@dataclass(frozen=True, eq=False, slots=True)
class Turn:
    """The policy that runs the next episode, with the certificate that allows it."""

    number: int  # 1, 2, 3, ...
    policy: str  # "candidate" or "baseline": run this one for one episode
    share: float  # weight of the candidate in the mixture that the certificate is about
    certificate: Certificate  # of the mixture, in expectation over the coin too
    floors: Mapping[str, float]  # of the candidate alone; see `PolicyTrial.floors`


class PolicyTrial:
    """One candidate against one baseline, by numbers alone.

    Guarantee: if the baseline has its margin, no value leaves its stated range, and episodes of one policy are independent
    and alike, then with probability at least 1 - delta the mean of every deployed mixture keeps the threshold or limit, and
    every floor is at most the candidate's mean, at all times. Reference: docs/trials.md.

    Example:
        >>> terms = TrialTerms(limit=25.0, high=200.0, margin=5.0, rewards={"return": (-1600.0, 0.0)}, name="cost")
        >>> trial = s2r.PolicyTrial(terms)
        >>> turn = trial.ask()  # run turn.policy for one episode, then
        >>> trial.tell(18.0, {"return": -240.0})
        >>> print(trial.ask().certificate.describe())
    """

    def __init__(self, terms: TrialTerms, *, path: str | os.PathLike[str] | None = None) -> None:
        """Begin a trial without episodes.

        Args:
            terms: requirements and assumptions.
            path: a file in which every turn is kept before it is handed out, and again when it was told; nowhere if None. A
                trial that is there already is never overwritten: `PolicyTrial.load` comes back to it.

        Raises:
            InvalidInput: `terms` is not a `TrialTerms`.
            Conflict: there is a file at `path`.
        """
        if not isinstance(terms, TrialTerms):
            raise InvalidInput(f"terms is {shown(terms)}; give TrialTerms(margin=..., high=..., limit=...)")
        self.terms = terms
        alpha = share_of_delta(terms.delta, terms.number, 1 + len(terms.rewards))
        ends = {terms.name: terms.ends, **terms.rewards}
        self._bounds = {name: RunningLower(alpha, low=low, high=high) for name, (low, high) in ends.items()}
        # By how much the baseline misses the best: a lower bound on that mean refutes a margin.
        self._missed = RunningLower(RETURNS_SHARE * terms.delta, high=terms.high - terms.low)
        self._told: list[list[Any]] = []  # [policy, constraint value, {reward: sum}], or [policy, None, {}] where lost
        self._left: list[tuple[str, str]] = []  # (name of the value that left its range, how)
        self._turn: Turn | None = None  # the one that is out
        self.file: _TrialFile | None = None  # where it is kept
        if path is not None:
            self.file = _TrialFile(Path(path))
            with self._kept():
                pass

    # Asking

    def ask(self) -> Turn:
        """Return which policy runs the next episode; the same turn until it is told.

        Returns:
            The turn, with the certificate of the mixture.

        Raises:
            Halted: the baseline's episodes refute its margin: stop the machine.
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
        """Record the result of the current turn's episode.

        Args:
            value: the constraint value, or cost. None says that it is unknown: the episode was cut short, or lost. It then
                counts as the worst case; no episode is left out.
            rewards: the sum of every named reward; nothing where `value` is None.

        Raises:
            OutOfOrder: nothing was asked for.
            InvalidInput: a number is missing, or not finite; nothing is changed.
            OutsideModel: a number is outside the range that no episode was to leave. It IS recorded, and that is final:
                nothing is certified from then on, and the baseline alone is handed out.
            Conflict: another process has written the trial's file since; nothing is counted, and nothing is overwritten.
        """
        if self._turn is None:
            raise OutOfOrder("no episode was asked for; ask first, run what is answered, then tell")
        already = len(self._left)
        with self._kept():
            self._take(self._turn.policy, value, rewards)
        if len(self._left) > already:
            raise OutsideModel(
                f"{'; '.join(text for _, text in self._left[already:])}. It is recorded, and refutes for good what "
                "everything rests on: nothing is certified any more, and the baseline alone is handed out. Begin a new "
                "trial with a range that no episode can leave"
            )

    def _take(self, policy: str, value: float | None, rewards: Mapping[str, float] | None) -> None:
        """Count one episode; a value outside its range counts as the nearer end, and is noted."""
        terms, sums = self.terms, by_name("rewards", rewards)
        if value is None:
            sums, worth = {}, None
        elif sums.keys() != terms.rewards.keys():
            raise InvalidInput(f"the rewards {sorted(sums)} were told; give the sums of {sorted(terms.rewards)}")
        else:
            value = finite_number(f"the {terms.name} of an episode", value)
            sums = {name: finite_number(f"the {name} of an episode", one) for name, one in sums.items()}
            self._left += _outside(terms.name, value, (terms.low, terms.high))
            for name, one in sums.items():
                self._left += _outside(name, one, terms.rewards[name])
            worth = {terms.name: terms.words.number(value), **sums}
        if policy == CANDIDATE:
            for name, bound in self._bounds.items():
                bound.add(bound.low if worth is None else min(max(worth[name], bound.low), bound.high))
        else:  # lost, it was perfect for all that is known: it refutes nothing
            missed = 0.0 if worth is None else terms.ends[1] - worth[terms.name]
            self._missed.add(min(max(missed, 0.0), self._missed.high))
        self._told.append([policy, value, sums])
        self._turn = None

    # Looking

    @property
    def share(self) -> float:
        """Share alpha of the candidate in the deployed mixture; 0 after a range violation."""
        lower, least, margin = (np.array([one]) for one in (self._proved, self.terms.least, self.terms.margin))
        return 0.0 if self.refuted else candidate_share(lower, least, margin)

    @property
    def _proved(self) -> float:
        """Lower bound on the utility of the candidate alone."""
        return self._bounds[self.terms.name].bound

    @property
    def floors(self) -> dict[str, float]:
        """Certified bounds for the candidate alone, by name: lower bounds, or an upper bound on a cost.

        Infinite, which says nothing, once a range is refuted.
        """
        found = {name: -np.inf if self.refuted else one.bound for name, one in self._bounds.items()}
        return found | {self.terms.name: self.terms.words.number(found[self.terms.name])}

    @property
    def episodes(self) -> dict[str, int]:
        """Number of episodes told so far, by policy."""
        return {CANDIDATE: self._bounds[self.terms.name].count, BASELINE: self._missed.count}

    @property
    def refuted(self) -> bool:
        """Whether a value has left its stated range: final."""
        return bool(self._left)

    @property
    def halted(self) -> bool:
        """Whether the baseline's episodes refute its margin: final."""
        return self._missed.bound > self.terms.ends[1] - self.terms.least - self.terms.margin + ROUNDING

    @property
    def stopped(self) -> bool:
        """Whether every floor with a target has reached it; never without one."""
        goals = self.terms.target
        return bool(goals) and not self.refuted and all(self._bounds[name].bound >= goal for name, goal in goals.items())

    def _proved_alone(self) -> str:
        """Say which bound is certified if the candidate runs alone."""
        words = self.terms.words
        said = f"{words.proved(self._proved)} ({words.bound(self.terms.least)})"
        if self._proved >= self.terms.least:
            return f"The candidate alone is certified: {said}"
        return (
            f"The candidate ALONE IS NOT CERTIFIED to keep the {words.bound_word}: only {said} is proved. Certified is a "
            f"mixture with a share of {self.share:.3g} of it. To prove more, start trial {self.terms.number + 1} with a "
            "higher target"
        )

    def certificate(self) -> Certificate:
        """Return the certificate of the mixture that would be deployed now.

        Returns:
            A lower bound [1] on the mean utility, with assumptions and doubts.
        """
        terms, share = self.terms, self.share
        doubts = [Doubt(DoubtCode.LEFT_MODEL, text, name) for name, text in self._left]
        if self.halted:
            text = f"the data refute the baseline's margin for {terms.name}: stop the machine"
            doubts.append(Doubt(DoubtCode.MARGIN_REFUTED, text, terms.name))
        return Certificate(
            lower_bounds=np.array([share * self._proved + (1.0 - share) * (terms.least + terms.margin)]),
            thresholds=np.array([terms.least]),
            assumptions=terms.assumptions(),
            doubts=tuple(doubts),
            wordings=(terms.words,),
        )

    def __repr__(self) -> str:
        done, what = self.episodes, ", refuted" if self.refuted or self.halted else ""
        counts = f"{done[CANDIDATE]} of the candidate, {done[BASELINE]} of the baseline"
        return f"PolicyTrial({counts}, share {self.share:.3g}, seed {self.terms.seed}{what})"

    def seeds(self) -> EnvironmentSeeds:
        """Return the environment seeds of the coming episodes: another stream for every seed and number.

        No learner of the same seed has this stream, so a policy may have been fitted to what a learner's episodes showed.

        Returns:
            The seeds, past those of the episodes told so far.
        """
        terms = self.terms
        found = EnvironmentSeeds(terms.seed, b"policy trial %d" % terms.number)
        for number in range(1, len(self._told) + 1):
            found.of_round(number)
        return found

    # Keeping

    def state(self) -> dict[str, Any]:
        """Return the terms and everything told, as JSON; the rest is recomputed from these.

        Returns:
            A document with "kind", "terms", "told" and "out".
        """
        return {"kind": _KIND, "terms": asdict(self.terms), "told": self._told, "out": self._turn is not None}

    def restore(self, told: list[Any], place: str = "told") -> None:
        """Take in episodes that were told to a trial of the same terms, on which nothing is counted yet.

        Args:
            told: `state()["told"]`, an entry [policy, value, rewards] for each episode.
            place: name of the list in messages.

        Raises:
            InvalidInput: an entry is not of this form, or is of the policy that the coin does not show.
        """
        for number, entry in enumerate(told, start=1):
            if not isinstance(entry, list) or len(entry) != 3:
                raise InvalidInput(f"{place}[{number - 1}] is {shown(entry)}; it is to be [policy, value, rewards]")
            if entry[0] != self.ask().policy:
                raise InvalidInput(f"{place}: episode {number} is of the {shown(entry[0])}, which the coin does not show")
            self._take(*entry)  # values outside their range were reported when they were told

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trial's `state` atomically, as one JSON document.

        Args:
            path: of the file; an older one is replaced.

        Raises:
            Conflict: `path` is the trial's own file, and another process has written it since.
            StorageFailure: the file cannot be written.
        """
        if self.file is not None and Path(path).absolute() == self.file.path.absolute():
            with self._kept():
                return
        _TrialFile(Path(path)).write(to_text(self.state()))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Write the trial at the end; refuse at the beginning if another process has written the file since."""
        if self.file is None:
            yield
            return
        with self.file.held():
            yield
            self.file.write(to_text(self.state()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, keep: bool = True) -> PolicyTrial:
        """Load the trial at `path`; everything is recomputed from the told results.

        A turn that was unreported when it was saved can no longer be told, and counts as the worst case.

        Args:
            path: of the file.
            keep: whether the trial goes on being kept there.

        Returns:
            The trial.

        Raises:
            InvalidInput: the file cannot be read, or is not that of a trial.
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
        try:
            trial = cls(TrialTerms(**document["terms"]))
            trial.restore(document["told"], f"{path}: told")
        except (TypeError, AttributeError) as error:
            raise InvalidInput(f"{path} does not hold a policy trial as it was written ({error}); take a copy") from error
        if document["out"]:
            trial.ask()
            trial.tell(None)
        if keep:
            trial.file = _TrialFile(Path(path), text)
            trial.save(path)
        return trial


class _TrialFile:
    """The file of a trial; changes by another process are never overwritten."""

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """`content` is the file as this process has read it; None if there must be no file."""
        self.path, self._known = path, content

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out, and refuse if one of them has written the file since."""
        with locked_folder(self.path.parent):
            found = self.path.read_bytes() if self.path.exists() else None
            if found == self._known:
                yield
                return
        if self._known is None:
            raise Conflict(f"{self.path} is there already; come back to it with PolicyTrial.load, or choose another place")
        what = "removed" if found is None else "written by another process"
        raise Conflict(
            f"{self.path} was {what} since this trial wrote or read it, so nothing is counted here and nothing is "
            "overwritten there. A trial is run by one process at a time: come back with PolicyTrial.load, where an episode "
            "that was out here counts for the worst; or save this trial at another place and load it from there"
        )

    def write(self, text: str) -> None:
        """Write the file atomically."""
        with complete_file(self.path) as file:
            file.write(text)
        self._known = text.encode()


def _outside(name: str, number: float, ends: Range) -> list[tuple[str, str]]:
    """Return [(name, text)] for a number outside its range, else nothing."""
    low, high = ends
    room = ROUNDING * max(1.0, high - low)
    if low - room <= number <= high + room:
        return []
    return [(name, f"the {name} of an episode is {number:g}, outside its range from {low:g} to {high:g}")]


def _range(name: str, ends: Any) -> Range:
    """Return two finite numbers, the smaller one first."""
    if isinstance(ends, tuple | list) and len(ends) == 2:
        low, high = (finite_number(f"rewards[{name!r}][{place}]", end) for place, end in enumerate(ends))
        if low < high:
            return low, high
    raise InvalidInput(f"rewards[{name!r}] is {shown(ends)}; give (low, high), a range that no episode can leave")


Act = Callable[[Any], Any]  # observation -> action
Cost = Callable[[Any, Any, dict[str, Any]], float]  # (observation, action, info) -> cost or reward of the step
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
    """Run a policy trial on an environment until it stops, or for `episodes` episodes.

    The constraint value of an episode is the sum of info["cost"] over its steps, or of `cost`. A reward of the trial that is
    called "return" is the sum of the environment's rewards; any other is the sum of info[its name]. If the
    environment or a policy raises, also on an interrupt, the episode counts as the worst case and the exception is raised
    again. Arguments that do not fit together are refused before the first episode, without a step of the environment.

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
        InvalidInput: an argument is invalid, or the environment reports no cost.
        OutsideModel: an episode left a range that was stated; it is recorded, and nothing is certified any more.
        Halted: the data refute the baseline's margin: stop the machine. `trial` has all that happened.
        Exception: whatever the environment or a policy raised.

    Example:
        >>> trial_run(env, lambda seen: model.predict(seen)[0], damping, trial, episodes=1_000)
    """
    if not (callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))):
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
    check_reset(env)
    if not isinstance(trial, PolicyTrial):
        raise InvalidInput(f"trial is {shown(trial)}; give a PolicyTrial")
    called = {
        "env.step": (env.step, "action"),
        "candidate": (candidate, "observation"),
        "baseline": (baseline, "observation"),
    }
    if cost is not None:
        called["cost"] = cost, "observation, action, info"
    if callable(progress):
        called["progress"] = progress, "done, total"
    for name, (function, given) in called.items():
        check_function(name, function, given)
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
            except InvalidInput as error:
                if not isinstance(error, OutsideModel):  # which is recorded; a sum that is no number was run, too
                    trial.tell(None)
                raise
            if report is not None:
                report(done + 1, episodes)
    return turns


def _episode(env: Any, act: Act, trial: PolicyTrial, seed: int, cost: Cost | None) -> tuple[float, dict[str, float]]:
    """Run one episode; return (constraint value, sums of the rewards)."""
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
