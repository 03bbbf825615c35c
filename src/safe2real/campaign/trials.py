"""The trials that a record begins and ends on the way, read and applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safe2real.campaign.events import Event
from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.methods.trial import Trial
from safe2real.methods.trial_within import TrialWithin
from safe2real.model.serialization import check_keys, from_text
from safe2real.model.validation import finite_number

_BEGIN = ("policy", "rewards", "number", "target", "delta")


def change_in(event: Event) -> dict[str, Any]:
    """What an event says about trials: {"begin": {...}} or {"end": number}; refuses one that is not as it was written."""
    where = f"event {event.sequence}"
    body = check_keys(from_text(event.body, where), where, required=(), optional=("begin", "end"))
    if len(body) != 1:
        raise InvalidInput(f"{where} does not say whether a trial begins or ends")
    return body


def change(learner: Learner, said: Mapping[str, Any]) -> None:
    """Begin or end a trial in a learner, as `change_in` read it."""
    if "end" in said:
        running = learner.method.trial.number if isinstance(learner.method, TrialWithin) else None
        if said["end"] != running or running is None:
            raise InvalidInput(f"the trial {said['end']!r} is said to be over, and the one that runs is {running!r}")
        learner.end_trial()
        return
    given = check_keys(said["begin"], "begin", required=_BEGIN)
    trial = Trial.from_parameters(given, "begin")
    learner.try_out(TrialWithin(learner.method, trial, finite_number("begin.delta", given["delta"])))
