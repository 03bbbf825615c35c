"""What a worker is handed, and what it is answered."""

from __future__ import annotations

from collections.abc import Sequence
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
    Assumption(
        AssumptionCode.COIN,
        "no deployment is abandoned, put off or run otherwise because of which policy the coin showed",
    ),
    Assumption(
        AssumptionCode.LOGS,
        "every imported log is complete and was not chosen by its content, and its policy is the one that is named",
    ),
    Assumption(
        AssumptionCode.EMERGENCY_STOP,
        "where one machine's fault stops the others too, what these had seen by then is told, and no machine is stopped "
        "because of what would happen in it next",
    ),
)


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A deployment that must not be run any more, and why. If it ran already, it can still be told."""

    id: str
    at: str  # UTC
    reason: str


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
    withdrawn: tuple[Withdrawal, ...] = ()  # what the same worker held before, and must not run any more


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `tell` and `import_log` did; `new` is False when the same content was there already."""

    sequence: int
    new: bool
    samples: int
    skipped: int = 0  # episodes of a log that the record had already


def in_the_field(certificate: Certificate, logs: Sequence[Assumption] = ()) -> Certificate:
    """A certificate with all that a campaign assumes besides; `logs` is what was said about its imports."""
    return replace(certificate, assumptions=(*certificate.assumptions, *FIELD_ASSUMPTIONS, *logs))
