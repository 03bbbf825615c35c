"""Importing: episodes that were collected earlier by known policies, all or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from safe2real.campaign import events as kinds
from safe2real.campaign.deployment import Receipt
from safe2real.campaign.events import Draft, ImportBody
from safe2real.campaign.imports import Overlap, choose, key_of, parts_of, recorded_of
from safe2real.campaign.record import Record
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.logs import checked_collector, log_digest, read_log
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import digest_of, policy_to_bytes

_SAME_IMPORT = "another log of the same import"
Log = tuple[MarkovPolicy, Iterable[Any], Overlap | str]
"""A policy, the episodes that it collected, and what to do with those that look like recorded ones."""


def import_logs(record: Record, source: str, logs: Sequence[Log], *, partial: bool) -> Receipt:
    """Record logs that are counted in one step; see `Campaign.import_logs`.

    Their `overlap` may not be "skip" for some and "count" for others: one of the two is recorded.
    """
    model = record.problem.simulator
    for _, _, overlap in logs:
        if overlap not in list(Overlap):
            raise InvalidInput(f"overlap is {overlap!r}; give one of {', '.join(Overlap)}")
    collectors = [checked_collector(policy, model) for policy, _, _ in logs]
    read = [
        read_log(model, policy, episodes, partial=partial) for policy, (_, episodes, _) in zip(collectors, logs, strict=True)
    ]
    everything = list(chain(*read))
    twice = [id for id, often in Counter(seen.id for seen in everything if seen.id is not None).items() if often > 1]
    if twice:
        raise InvalidInput(f"{len(twice)} ids are there twice, the first is {twice[0]!r}; an id names one episode")
    encoded = list(map(policy_to_bytes, collectors))
    whole = log_digest(everything)
    with record.writing() as transaction:
        imports = list(transaction.events_of_kind(kinds.IMPORT))
        earlier = [event for event in imports if event.worker == source]
        if earlier:
            first = ImportBody.read(earlier[0])
            if first.log != whole:
                raise Conflict(f"another log was imported as {source!r} at {earlier[0].at}; give this one a name of its own")
            return Receipt(earlier[-1].sequence, False, sum(seen.transitions for seen in everything), first.skipped)
        twin = next((event for event in imports if f'"log":"{whole}"' in event.body), None)
        if twin is not None and any(overlap == Overlap.REFUSE for _, _, overlap in logs):
            raise Conflict(f"the same log was imported as {twin.worker!r} at {twin.at}; it counts once, under one name")
        fitted, events, chosen = record.problem.fitted_episodes(), list(transaction.events()), []
        for place, (log, content, (_, _, overlap)) in enumerate(zip(read, encoded, logs, strict=True)):
            recorded = recorded_of(record.name, digest_of(content), events)
            for seen in chain(*read[:place]):
                recorded.add(_SAME_IMPORT, key_of(seen.to_json()), seen.id)
            chosen.append(choose(log, Overlap(overlap), recorded, fitted))
        episodes = list(chain(*(one.episodes for one in chosen)))
        skipped = sum(one.skipped for one in chosen)
        if not episodes:
            return Receipt(transaction.last()[0], False, 0, skipped)
        kept = [index for index, one in enumerate(chosen) if one.episodes]
        digests = transaction.add_policies([encoded[index] for index in kept])
        body = ImportBody("", whole, [], after=record.replay.deployments, by=record.by)
        digest_at = dict(zip(kept, digests, strict=True))
        parts = parts_of([(digest_at.get(i, ""), one) for i, one in enumerate(chosen)], body, kinds.IMPORT_SIZE)
        added = transaction.append([Draft(kinds.IMPORT, asdict(part), worker=source) for part in parts])
    record.take(added)
    record.keep_snapshot()  # of a long log, which whoever opens the campaign would have to count first
    return Receipt(added[-1].sequence, True, sum(seen.transitions for seen in episodes), skipped)
