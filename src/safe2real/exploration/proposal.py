"""The proposal of one round, and the coin that selects a policy of its mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from safe2real._compiled import rollout
from safe2real.errors import Halted, Stopped
from safe2real.exploration.certificate import Certificate
from safe2real.methods.base import Interval, Reason
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats
from safe2real.standing import Standing

HALT_ADVICE = (
    "the data refute the margin of the baseline, so nothing is handed out any more, the baseline included: stop the "
    "machine. To go on, state a margin that is there (estimate_margin) in a new run, and count these episodes in it"
)


def coin_of(seed: int, round_number: int) -> float:
    """Return the coin of a round, uniform in [0, 1)."""
    return rollout.draw(int(seed), round_number, 0)  # 1 is the beginning of the episode, 2 + 2h and 3 + 2h are of step h


def drawn(weights: Floats, coin: float) -> int:
    """Return the component of a mixture that a coin selects; never one of weight 0."""
    return int(rollout.pick(weights, coin))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Proposal:
    """The proposal of one round. After the stop `mixture` and `certificate` are None (a plan has its own).

    After a halt `mixture` is None too; the certificate names the refuted assumption.
    """

    round: int
    reason: Reason
    mixture: Mixture | None
    exploration_weight: float  # alpha: share of the candidate
    uncertainty: float  # Delta; inf in rounds that deploy the baseline alone, which do not plan
    certificate: Certificate | None
    coin: float  # uniform in [0, 1), a function of (seed, round)
    intervals: tuple[Interval, ...] = ()  # of declared rewards, when it was decided
    stops_at: float = math.nan  # uncertainty at which the method stops; nan where it is not known
    _shown: int | None = field(default=None, init=False)  # cache of `drawn`

    def __repr__(self) -> str:
        share = f", {self.exploration_weight:.3g} of it the candidate" if self.reason is Reason.MIXTURE else ""
        said = "" if self.certificate is None else f"\n  {self.certificate}"
        return f"Proposal(round {self.round}, {self.reason.name.lower()}{share}{self._because}){said}"

    @property
    def _because(self) -> str:
        """A clause that says how far the run is from its goal; empty where that is not known."""
        if self.intervals:
            worst = max(self.intervals, key=lambda one: one.gap)
            more = f", the farthest of {len(self.intervals)} rewards" if len(self.intervals) > 1 else ""
            width, asked = rounded_up(worst.upper - worst.lower), rounded_down(worst.allowed)
            return f": {worst.name!r} within {width} of the best (asked {asked}){more}"
        if math.isfinite(self.uncertainty) and math.isfinite(self.stops_at):
            return f": uncertainty {rounded_up(self.uncertainty)} (stops at {rounded_down(self.stops_at)})"
        if self.reason is Reason.BASELINE and self.certificate is not None:
            return (
                ": the data refute an assumption"
                if self.certificate.standing is Standing.REFUTED
                else ": the data certify no candidate"
            )
        return ""

    @property
    def is_last(self) -> bool:
        """Whether nothing is deployed any more: the stop, or a halt."""
        return self.mixture is None

    @property
    def drawn(self) -> int:
        """Index of the policy to run this episode, a function of (seed, round)."""
        if self.reason is Reason.HALT:
            raise Halted(HALT_ADVICE)
        if self.mixture is None:
            raise Stopped("the run has stopped: there is nothing left to deploy; call plan(reward)")
        if self._shown is None:
            object.__setattr__(self, "_shown", drawn(self.mixture.weights, self.coin))
        return self._shown  # type: ignore[return-value]

    def draw(self) -> MarkovPolicy:
        """Return the policy to run this episode.

        Returns:
            The policy that the round's coin selects from the mixture.

        Raises:
            Stopped: the run has stopped.
            Halted: the data refute the baseline's margin.
        """
        index = self.drawn
        return self.mixture.policies[index]  # type: ignore[union-attr]
