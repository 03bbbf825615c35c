"""Which deployment an id names, and who may act on it."""

from __future__ import annotations

from typing import Any

from safe2real.campaign.deployment import read_id
from safe2real.campaign.events import ASK, FORCE, TELL, AskBody, Draft, Event
from safe2real.campaign.journal.sql import Transaction
from safe2real.campaign.replay import Replay
from safe2real.errors import Conflict, InvalidInput, StorageFailure


def recorded_of(transaction: Transaction, replay: Replay, name: str, id: Any) -> dict[str, Event]:
    """What is recorded about a deployment, by kind; refuses an id that this record did not hand out.

    The database finds these events through an index, which can be damaged without a sign, and an episode would be taken
    twice. So its answer has to agree with `replay`, which has read every event.
    """
    number, tag = read_id(name, id)
    known = transaction.events_of(number)
    if (ASK in known, TELL in known) != (number <= replay.deployments, replay.was_told(number)):
        raise StorageFailure(
            f"the index of the record does not agree with its events about deployment {number}: the database is damaged, "
            "and nothing was recorded. Run verify; then restore a copy, or `safe2real campaign export` and `load`"
        )
    if ASK not in known:
        raise InvalidInput(
            f"deployment {id} was never handed out; ask first, and tell with the id of the answer. If it was handed out "
            "before this record was restored from a copy, it belongs to a branch that is lost; import can keep its episode"
        )
    if tag and not known[ASK].digest.startswith(tag):
        raise InvalidInput(
            f"deployment {id} belongs to a branch of the record that was lost by a restore; this record has handed out "
            f"another deployment {number} since. Its episode cannot be told; it can be kept with import, by its policy"
        )
    if not tag and AskBody.read(known[ASK]).by is not None:
        raise InvalidInput(f"the id {id} lacks its last part; give the whole id of the answer to ask")
    return known


def forced_by(by: str, asked: Event, worker: str | None, force: str | None) -> list[Draft]:
    """The event that says why another than the holder acts on a deployment; none where nobody else does."""
    if force is not None:
        return [Draft(FORCE, {"deployment": asked.deployment, "holder": asked.worker, "reason": force}, worker=by)]
    if worker is not None and worker != asked.worker:
        raise Conflict(
            f"deployment {asked.deployment} is held by {asked.worker!r}, not by {worker!r}; was the id mixed up? To act for "
            "the other one, say why with force, which is recorded"
        )
    return []
