"""Declaring other rewards on the way: an event that says by which method the campaign goes on.

What was learnt and what is out stay as they are: a deployment is certified whatever it was chosen for. From the event on,
proposals and the stop are those of the method that it states, in every process that reads the record, and in `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Receipt
from safe2real.campaign.events import DECLARE, Draft
from safe2real.campaign.record import Record
from safe2real.methods.for_rewards import redeclared
from safe2real.methods.trial_within import refuse_within_trial
from safe2real.model.extensions import named_to_json


def declare(record: Record, rewards: Mapping[str, ArrayLike] | None, drop: Iterable[str]) -> Receipt:
    """Record that rewards are added or dropped; what is refused leaves nothing behind."""
    with record.writing() as transaction:
        learner = record.replay.learner
        refuse_within_trial(learner.method)
        method = redeclared(learner.method, rewards, drop)
        method.check(learner.problem)
        (event,) = transaction.append([Draft(DECLARE, {"method": named_to_json(method)}, worker=record.by)])
    return Receipt(event.sequence, True, 0)
