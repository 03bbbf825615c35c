"""Declared rewards: directives of an operator, as events that are written and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Receipt
from safe2real.campaign.events import DECLARE, Draft, Event
from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.methods.for_rewards import ForRewards, redeclared
from safe2real.model.serialization import check_keys, from_text, named_from_json, named_to_json

if TYPE_CHECKING:
    from safe2real.campaign.record import Record


def declared_in(event: Event) -> ForRewards:
    """The method that a declaration states; refuses one that is not as it was written."""
    where = f"event {event.sequence}"
    body = check_keys(from_text(event.body, where), where, required=("method",))
    return method_from(body["method"], where)


def method_from(document: Any, where: str) -> ForRewards:
    method = named_from_json(document, f"{where}.method", ForRewards, (ForRewards,))
    if not isinstance(method, ForRewards):
        raise InvalidInput(f"{where} declares no rewards; a newer safe2real may know what it says: upgrade")
    return method


def direct(learner: Learner, method: ForRewards) -> None:
    """Let a learner go on with declared rewards; only one that had some may."""
    if not isinstance(learner.method, ForRewards):
        raise InvalidInput(f"rewards were declared in a campaign of the method {learner.method.name!r}, which has none")
    learner.direct(method)


# Declaring other rewards on the way: an event that says by which method the campaign goes on.
#
# What was learnt and what is out stay as they are: a deployment is certified whatever it was chosen for. From the event
# on, proposals and the stop are those of the method that it states, in every process that reads the record, and in
# `verify`.


def declare(record: Record, rewards: Mapping[str, ArrayLike] | None, drop: Iterable[str]) -> Receipt:
    """Record that rewards are added or dropped; what is refused leaves nothing behind."""
    with record.writing() as transaction:
        learner = record.replay.learner
        method = redeclared(learner.method, rewards, drop)
        method.check(learner.problem)
        (event,) = transaction.append([Draft(DECLARE, {"method": named_to_json(method)}, worker=record.by)])
    return Receipt(event.sequence, True, 0)
