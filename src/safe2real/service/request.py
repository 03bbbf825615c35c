"""What an endpoint is, and what it is given: everything about requests that is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.tell import checked_text
from safe2real.errors import InvalidInput
from safe2real.model.serialization import check_keys, check_unpacked, from_text
from safe2real.model.validation import shown
from safe2real.service.problems import Forbidden
from safe2real.service.tokens import Caller, Role

WORKERS = frozenset((Role.WORKER, Role.OPERATOR))
OPERATORS = frozenset((Role.OPERATOR,))
READERS = frozenset((Role.OPERATOR, Role.AUDITOR))
EVERYBODY = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, to whomever it is."""

    caller: Caller
    name: str = ""  # of the campaign in the address
    id: str = ""  # of the deployment or job in the address
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    history: Any = None  # the campaign's `History`

    def document(self, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Any]:
        """The body, one JSON object with these keys; no body is an empty object."""
        found = from_text(self.body, "the body") if self.body.strip() else {}
        check_unpacked(found, "the body")
        return check_keys(found, "the body", required=required, optional=optional)

    def number(self, key: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number of the query."""
        text = self.query.get(key)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 16 and least <= int(text) <= most):
            raise InvalidInput(f"{key} is {shown(text)}; give a whole number from {least} to {most}")
        return int(text)

    def flag(self, key: str, default: bool) -> bool:
        """true or false in the query."""
        text = self.query.get(key)
        if text not in (None, "true", "false"):
            raise InvalidInput(f"{key} is {shown(text)}; give true or false")
        return default if text is None else text == "true"

    def one_of(self, key: str, known: tuple[str, ...], default: str | None = None) -> str | None:
        """One of the known words of the query."""
        text = self.query.get(key)
        if text is not None and text not in known:
            raise InvalidInput(f"{key} is {shown(text)}; give one of {', '.join(known)}")
        return default if text is None else text

    def worker(self, given: Any) -> str | None:
        """Whom a call is for: a worker's token speaks for itself alone.

        Raises:
            Forbidden: A worker names another.
        """
        if self.caller.role is not Role.WORKER:
            return None if given is None else checked_text("worker", given, 200)
        if given not in (None, self.caller.name):
            raise Forbidden(f"this token is of the worker {self.caller.name!r}, who asks and tells for no other")
        return self.caller.name


Work = Callable[[Campaign, Call], Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a campaign: who may call it, what it does, and how it is described."""

    method: str
    path: str  # below /api/v1/campaigns/{name}
    roles: frozenset[Role]
    work: Callable[..., Any]  # a `Work`, which runs in the campaign's thread and returns JSON; or what is done beside
    summary: str
    streamed: bool = False  # whether the body is read by `work` itself, as it arrives
    records: bool = False  # done by the field's object, under the caller's name
    longest: int | None = None  # bytes of a body, where the service's limit is far more than it can need
    is_long: bool = False  # done in the study: nobody who watches waits for it
    query: Mapping[str, str] = field(default_factory=dict)  # keys that are known, and what they mean
    body: Any = None  # an example; None where there is no body
    answer: Any = None  # an example


def boolean(document: Mapping[str, Any], key: str) -> bool:
    """true or false in a body; false where it is left out."""
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"{key} is {shown(value)}; give true or false")
    return value
