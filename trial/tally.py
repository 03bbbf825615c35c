"""What all runs together say: counts of failed runs, and the interval in which the probability of a failure lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scipy.special import betaincinv

from trial.outcome import Outcome
from trial.parts import Part
from trial.statements import Kind

CONFIDENCE = 0.95


def interval(failed: int, runs: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The two-sided interval of Clopper and Pearson for a probability of which `failed` of `runs` were seen."""
    tail = 0.5 * (1.0 - confidence)
    low = float(betaincinv(failed, runs - failed + 1, tail)) if failed > 0 else 0.0
    high = float(betaincinv(failed + 1, runs - failed, 1.0 - tail)) if failed < runs else 1.0
    return low, high


@dataclass(slots=True)
class Tally:
    """The runs of one part, delta, family and radius, or of several of them."""

    runs: int = 0
    allowed: float = 0.0  # failed runs that the promises allow, in expectation
    failed: int = 0  # runs of which any statement was false
    alarms: int = 0  # of them, those in which nothing was false but that a margin was called refuted
    kinds: Counter[str] = field(default_factory=Counter)  # of runs, by Kind; a run can count under several
    deployments: int = 0
    unsafe: int = 0  # deployments that missed a threshold
    exploring: int = 0  # deployments of which the baseline was only a part
    mixtures: int = 0  # different ones among those
    plans: int = 0
    stopped: int = 0
    halted: int = 0

    def add(self, outcome: Outcome) -> None:
        """One more run."""
        self.runs += 1
        self.allowed += outcome.allowed
        self.failed += bool(outcome.failures)
        self.alarms += outcome.failures == (Kind.HALTED,)
        self.kinds.update(map(str, outcome.failures))
        self.deployments += outcome.deployments
        self.unsafe += outcome.unsafe
        self.exploring += outcome.exploring
        self.mixtures += outcome.mixtures
        self.plans += outcome.plans
        self.stopped += outcome.stopped
        self.halted += outcome.halted

    @property
    def interval(self) -> tuple[float, float]:
        return interval(self.failed, self.runs)

    @staticmethod
    def sum(parts: Iterable[Tally]) -> Tally:
        """All runs of several."""
        total = Tally()
        for part in parts:
            total.kinds.update(part.kinds)
            for name in _NUMBERS:
                setattr(total, name, getattr(total, name) + getattr(part, name))
        return total

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; kinds in the order of Kind."""
        kinds = {str(kind): self.kinds[kind] for kind in Kind if self.kinds[kind]}
        return {**{name: getattr(self, name) for name in _NUMBERS}, "kinds": kinds}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Tally:
        """What `to_json` wrote."""
        return cls(kinds=Counter(document["kinds"]), **{name: document[name] for name in _NUMBERS})


_NUMBERS = (
    "runs", "allowed", "failed", "alarms", "deployments", "unsafe", "exploring", "mixtures", "plans", "stopped", "halted",
)  # fmt: skip
Group = tuple[str, float, str, str]  # part, delta, family, radius


class Tallies:
    """A tally for every part, delta, family and radius."""

    def __init__(self) -> None:
        self.groups: dict[Group, Tally] = {}

    def add(self, outcome: Outcome) -> None:
        """One more run."""
        group = (str(outcome.part), outcome.delta, outcome.family, outcome.radius)
        self.groups.setdefault(group, Tally()).add(outcome)

    @property
    def parts(self) -> tuple[tuple[Part, float], ...]:
        """(part, delta) of all runs, in the order of Part."""
        found = {group[:2] for group in self.groups}
        return tuple((part, delta) for part in Part for name, delta in sorted(found) if name == part)

    def of(self, part: Part, delta: float) -> Tally:
        """All runs of one part with one delta."""
        return Tally.sum(tally for group, tally in self.groups.items() if group[:2] == (part, delta))

    @property
    def total(self) -> Tally:
        return Tally.sum(self.groups.values())

    def hardest(self, part: Part, delta: float) -> tuple[str, str, Tally]:
        """(family, radius, tally) of the group that fails most, to be sure: by the lower end of its interval."""
        groups = [
            (family, radius, tally)
            for (own, level, family, radius), tally in sorted(self.groups.items())
            if (own, level) == (part, delta)
        ]
        return max(groups, key=lambda group: (group[2].interval[0], group[2].runs))

    def to_json(self) -> list[dict[str, Any]]:
        """One entry per group."""
        names = ("part", "delta", "family", "radius")
        return [{**dict(zip(names, group, strict=True)), **tally.to_json()} for group, tally in sorted(self.groups.items())]

    @classmethod
    def from_json(cls, document: list[dict[str, Any]]) -> Tallies:
        """What `to_json` wrote."""
        result = cls()
        for entry in document:
            group = entry["part"], entry["delta"], entry["family"], entry["radius"]
            result.groups[group] = Tally.from_json(entry)
        return result
