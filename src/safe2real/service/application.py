"""The service as a web application: addresses, who may call them, and what is answered when something is wrong."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.service import deploying, directing, looking
from safe2real.service.calls import EVERYBODY, OPERATORS, READERS, Call, Endpoint
from safe2real.service.description import described
from safe2real.service.limits import chunks
from safe2real.service.problems import TOKEN_IN_BYTES, Forbidden, WrongType, problem, problem_of
from safe2real.service.service import Service
from safe2real.service.shield import Shield
from safe2real.service.tokens import Role
from safe2real.version import __version__

API = "/api/v1"
CAMPAIGNS = f"{API}/campaigns"
ENDPOINTS = (*deploying.ENDPOINTS, *directing.ENDPOINTS, *looking.ENDPOINTS)
_PAGE = Path(__file__).with_name("page")
_Answering = Callable[[Request], Awaitable[Response]]


def make_app(service: Service) -> FastAPI:
    """The application of a service; it closes the service when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(title="safe2real", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.service = service
    for endpoint in ENDPOINTS:
        _add(app, endpoint.method, f"{CAMPAIGNS}/{{name}}{endpoint.path}", _on_campaign(service, endpoint), endpoint)
    _add_of_the_service(app, service)
    _add_pages(app)
    app.add_exception_handler(Safe2RealError, _refused(service))
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(Exception, _mistake)
    app.add_middleware(Shield, loopback_only=not service.options.auth)
    return app


def _add(app: FastAPI, method: str, path: str, answer: _Answering, endpoint: Endpoint | None = None) -> None:
    extra = {} if endpoint is None else described(endpoint, path)
    app.add_api_route(path, answer, methods=[method], response_class=Response, response_model=None, **extra)


def _on_campaign(service: Service, endpoint: Endpoint) -> _Answering:
    """One request to one campaign: who, whether, what, done, told."""

    async def answer(request: Request) -> Response:
        call = await _call(service, request, endpoint)
        hosted = await service.hosted(call.name)

        def done(campaign: Any) -> bytes:  # in the campaign's thread, the writing of JSON too
            return json.dumps(endpoint.work(campaign, call), allow_nan=False).encode()

        if endpoint.records:
            content = await hosted.field.do(done, patience=service.limits.answering, by=call.caller.name)
            hosted.has_changed()
        else:
            content = await hosted.desk.do(done, patience=service.limits.planning)
        return Response(content, media_type="application/json")

    return answer


async def _call(service: Service, request: Request, endpoint: Endpoint) -> Call:
    """The request as endpoints want it; refused before a campaign hears of it."""
    name, id = request.path_params.get("name", ""), request.path_params.get("id", "")
    caller = await service.who(request.headers.get("authorization"), request.client.host if request.client else "")
    service.check(caller, endpoint.roles, name or None)
    query = dict(request.query_params)
    if not set(query) <= set(endpoint.query) or len(request.query_params.multi_items()) > len(query):
        known = ", ".join(endpoint.query) or "none"
        raise InvalidInput(f"the query has a key that is not known here, or one twice; known are: {known}")
    body = b""
    if endpoint.body is not None:
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":  # also what a form of another page cannot send
            raise WrongType("content-type is not application/json; send the body as JSON")
        parts = [part async for part in chunks(request, limit=service.limits.body, seconds=service.limits.sending)]
        body = b"".join(parts)
        if TOKEN_IN_BYTES.search(body):
            raise InvalidInput(
                "the body holds a token, which must not be recorded; send it in the header Authorization alone"
            )
    return Call(caller, name, id, query, body)


def _add_of_the_service(app: FastAPI, service: Service) -> None:
    async def overview(request: Request) -> Response:
        call = await _call(service, request, OVERVIEW)
        names = await service.names(call.caller)
        return JSONResponse({"campaigns": names, "auth": service.options.auth, "version": __version__})

    async def create(request: Request) -> Response:
        call = await _call(service, request, CREATE)
        if call.caller.campaign is not None:
            raise Forbidden(f"this token is for the campaign {call.caller.campaign!r} alone")
        return JSONResponse(await service.create(call), 201)

    async def whoami(request: Request) -> Response:
        caller = (await _call(service, request, WHOAMI)).caller
        return JSONResponse({"name": caller.name, "role": caller.role, "campaign": caller.campaign})

    async def document(request: Request) -> Response:
        await _call(service, request, OPENAPI)
        return JSONResponse(app.openapi())

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        await service.aside(service.places.names)  # a database that cannot be reached is a problem document
        return JSONResponse({"status": "ready"})

    _add(app, "GET", CAMPAIGNS, overview, OVERVIEW)
    _add(app, "POST", CAMPAIGNS, create, CREATE)
    _add(app, "GET", f"{API}/whoami", whoami, WHOAMI)
    _add(app, "GET", f"{API}/openapi.json", document, OPENAPI)
    _add(app, "GET", f"{API}/health", health)
    _add(app, "GET", f"{API}/ready", ready)


def _nothing(*_: Any) -> None:
    """Endpoints of the service itself are answered above; what is here says who may call them and what they are."""


OVERVIEW = Endpoint(
    *("GET", "", READERS, _nothing, "The campaigns that this token may see."),
    answer={"campaigns": ["arm"], "auth": True, "version": __version__},
)
CREATE = Endpoint(
    *("POST", "", OPERATORS, _nothing, "Begin a campaign; an existing one is never overwritten."),
    body={"name": "arm", "problem": {"horizon": 4, "simulator": {}, "baseline": {}, "settings": {}}, "lease": 3600},
    answer={
        "name": "arm",
        "campaign": "1f0c2a9b",
        "certified": True,
        "standing": "certified",
        "statement": "...",
    },
)
WHOAMI = Endpoint(
    *("GET", "/whoami", EVERYBODY, _nothing, "Whose token this is."),
    answer={"name": "cell-3", "role": Role.WORKER, "campaign": None},
)
OPENAPI = Endpoint("GET", "/openapi.json", EVERYBODY, _nothing, "This document.")


def _add_pages(app: FastAPI) -> None:
    """The page and what it needs are files without secrets; whatever they show they ask for with a token."""
    if not _PAGE.is_dir():
        return

    async def overview(_: Request) -> Response:
        return FileResponse(_PAGE / "index.html")

    async def campaign(_: Request) -> Response:
        return FileResponse(_PAGE / "campaign.html")

    app.add_route("/", overview)
    app.add_route("/campaigns/{name}", campaign)
    app.mount("/page", StaticFiles(directory=_PAGE))


# What is answered when something is wrong


def _refused(service: Service) -> Any:
    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, Safe2RealError)  # registered for these
        name = request.path_params.get("name", "")
        seen = {service.places.shown: "the service's database"}
        for hosted in service.open_now():
            if hosted.name == name:
                seen = {hosted.shown_place: f"campaign {name}", **seen}
        return problem_of(error, seen)

    return answer


async def _not_there(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    if status == 405:
        return problem("not-found", 405, "this address is there, but not for this method; see /api/v1/openapi.json")
    return problem("not-found", 404, "there is nothing at this address; see /api/v1/openapi.json")


async def _mistake(_: Request, error: Exception) -> Response:
    if isinstance(error, MemoryError | RecursionError):
        what = "memory" if isinstance(error, MemoryError) else "depth"
        return problem("invalid-input", 422, f"what was given needs more {what} than there is; give something smaller")
    return problem("internal", 500, f"{type(error).__name__}: a mistake of safe2real; please report it")
