"""From a request to a call: who asks, whether they may, and what they sent, all refused before a campaign hears of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from safe2real.errors import InvalidInput
from safe2real.service.limits import chunks
from safe2real.service.problems import TOKEN_IN_BYTES, WrongType
from safe2real.service.request import Call, Endpoint
from safe2real.service.service import Service

Answering = Callable[[Service, Request, Call], Awaitable[Response]]


async def call_of(service: Service, request: Request, endpoint: Endpoint) -> Call:
    """The request as endpoints want it.

    Raises:
        Refused: The token is none, or not for this; or too much was sent, or too often.
        InvalidInput: The query or the body cannot be what was meant.
    """
    name, id = request.path_params.get("name", ""), request.path_params.get("id", "")
    caller = await service.who(request.headers.get("authorization"), request.client.host if request.client else "")
    service.check(caller, endpoint.roles, name or None)
    query = dict(request.query_params)
    if not set(query) <= set(endpoint.query) or len(request.query_params.multi_items()) > len(query):
        known = ", ".join(endpoint.query) or "none"
        raise InvalidInput(f"the query has a key that is not known here, or one twice; known are: {known}")
    body = await _body(service, request, endpoint) if endpoint.body is not None and not endpoint.streamed else b""
    return Call(caller, name, id, query, body)


async def _body(service: Service, request: Request, endpoint: Endpoint) -> bytes:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":  # nor what a form on another site could send
        raise WrongType("content-type is not application/json; send the body as JSON")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongType("content-encoding is not identity; only a log is taken compressed")  # a few bytes would be many
    limits = service.limits
    longest = limits.body if endpoint.longest is None else min(limits.body, endpoint.longest)
    body = b"".join([part async for part in chunks(request, limit=longest, seconds=limits.sending)])
    if TOKEN_IN_BYTES.search(body):
        raise InvalidInput("the body holds a token, which must not be recorded; send it in the header Authorization alone")
    return body
