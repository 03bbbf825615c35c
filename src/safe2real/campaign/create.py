"""Beginning a campaign: what its first event says, written once; or the campaign that is there, if it is the same one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from safe2real.campaign.events import CREATE, Draft, bounds_of
from safe2real.campaign.journal import FORMAT, Header, Journal
from safe2real.campaign.leases import Lease
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.methods.document import document_of, extensions_of, problem_and_method
from safe2real.model.serialization import digest_of, from_text, to_text
from safe2real.model.validation import shown
from safe2real.problem.document import without_words
from safe2real.problem.problem import Problem
from safe2real.version import __version__

_NAMED = 3  # differences, before the rest is counted


def stated(
    problem: Problem, method: Method, *, trust_margin: bool, lease: float | None, withdraw_overdue: bool
) -> tuple[str, dict[str, Any]]:
    """A problem, as text, and the body of the first event; refuses what no campaign can be about."""
    if withdraw_overdue and lease is None:
        raise InvalidInput("withdraw_overdue is set without a lease; give the seconds that a deployment may be out")
    leased = {} if lease is None else {"lease": asdict(Lease.of(lease, withdraw_overdue))}
    if not isinstance(problem, Problem):
        raise InvalidInput(f"specification is a {type(problem).__name__}; give a Problem")
    Learner(problem, method, trust_margin=trust_margin)
    if not method.can_be_rechecked or not method.keeps_safe:
        raise InvalidInput(
            f"the method {method.name!r} does not keep to the constraints, or brings nothing by which its record could be "
            "checked again; a campaign hands out no policy without a certificate: use methods.SimToReal(), or `simulate` to "
            "study it"
        )
    text = to_text(document_of(problem, method))
    read, again = problem_and_method(text, extensions_of(problem, method))
    for here, there in ((problem.settings.radius, read.settings.radius), (method, again)):
        if type(here) is not type(there):
            raise InvalidInput(
                f"{type(here).__name__} is called {here.name!r}, which is the name of {type(there).__name__}; records could "
                "not tell them apart: give it a name of its own"
            )
    body = {
        "campaign": secrets.token_hex(4),
        "specification": digest_of(text.encode()),
        "version": __version__,
        "method": f"{method.name}/{method.revision}" if method.revision > 1 else method.name,
        "bounds": bounds_of(problem.settings),
    }
    return text, body | ({"trust_margin": True} if trust_margin else {}) | leased


def begin(journal: Journal, text: str, body: dict[str, Any], *, exist_ok: bool) -> None:
    """Make the record, all or nothing; with `exist_ok` one that is there already has to be about the same."""
    try:
        with journal.created(Header(body["campaign"], text, FORMAT)) as transaction:
            transaction.append([Draft(CREATE, body)])
    except Conflict:
        if not exist_ok:
            raise
        with journal.reading() as transaction:
            header, first = transaction.header(), next(transaction.events(until=1), None)
        if header is None or first is None:
            raise
        there = _with_lease(header.specification, from_text(first.body, "the first event"))
        found = list(_differences(there, _with_lease(text, body)))
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            raise Conflict(
                f"{journal.place} holds a campaign about another problem: {', '.join(found[:_NAMED])}{more}; choose "
                "another place"
            ) from None


def _with_lease(text: str, first: Mapping[str, Any]) -> dict[str, Any]:
    return {**without_words(from_text(text, "the specification")), "lease": first.get("lease")}


def _differences(there: Any, here: Any, place: str = "") -> Iterator[str]:
    """Where two documents differ, for people."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in sorted({*there, *here}):
            yield from _differences(there.get(key), here.get(key), f"{place}.{key}" if place else key)
    elif there != here:
        yield f"{place} is {shown(there)} there and {shown(here)} here"
