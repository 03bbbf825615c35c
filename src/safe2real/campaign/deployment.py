"""What a worker is handed, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass, replace

from safe2real.explore.certificate import Certificate
from safe2real.explore.learner import Reason
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.standing import Assumption, AssumptionCode

# What the guarantee of a campaign rests on besides the learner's own assumptions.
FIELD_ASSUMPTIONS = (
    Assumption(
        AssumptionCode.FLEET,
        "every machine of the fleet has the same dynamics, and episodes that run at the same time do not influence each "
        "other",
    ),
    Assumption(
        AssumptionCode.SELECTION,
        "no episode is abandoned, cut short or left out of a log because of what happened in it after the last transition "
        "told",
    ),
)


@dataclass(frozen=True, eq=False, slots=True)
class Deployment:
    """What one worker runs for one episode, and why it may."""

    id: str
    number: int  # the round: the coin is a function of (seed, number)
    worker: str
    at: str  # when it was handed out, UTC
    policy: MarkovPolicy  # run this; the coin is drawn already
    mixture: Mixture  # what the certificate speaks of
    drawn: int  # which policy of the mixture it is
    reason: Reason
    exploration_weight: float  # alpha
    uncertainty: float  # Delta
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `tell` and `import_log` did; `new` is False when the same content was there already."""

    sequence: int
    new: bool
    samples: int


def in_the_field(certificate: Certificate) -> Certificate:
    """A certificate with all that a campaign assumes besides."""
    return replace(certificate, assumptions=certificate.assumptions + FIELD_ASSUMPTIONS)
