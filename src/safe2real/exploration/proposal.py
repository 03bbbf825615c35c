"""What is deployed in one round, and why."""

from __future__ import annotations

from dataclasses import dataclass

from safe2real.errors import Halted, Stopped
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.randomness import drawn
from safe2real.methods.base import Reason
from safe2real.model.policy import MarkovPolicy, Mixture

HALT_ADVICE = (
    "the data refute the margin of the baseline, so nothing is handed out any more, the baseline included: stop the "
    "machine. To go on, state a margin that is there (estimate_margin) in a new run, and count these episodes in it"
)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Proposal:
    """One round's answer. After the stop nothing is deployed: `mixture` and `certificate` are None (a plan has its own).

    After a halt nothing is deployed either; the certificate is there, and says what is refuted.
    """

    round: int
    reason: Reason
    mixture: Mixture | None
    exploration_weight: float  # alpha: share of the candidate
    uncertainty: float  # Delta; inf in rounds that deploy the baseline alone, which do not plan
    certificate: Certificate | None
    coin: float  # uniform in [0, 1), a function of (seed, round)

    def __repr__(self) -> str:
        share = f", {self.exploration_weight:.3g} of it the candidate" if self.reason is Reason.MIXTURE else ""
        said = "" if self.certificate is None else f"\n  {self.certificate}"
        return f"Proposal(round {self.round}, {self.reason.name.lower()}{share}){said}"

    @property
    def is_last(self) -> bool:
        """Whether nothing is deployed any more: the stop, or a halt."""
        return self.mixture is None

    @property
    def drawn(self) -> int:
        """Which policy of the mixture to run this episode: fixed by (seed, round), so asking twice gives the same one."""
        if self.reason is Reason.HALT:
            raise Halted(HALT_ADVICE)
        if self.mixture is None:
            raise Stopped("the run has stopped: there is nothing left to deploy; call plan(reward)")
        return drawn(self.mixture.weights, self.coin)

    def draw(self) -> MarkovPolicy:
        """The policy to run this episode."""
        index = self.drawn  # raises after the stop
        return self.mixture.policies[index]  # type: ignore[union-attr]
