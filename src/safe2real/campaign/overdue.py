"""What somebody should know of deployments that are out: a machine that is gone never tells, and all after it wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from safe2real.campaign.leases import Lease
from safe2real.model.constraint_text import count


def notices_of(
    held: Sequence[tuple[str, str, str]], waiting_for: str | None, waiting: int, lease: Lease | None, at: str
) -> tuple[str, ...]:
    """One text for what holds others up, and one for what happens to a deployment that nobody tells.

    Args:
        held: (id, worker, since) of every deployment that is out.
        waiting_for: the id of the one that others wait for, if any do.
        waiting: episodes that are recorded and not counted because of it.
        lease: how long a deployment may be out, if that was limited.
        at: now, UTC.
    """
    if not held:
        return ()
    found, out = [], {id: (worker, since) for id, worker, since in held}
    if waiting_for in out and waiting:
        worker, since = out[waiting_for]
        verb = "waits" if waiting == 1 else "wait"
        found.append(
            f"{count(waiting, 'episode')} {verb} to be counted until {waiting_for} is told, which {worker} has had for "
            f"{_for_how_long(since, at)}. If {worker} is gone: abandon {waiting_for}"
        )
    if lease is None:
        found.append(
            "this campaign has no lease: a deployment stays out until it is told or abandoned, whatever became of its "
            "worker. A lease is stated when a campaign is created"
        )
    elif lease.withdraws:
        found.append(f"what is out for more than its lease of {lease.seconds:g} s is taken back at the next ask")
    else:
        found.append(
            f"what is out for more than its lease of {lease.seconds:g} s is named as overdue; nothing takes it back: tell "
            "it, or abandon it"
        )
    return tuple(found)


def _for_how_long(since: str, at: str) -> str:
    try:
        seconds = (datetime.fromisoformat(at) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):  # times that nobody of ours wrote
        return "a time that the record does not tell"
    return f"{seconds:,.0f} s" if seconds < 7_200.0 else f"{seconds / 3_600.0:,.1f} hours"
