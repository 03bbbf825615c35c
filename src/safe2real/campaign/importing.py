"""Importing: episodes that were collected earlier by a known policy, all or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from safe2real.campaign import events as kinds
from safe2real.campaign.deployment import Receipt
from safe2real.campaign.events import Draft, ImportBody
from safe2real.campaign.imports import Overlap, choose, parts_of
from safe2real.campaign.record import Record
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.logs import checked_collector, log_digest, read_log
from safe2real.model.encoding import digest_of, policy_to_bytes
from safe2real.model.policy import MarkovPolicy


def import_log(
    record: Record, source: str, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool, overlap: Overlap | str
) -> Receipt:
    """See `Campaign.import_log`."""
    policy = checked_collector(policy, record.problem.simulator)
    if overlap not in list(Overlap):
        raise InvalidInput(f"overlap is {overlap!r}; give one of {', '.join(Overlap)}")
    log = read_log(record.problem.simulator, policy, episodes, partial=partial)
    encoded = policy_to_bytes(policy)
    whole = log_digest(log)
    with record.writing() as transaction:
        imports = list(transaction.events_of_kind(kinds.IMPORT))
        earlier = [event for event in imports if event.worker == source]
        if earlier:
            first = ImportBody.read(earlier[0])
            if first.log != whole:
                raise Conflict(f"another log was imported as {source!r} at {earlier[0].at}; give this one a name of its own")
            return Receipt(earlier[-1].sequence, False, sum(seen.transitions for seen in log), first.skipped)
        twin = next((event for event in imports if f'"log":"{whole}"' in event.body), None)
        if twin is not None and overlap == Overlap.REFUSE:
            raise Conflict(f"the same log was imported as {twin.worker!r} at {twin.at}; it counts once, under one name")
        fitted = record.problem.fitted_episodes()
        chosen = choose(log, Overlap(overlap), record.name, digest_of(encoded), transaction.events(), fitted)
        if not chosen.episodes:
            return Receipt(transaction.last()[0], False, 0, chosen.skipped)
        (digest,) = transaction.add_policies([encoded])
        whole_log = ImportBody(digest, whole, [], after=record.replay.deployments, by=record.by)
        parts = parts_of(chosen, whole_log, kinds.IMPORT_SIZE)
        added = transaction.append([Draft(kinds.IMPORT, asdict(body), worker=source) for body in parts])
    record.take(added)
    record.keep_snapshot()  # of a long log, which whoever opens the campaign would have to count first
    return Receipt(added[-1].sequence, True, sum(seen.transitions for seen in chosen.episodes), chosen.skipped)
