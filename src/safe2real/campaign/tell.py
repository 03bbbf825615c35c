"""Telling: what happened in a deployment, or that it is given up; which one an id names, and who may act on it."""

from __future__ import annotations

from typing import Any

from safe2real.campaign.deployment import Receipt, id_of, read_id
from safe2real.campaign.episodes import Seen
from safe2real.campaign.events import ABANDON, ASK, BRANCH, FORCE, TELL, WITHDRAW, AskBody, Draft, Event
from safe2real.campaign.journal import Transaction
from safe2real.campaign.record import Record
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.model.serialization import to_text
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
    """The event that says why another than the holder acts on a deployment; none where nobody else does."""
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


def checked_name(name: str, value: Any) -> str:
    """A name that is recorded from now on: one line, so that no log, metric or alert shows it as something else.

    Raises:
        InvalidInput: It is no text of 1 to 200 printable characters, or has a line break or a tab.
    """
    if isinstance(value, str) and ("\n" in value or "\t" in value):
        raise InvalidInput(f"{name} is {value[:60]!r}, with a line break or a tab; give a name in one line without tabs")
    return checked_text(name, value, 200)


def checked_text(name: str, value: Any, longest: int) -> str:
    """A reason that somebody gave, or the name of somebody who is recorded already."""
    printable = isinstance(value, str) and value.replace("\n", " ").replace("\t", " ").isprintable()
    if not printable or not value.strip() or len(value) > longest:
        raise InvalidInput(f"{name} is {str(value)[:60]!r}; give a text of 1 to {longest} printable characters")
    return str(value)
