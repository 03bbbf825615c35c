"""What is agreed before a policy without a table is tried: the constraint, its range, the margin, the rewards, delta."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.evidence.assumptions import COUNTED, INDEPENDENT
from safe2real.exploration.certificate import Certificate
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.validation import finite_number, positive_integer, probability_of_failure, seed_number, shown
from safe2real.standing import Assumption, AssumptionCode

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
