"""The rewards that a record declares on the way, read and applied: the method that a learner goes on with."""

from __future__ import annotations

from typing import Any

from safe2real.campaign.events import Event
from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.extensions import named_from_json
from safe2real.model.serialization import check_keys, from_text


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
