"""Leases: how long a deployment may be out before it is named as overdue, and, if the campaign was created so, withdrawn.

A machine that is gone never tells and never abandons, and all episodes after its own wait. A lease ends that without an
operator: the next `ask` of any worker withdraws what is overdue, which is an event. The episode is left out for a
reason that must have nothing to do with what happened in it. Where bad episodes take longer than good ones, a lease close to
their length leaves out the bad ones; so the certificate assumes that no episode outlasts its lease because of what happens
in it. Give a lease of many times the length of an episode. An episode that turns up later is told as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import count
from safe2real.model.validation import finite_number, shown
from safe2real.standing import Assumption, AssumptionCode

EXPIRED = "lease expired"  # the cause, and the reason, of a withdrawal
LONGEST = 10 * 365 * 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class Lease:
    """`seconds` that a deployment may be out; `withdraws` if it is taken back then."""

    seconds: float
    withdraws: bool

    @classmethod
    def of(cls, seconds: Any, withdraws: Any) -> Lease:
        number = finite_number("lease", seconds)
        if not 0.0 < number <= LONGEST:
            raise InvalidInput(f"lease is {number:g}; give the seconds that a deployment may be out, up to ten years")
        if not isinstance(withdraws, bool):
            raise InvalidInput(f"withdraw_overdue is {shown(withdraws)}; give True or False")
        return cls(number, withdraws)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumption that certificates add if the lease withdraws deployments."""
        text = f"no deployment outlasts its lease of {self.seconds:g} s because of what happens in its episode"
        return (Assumption(AssumptionCode.SELECTION, text, "lease"),) if self.withdraws else ()

    def is_over(self, since: str, at: str) -> bool:
        """Whether something handed out at `since` is overdue at `at`, by the clocks of those who wrote these times."""
        passed = _seconds_between(since, at)
        return passed is not None and passed >= self.seconds


def lease_in(body: Any) -> Lease | None:
    """Return the lease in the body of a campaign's first event, or None."""
    given = body.get("lease") if isinstance(body, dict) else None
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) != {"seconds", "withdraws"}:
        raise InvalidInput(f"the lease of the first event is {shown(given)}, and not an object with seconds and withdraws")
    return Lease.of(given["seconds"], given["withdraws"])


def overdue(lease: Lease | None, held: Iterable[Any], at: str) -> list[Any]:
    """Return the held deployments whose lease has expired at time `at`."""
    return [] if lease is None else [one for one in held if lease.is_over(one.at, at)]


def notices_of(
    held: Sequence[tuple[str, str, str]], waiting_for: str | None, waiting: int, lease: Lease | None, at: str
) -> tuple[str, ...]:
    """Return one text for what holds others up, and one for what happens to a deployment that is never told.

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
    seconds = _seconds_between(since, at)
    if seconds is None:
        return "a time that the record does not tell"
    return f"{seconds:,.0f} s" if seconds < 7_200.0 else f"{seconds / 3_600.0:,.1f} hours"


def _seconds_between(since: str, at: str) -> float | None:
    try:
        return (datetime.fromisoformat(at) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):  # not times as events are written with
        return None
