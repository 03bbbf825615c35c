"""Requests: routers that authorise the caller before a body is read, and the arguments of endpoints.

A route of `router` checks, in this order: the token, its role and its campaign; the keys of the query; the size, the time
and the syntax of the body. Then FastAPI validates the body by its pydantic model and calls the endpoint.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from enum import Enum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from safe2real.errors import InvalidInput
from safe2real.model.serialization import check_unpacked, from_text
from safe2real.model.validation import human, shown
from safe2real.service.campaign_pool import HostedCampaign, Service, Work
from safe2real.service.problem_documents import TOKEN_IN_BYTES, Busy, Forbidden, TooLarge, WrongType, problem_responses
from safe2real.service.tokens import Caller, Role

WORKERS = frozenset((Role.WORKER, Role.OPERATOR))
OPERATORS = frozenset((Role.OPERATOR,))
READERS = frozenset((Role.OPERATOR, Role.AUDITOR))
ANY_ROLE = frozenset(Role)
API = "/api/v1"
OF_A_CAMPAIGN = f"{API}/campaigns/{{name}}"
_SHORT = 64 << 10  # bytes of a body that is parsed in the event loop
_KEYS = 20
_BEARER = HTTPBearer(scheme_name="token", description="Made by `safe2real serve token add`.", auto_error=False)


class Body(BaseModel):
    """Base of request bodies: unknown keys and values of another type are refused; the campaign checks the rest."""

    model_config = ConfigDict(strict=True, extra="forbid")


Name = Annotated[str, Field(max_length=200)]
Reason = Annotated[str, Field(max_length=10_000)]
_PACKED = {"type": "object", "properties": {key: {} for key in ("dtype", "shape", "zlib")}}
Array = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "array", "items": {}}, _PACKED]})]


# Admission


def router(roles: frozenset[Role], prefix: str, *, longest: int | None = None) -> APIRouter:
    """Return a router whose routes admit only `roles`.

    Args:
        roles: The roles of admitted tokens.
        prefix: The beginning of every address; if it names a campaign, the token must be for it.
        longest: Bytes of a body; by default the service's own limit.
    """

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle, has_body = super().get_route_handler(), self.body_field is not None
            known = tuple(name for parameter in self.dependant.query_params for name in _query_names(parameter))

            async def admit(request: Request) -> Response:
                service: Service = request.app.state.service
                name = request.path_params.get("name")
                address = request.client.host if request.client else ""
                caller = await service.admitted(request.headers.get("authorization"), address, roles, name)
                _check_query(request, known)
                request.state.caller = caller
                if has_body:
                    most = service.limits.body if longest is None else min(service.limits.body, longest)
                    request = await _received(request, most, service.limits.sending)
                return await handle(request)

            return admit

    # The scheme is named for the OpenAPI document; `admit` checks the header.
    shown_by = Security(_BEARER)
    tags: list[str | Enum] = [f"for {', '.join(sorted(roles))}"]
    return APIRouter(prefix=prefix, route_class=Guarded, dependencies=[shown_by], responses=problem_responses(), tags=tags)


class _Received(Request):
    """A request whose body is read and parsed: JSON without NaN, repeated keys and oversized packed arrays."""

    def __init__(self, request: Request, content: bytes, document: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._content, self._document = content, document

    async def body(self) -> bytes:
        return self._content

    async def json(self) -> Any:
        return self._document


def _query_names(parameter: Any) -> tuple[str, ...]:
    """Return the keys of the query that a parameter takes: its own name, or a model's fields."""
    kind = parameter.field_info.annotation
    return tuple(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else (parameter.alias,)


def _check_query(request: Request, known: tuple[str, ...]) -> None:
    query = request.query_params
    if not set(query) <= set(known) or len(query.multi_items()) > len(query):
        words = ", ".join(known) or "none"
        raise InvalidInput(f"the query has an unknown key, or one twice; known are: {words}")


async def _received(request: Request, most: int, seconds: float) -> _Received:
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongType("content-encoding is not identity; only a log may be compressed")  # a few bytes could become many
    content = b"".join([part async for part in chunks(request, limit=most, seconds=seconds)]).strip()
    if content and media_type(request) != "application/json":  # a form on another site could send other types
        raise WrongType("content-type is not application/json; send the body as JSON")
    if TOKEN_IN_BYTES.search(content):
        raise InvalidInput("the body holds a token, which must not be recorded; send it in the header Authorization alone")
    # A long body is parsed in a thread, so that the event loop goes on with other requests.
    document = _parsed(content) if len(content) <= _SHORT else await asyncio.to_thread(_parsed, content)
    return _Received(request, content, document)


def _parsed(content: bytes) -> Any:
    document = from_text(content, "the body") if content else None
    check_unpacked(document, "the body")
    if isinstance(document, dict) and len(document) > _KEYS:  # pydantic would make an error for each unknown key
        raise InvalidInput(f"the body has {len(document)} keys; no body has more than {_KEYS}")
    return document


def media_type(request: Request) -> str:
    """Return the media type in the header, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def chunks(request: Request, *, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, decompressed if it is gzip.

    Args:
        request: The request.
        limit: Bytes of the body at most, compressed and decompressed.
        seconds: Time until all of it must have arrived.

    Raises:
        TooLarge: The body is longer than `limit`.
        WrongType: Its encoding is not gzip.
        Busy: It did not arrive in time.
        InvalidInput: It cannot be decompressed, or ended too early.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise WrongType("content-encoding is neither gzip nor identity; send the body in one of these")
    claimed = request.headers.get("content-length", "0")
    if not (claimed.isascii() and claimed.isdigit()) or len(claimed) > 18 or int(claimed) > limit:
        raise TooLarge(f"the body is longer than {human(limit)}, which is the limit here; send it in parts")
    unpacker = zlib.decompressobj(31) if coding == "gzip" else None
    total = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                written = chunk if unpacker is None else _decompressed(unpacker, chunk, limit - total)
                total += len(written)
                if total > limit:
                    raise TooLarge(
                        f"the decompressed body is longer than {human(limit)}, which is the limit here; send it in parts"
                    )
                if written:
                    yield written
    except TimeoutError:
        raise Busy(f"the body did not arrive within {seconds:g} s; send it again") from None
    except ClientDisconnect:
        raise InvalidInput("the body ended before its time; send it again") from None
    if unpacker is not None and not unpacker.eof:
        raise InvalidInput("the compressed body is cut short; send it again")


def _decompressed(unpacker: zlib._Decompress, chunk: bytes, room: int) -> bytes:
    rest = chunk if unpacker.eof else b""
    try:
        # One byte more than there is room for, so that a bomb shows without being decompressed.
        written = unpacker.decompress(chunk, room + 1) if chunk and not unpacker.eof else b""
    except zlib.error as error:
        raise InvalidInput(f"the body cannot be decompressed ({error}); compress it again with gzip") from error
    if rest or unpacker.unused_data:  # another gzip member, as in concatenated files: its content must not be lost
        raise InvalidInput("the compressed body has more than one part; decompress the parts and compress them as one")
    return written


# Arguments of endpoints


class Call:
    """An authorised request: the caller and the service."""

    def __init__(self, request: Request) -> None:
        self.service: Service = request.app.state.service
        self.caller: Caller = request.state.caller
        self.limits = self.service.limits
        self.authorization = request.headers.get("authorization")

    def worker(self, given: str | None) -> str | None:
        """Return the worker that a call is about: `given`, or the name of a worker's own token.

        Raises:
            Forbidden: A worker's token names another worker.
        """
        if self.caller.role is not Role.WORKER:
            return given
        if given not in (None, self.caller.name):
            raise Forbidden(f"this token is of the worker {self.caller.name!r}, which asks and tells for no other")
        return self.caller.name


class CampaignCall(Call):
    """An authorised request to a campaign; the work and its serialisation run in a thread of the campaign."""

    def __init__(self, request: Request, hosted: HostedCampaign) -> None:
        super().__init__(request)
        self.hosted = hosted

    async def record(self, work: Work[Any], *, timeout: float | None = None, reopen: bool = False) -> Response:
        """Execute work that records, in the caller's name, and answer its result.

        Args:
            work: A function of the campaign that returns a JSON document.
            timeout: Seconds; by default `Limits.answering`.
            reopen: Whether to read the record anew before; see `CampaignThread.do`.
        """
        timeout = self.limits.answering if timeout is None else timeout
        try:
            content = await self.hosted.writer.do(_in_json(work), timeout=timeout, by=self.caller.name, reopen=reopen)
        except MemoryError:  # the server's fault, not the client's
            raise Busy("the server has too little memory at the moment; send the same again") from None
        self.hosted.has_changed()
        return Response(content, media_type="application/json")

    async def read(self, work: Work[Any], *, is_long: bool = False) -> Response:
        """Answer the result of work that records nothing; the planner executes long work."""
        reader = self.hosted.planner if is_long else self.hosted.reader
        return Response(await reader.do(_in_json(work), timeout=self.limits.planning), media_type="application/json")


async def _in_service(request: Request) -> Call:
    return Call(request)


async def _in_campaign(request: Request, name: Annotated[str, Path(description="The campaign's name.")]) -> CampaignCall:
    service: Service = request.app.state.service
    return CampaignCall(request, await service.hosted(name))


InService = Annotated[Call, Depends(_in_service)]
InCampaign = Annotated[CampaignCall, Depends(_in_campaign)]


def _in_json(work: Work[Any]) -> Work[bytes]:
    return lambda campaign: json.dumps(work(campaign), allow_nan=False).encode()


# Documentation and error texts


def answers(example: Any, *, status: int = 200, media: str = "application/json") -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route with an example of its answer."""
    return {status: {"description": "Done.", "content": {media: {"example": example}}}}


_FIXES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
}


def invalid(error: Mapping[str, Any], document: str) -> InvalidInput:
    """Return an error of pydantic as an error of this package, with the place, the value and the fix."""
    kind, context, place = str(error["type"]), error.get("ctx", {}), [str(part)[:40] for part in error["loc"]]
    where = ".".join(place) or document
    if kind == "missing":
        return InvalidInput(f"{document} lacks {where!r}; give it" if place else f"{document} is missing; send it as JSON")
    if kind == "extra_forbidden":
        return InvalidInput(f"{document} has an unknown key {where!r}; leave it out, see {API}/openapi.json")
    fixes = (fix for word, fix in _FIXES.items() if kind.startswith(word))
    fix = f"one of {context['expected']}" if kind == "literal_error" else next(fixes, "")
    if not fix or kind.endswith(
        "_too_long"
    ):  # "Input should be less than or equal to 10", "String should have at most 200 ..."
        fix = str(error["msg"]).partition(" should ")[2].replace("be ", "a value ", 1).replace("have ", "a value with ", 1)
    return InvalidInput(f"{where} is {shown(error.get('input'))}; give {fix}")
