"""Importing: episodes that were collected earlier by known policies, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

from safe2real.campaign import events as kinds
from safe2real.campaign.deployment import Receipt
from safe2real.campaign.episodes import transitions_in
from safe2real.campaign.events import Draft, Event, ImportBody
from safe2real.campaign.imports import Overlap, choose, key_of, parts_of, recorded_of
from safe2real.campaign.record import Record
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.logs import checked_collector, log_digest, pack_log, refuse_same_ids
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import digest_of, policy_to_bytes

_SAME_IMPORT = "another log of the same import"
Log = tuple[MarkovPolicy, Iterable[Any], Overlap | str]
"""A policy, the episodes that it collected, and what to do with those that look like recorded ones."""


def import_logs(record: Record, source: str, logs: Sequence[Log], *, partial: bool) -> Receipt:
    """Record logs that are counted in one step; see `Campaign.import_logs`.

    Their `overlap` may not be "skip" for some and "count" for others: one of the two is recorded.
    """
    added, receipt = _append(record, source, logs, partial=partial)  # of which the events alone are kept
    if added:
        record.take(added)
        record.keep_snapshot()  # of a long log, which whoever opens the campaign would have to count first
    return receipt


def _append(record: Record, source: str, logs: Sequence[Log], *, partial: bool) -> tuple[list[Event], Receipt]:
    """(the events that were added, what to answer)."""
    model = record.problem.simulator
    for _, _, overlap in logs:
        if overlap not in list(Overlap):
            raise InvalidInput(f"overlap is {overlap!r}; give one of {', '.join(Overlap)}")
    collectors = [checked_collector(policy, model) for policy, _, _ in logs]
    read = [
        pack_log(model, policy, episodes, partial=partial) for policy, (_, episodes, _) in zip(collectors, logs, strict=True)
    ]
    refuse_same_ids(chain(*(log.ids for log in read)))
    encoded = list(map(policy_to_bytes, collectors))
    whole = log_digest(chain(*read))
    with record.writing() as transaction:
        imports = list(transaction.events_of_kind(kinds.IMPORT))
        earlier = [event for event in imports if event.worker == source]
        if earlier:
            first = ImportBody.read(earlier[0])
            if first.log != whole:
                raise Conflict(f"another log was imported as {source!r} at {earlier[0].at}; give this one a name of its own")
            return [], Receipt(earlier[-1].sequence, False, sum(map(transitions_in, chain(*read))), first.skipped)
        twin = next((event for event in imports if f'"log":"{whole}"' in event.body), None)
        if twin is not None and any(overlap == Overlap.REFUSE for _, _, overlap in logs):
            raise Conflict(f"the same log was imported as {twin.worker!r} at {twin.at}; it counts once, under one name")
        fitted, events, chosen = record.problem.fitted_episodes(), list(transaction.events()), []
        for place, (log, content, (_, _, overlap)) in enumerate(zip(read, encoded, logs, strict=True)):
            recorded = recorded_of(record.name, digest_of(content), events)
            for episode in chain(*read[:place]):
                recorded.add(_SAME_IMPORT, key_of(episode), episode.get("id"))
            chosen.append(choose(log, Overlap(overlap), recorded, fitted))
        skipped, samples = sum(one.skipped for one in chosen), sum(transitions_in(e) for one in chosen for e in one.episodes)
        if not any(len(one.episodes) for one in chosen):
            return [], Receipt(transaction.last()[0], False, 0, skipped)
        kept = [index for index, one in enumerate(chosen) if len(one.episodes)]
        digests = transaction.add_policies([encoded[index] for index in kept])
        body = ImportBody("", whole, [], after=record.replay.deployments, by=record.by)
        digest_at = dict(zip(kept, digests, strict=True))
        parts = parts_of([(digest_at.get(i, ""), one) for i, one in enumerate(chosen)], body, kinds.IMPORT_SIZE)
        added = transaction.append(Draft(kinds.IMPORT, _body(part), worker=source) for part in parts)
    return added, Receipt(added[-1].sequence, True, samples, skipped)


def _body(part: ImportBody) -> dict[str, Any]:
    """What is recorded of a part; unlike `asdict`, without a copy of its episodes."""
    return {one.name: getattr(part, one.name) for one in fields(part)}
