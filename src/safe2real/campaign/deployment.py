"""The deployment that a worker receives for an `ask`, and the receipt for a `tell`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from safe2real.campaign.events import Event
from safe2real.errors import InvalidInput
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.episode_log import LOGS_ASSUMED
from safe2real.methods.base import Reason
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.standing import Assumption, AssumptionCode

# What the guarantee of a campaign rests on besides the learner's own assumptions.
_FIELD = {
    AssumptionCode.FLEET: "every machine of the fleet has the same dynamics, and episodes that run at the same time do not "
    "influence each other",
    AssumptionCode.SELECTION: "no episode is abandoned, cut short or left out of a log because of what happened in it after "
    "the last transition told",
    AssumptionCode.COIN: "no deployment is abandoned, put off or run otherwise because of which policy the coin showed",
    AssumptionCode.LOGS: LOGS_ASSUMED.text,
    AssumptionCode.EMERGENCY_STOP: "where one machine's fault stops the others too, what these had seen by then is told, "
    "and no machine is stopped because of what would happen in it next",
}
FIELD_ASSUMPTIONS = tuple(Assumption(code, text) for code, text in _FIELD.items())
"""Assumptions of every certificate of a campaign, besides those of its problem."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A deployment that must not be run any more, and why. If it ran already, it can still be told."""

    id: str
    at: str  # UTC
    reason: str


@dataclass(frozen=True, eq=False, slots=True)
class Deployment:
    """A policy for one episode of one worker, with its certificate."""

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
    """The result of `tell` or `import_log`; `new` is False when the same content was recorded before."""

    sequence: int
    new: bool
    samples: int
    skipped: int = 0  # episodes of a log that the record had already


_TAG = 6  # hexadecimal digits of the ask's digest in an id


def id_of(name: str, asked: Event) -> str:
    """A deployment's id: the campaign, the number, and which ask it was.

    After a restore from a backup a number is handed out a second time, perhaps with another policy. The digest is of
    everything recorded before, so the two have different ids.
    """
    return f"{name}-{asked.deployment}-{asked.digest[:_TAG]}"


def read_id(name: str, id: Any) -> tuple[int, str]:
    """(number, digits of the ask's digest) of an id."""
    match = re.fullmatch(r"([0-9a-f]{8})-([1-9][0-9]{0,8})-([0-9a-f]{6})", id) if isinstance(id, str) else None
    if match is None:
        raise InvalidInput(
            f"the deployment's id is {str(id)[:60]!r}; give the id of the answer to ask, like {name}-1-{'0' * _TAG}"
        )
    if match.group(1) != name:
        raise InvalidInput(f"deployment {id} belongs to campaign {match.group(1)}; this is campaign {name}")
    return int(match.group(2)), match.group(3)
