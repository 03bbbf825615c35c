"""Telling: what happened in a deployment, or that it is given up; that the record is a branch, or is to explore for others.

Which deployment an id names, and who may act on it, is checked here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Receipt, id_of, read_id
from safe2real.campaign.events import (
    ABANDON,
    ASK,
    BRANCH,
    DECLARE,
    FORCE,
    TELL,
    WITHDRAW,
    AskBody,
    Draft,
    Event,
    checked_text,
)
from safe2real.campaign.journal import Transaction
from safe2real.campaign.record import Record
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.exploration.episode_log import Seen
from safe2real.methods.for_rewards import redeclared
from safe2real.model.serialization import named_to_json, to_text
from safe2real.model.trajectory import check_actions


def tell(record: Record, id: str, seen: Seen, worker: str | None, force: str | None) -> Receipt:
    content = seen.to_json()
    with record.writing() as transaction:
        known = _recorded_of(record, transaction, id)
        forced = _forced_by(record.by, known[ASK], worker, force)
        if TELL in known:
            if known[TELL].body != to_text(content):
                raise Conflict(
                    f"deployment {id} was told already, with another episode, at {known[TELL].at}; it stays. "
                    "Was the id mixed up? Every episode is told with the id it was asked with"
                )
            return Receipt(known[TELL].sequence, False, seen.transitions)
        body = AskBody.read(known[ASK])
        check_actions(record.policy(transaction, body.policies[body.drawn]), seen.path, f"deployment {id}")
        added = transaction.append([*forced, Draft(TELL, content, known[ASK].deployment, record.by)])
    record.take(added)
    return Receipt(added[-1].sequence, True, seen.transitions)


def abandon(record: Record, id: str, reason: str, worker: str | None, force: str | None) -> Receipt:
    with record.writing() as transaction:
        known = _recorded_of(record, transaction, id)
        forced = _forced_by(record.by, known[ASK], worker, force)
        if TELL in known:
            raise Conflict(f"deployment {id} was told at {known[TELL].at}; what was told stays")
        for kind in (ABANDON, WITHDRAW):
            if kind in known:
                return Receipt(known[kind].sequence, False, 0)
        given_up = Draft(ABANDON, {"reason": reason}, known[ASK].deployment, record.by)
        *_, event = transaction.append([*forced, given_up])
    return Receipt(event.sequence, True, 0)


def abandon_all(record: Record, worker: str, reason: str) -> list[str]:
    with record.writing() as transaction:
        held = record.replay.held_by(worker)
        transaction.append([Draft(ABANDON, {"reason": reason}, one.number, record.by) for one in held])
    return [id_of(record.name, one.event) for one in held]


def branch(record: Record, reason: str) -> Receipt:
    with record.writing() as transaction:
        (event,) = transaction.append([Draft(BRANCH, {"reason": reason}, worker=record.by)])
    return Receipt(event.sequence, True, 0)


def declare(record: Record, rewards: Mapping[str, ArrayLike] | None, drop: Iterable[str]) -> Receipt:
    """Record that rewards are added or dropped; what is refused leaves nothing behind.

    What was learnt and what is out stay as they are: a deployment is certified whatever it was chosen for. From the event
    on, proposals and the stop are those of the method that it states, in every process that reads it and in `verify`.
    """
    with record.writing() as transaction:
        learner = record.replay.learner
        method = redeclared(learner.method, rewards, drop)
        method.check(learner.problem)
        (event,) = transaction.append([Draft(DECLARE, {"method": named_to_json(method)}, worker=record.by)])
    return Receipt(event.sequence, True, 0)


def _recorded_of(record: Record, transaction: Transaction, id: Any) -> dict[str, Event]:
    """What is recorded about a deployment, by kind; refuses an id that this record did not hand out.

    The database finds these events through an index, which can be damaged without a sign, and an episode would be taken
    twice. So its answer has to agree with the replay, which has read every event.
    """
    number, tag = read_id(record.name, id)
    known, replay = transaction.events_of(number), record.replay
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
    if not known[ASK].digest.startswith(tag):
        raise InvalidInput(
            f"deployment {id} belongs to a branch of the record that was lost by a restore; this record has handed out "
            f"another deployment {number} since. Its episode cannot be told; it can be kept with import, by its policy"
        )
    return known


def _forced_by(by: str, asked: Event, worker: str | None, force: str | None) -> list[Draft]:
    """Return the event that says why another than the holder acts on a deployment; none where the holder does."""
    worker = None if worker is None else checked_text("worker", worker, 200)
    if force is not None:
        reason = checked_text("force", force, 10_000)
        return [Draft(FORCE, {"deployment": asked.deployment, "holder": asked.worker, "reason": reason}, worker=by)]
    if worker is not None and worker != asked.worker:
        raise Conflict(
            f"deployment {asked.deployment} is held by {asked.worker!r}, not by {worker!r}; was the id mixed up? To act for "
            "the other one, say why with force, which is recorded"
        )
    return []
