"""Problem documents (RFC 9457), the answers to refused requests, with the message and the kind of the package's errors.

The kinds of `safe2real.errors` are the same on the command line. The service adds its own here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import Response

from safe2real.campaign.journal.url import HIDDEN, safe_message
from safe2real.errors import Conflict, Halted, InvalidInput, OutOfOrder, Safe2RealError, StorageFailure
from safe2real.service.tokens import PREFIX

MEDIA_TYPE = "application/problem+json"
_TOKEN = re.compile(rf"{PREFIX}[\w-]{{16,}}")
TOKEN_IN_BYTES = re.compile(_TOKEN.pattern.encode())


class Refused(Safe2RealError):
    """A request that the service refuses before it reaches a campaign."""

    status = 400


class NoToken(Refused):
    """A valid token is needed."""

    kind, status = "unauthorised", 401


class Forbidden(Refused):
    """The token has no right to do this."""

    kind, status = "forbidden", 403


class NotFound(Refused):
    """Nothing exists at this address."""

    kind, status = "not-found", 404


class TooLarge(Refused):
    """The body is too long."""

    kind, status = "too-large", 413


class WrongType(Refused):
    """The body has an unsupported media type or encoding."""

    kind, status = "wrong-type", 415


class TooMany(Refused):
    """The rate limit of a token or an address is exceeded."""

    kind, status = "too-many", 429


class Busy(Refused):
    """The service is busy; send the request again."""

    kind, status = "busy", 503


INTERNAL = "internal"
PROBLEMS: dict[str, tuple[int, str]] = {  # of each kind the status and the title
    InvalidInput.kind: (422, "The request is invalid; nothing was recorded"),
    Conflict.kind: (409, "The record says otherwise already; it stays"),
    OutOfOrder.kind: (410, "The campaign has stopped; nothing is left to deploy"),
    Halted.kind: (423, "The data refute the margin of the baseline: stop the machine"),
    StorageFailure.kind: (503, "The database cannot be read or written"),
    **{one.kind: (one.status, (one.__doc__ or "").rstrip(".")) for one in Refused.__subclasses__()},
    INTERNAL: (500, "A mistake of safe2real itself; please report it"),
}
AGAIN = (Busy.kind, TooMany.kind, StorageFailure.kind)  # kinds after which the same request may be sent again


def problem(kind: str, message: str, *, status: int | None = None) -> Response:
    """Return the answer to a refused request; `status` if it is not the kind's usual one."""
    document = problem_document(kind, message, status)
    headers = {"Retry-After": "1"} if kind in AGAIN else {}
    if kind == NoToken.kind:
        headers["WWW-Authenticate"] = 'Bearer realm="safe2real"'
    return Response(json.dumps(document), document["status"], headers, MEDIA_TYPE)


def problem_document(kind: str, message: str, status: int | None = None) -> dict[str, Any]:
    usual, title = PROBLEMS[kind]
    about = {"type": f"urn:safe2real:problem:{kind}", "title": title, "status": status or usual}
    return {**about, "kind": kind, "detail": hidden(message)}


def hidden(message: str) -> str:
    """Return a message without tokens and passwords; every message of the service passes through here."""
    return safe_message(_TOKEN.sub(HIDDEN, message))


def problem_responses() -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route in the OpenAPI document: one entry for each status, with its kinds."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind, (status, title) in sorted(PROBLEMS.items()):
        entry = found.setdefault(status, {"description": "", "content": {MEDIA_TYPE: {"examples": {}}}})
        entry["description"] += f"{'; ' if entry['description'] else ''}{kind}: {title}"
        example = problem_document(kind, "The place, the value and the fix.")
        entry["content"][MEDIA_TYPE]["examples"][kind] = {"value": example}
    return found
