"""The service as a web application: addresses, what is done at each, and what is answered when something is wrong."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from safe2real.campaign.campaign import Campaign
from safe2real.errors import Safe2RealError
from safe2real.service import history, operator_endpoints, read_endpoints, worker_endpoints
from safe2real.service.alerts import AlertTerms, watching
from safe2real.service.description import SECURITY, described
from safe2real.service.dispatch import Answering, call_of
from safe2real.service.long_requests import BESIDE
from safe2real.service.problems import Busy, problem, problem_of
from safe2real.service.request import Call, Endpoint
from safe2real.service.security_headers import Shield
from safe2real.service.service import Service
from safe2real.service.service_endpoints import OWN, health, ready
from safe2real.version import __version__

API = "/api/v1"
CALLS = (*worker_endpoints.ENDPOINTS, *operator_endpoints.ENDPOINTS, *read_endpoints.ENDPOINTS, *history.ENDPOINTS)
_PAGE = Path(__file__).with_name("page")
_LARGE = 4096  # bytes from which an answer is compressed
_Route = Callable[[Request], Awaitable[Response]]


def make_app(service: Service, alerts: AlertTerms | None = None) -> FastAPI:
    """The application of a service; it closes the service when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with watching(service, alerts):
                yield
        finally:
            service.close()

    app = FastAPI(
        title="safe2real",
        version=__version__,
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for endpoint in CALLS:
        _add(app, f"{API}/campaigns/{{name}}{endpoint.path}", endpoint, _on_campaign(endpoint))
    for endpoint, answering in BESIDE:
        _add(app, f"{API}/campaigns/{{name}}{endpoint.path}", endpoint, answering)
    for endpoint, answering in OWN:
        _add(app, f"{API}{endpoint.path}", endpoint, answering)
    app.add_route(f"{API}/health", health)
    app.add_route(f"{API}/ready", ready)
    _add_pages(app)
    _describe(app)
    app.add_exception_handler(Safe2RealError, _refused)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(Exception, _mistake)
    app.add_middleware(GZipMiddleware, minimum_size=_LARGE, compresslevel=2)
    app.add_middleware(Shield, metrics=service.metrics, loopback_only=not service.options.auth)
    return app


def _add(app: FastAPI, path: str, endpoint: Endpoint, answering: Answering) -> None:
    service: Service = app.state.service

    async def answer(request: Request) -> Response:
        return await answering(service, request, await call_of(service, request, endpoint))

    app.add_api_route(
        path, answer, methods=[endpoint.method], response_class=Response, response_model=None, **described(endpoint, path)
    )


def _on_campaign(endpoint: Endpoint) -> Answering:
    """One call to a campaign, in its thread; the writing of JSON too."""

    async def answering(service: Service, request: Request, call: Call) -> Response:
        hosted = await service.hosted(call.name)
        with_history = replace(call, history=hosted.history)

        def done(campaign: Campaign) -> bytes:
            return json.dumps(endpoint.work(campaign, with_history), allow_nan=False).encode()

        if endpoint.records:
            try:
                content = await hosted.field.do(done, patience=service.limits.answering, by=call.caller.name)
            except MemoryError:  # of the server, not of what was sent
                raise Busy("the server has too little memory at the moment; send the same again") from None
            hosted.has_changed()
        else:
            is_long = endpoint.is_long or call.query.get("forecast") == "true"
            content = await (hosted.study if is_long else hosted.desk).do(done, patience=service.limits.planning)
        return Response(content, media_type="application/json")

    return answering


def _add_pages(app: FastAPI) -> None:
    """The page and what it needs are files without secrets; whatever they show they ask for with a token."""
    if not _PAGE.is_dir():
        return

    def page(file: str) -> _Route:
        async def answer(_: Request) -> Response:
            return FileResponse(_PAGE / file, headers={"Cache-Control": "no-cache"})

        return answer

    app.add_route("/", page("index.html"))
    app.add_route("/campaigns/{name}", page("campaign.html"))
    app.mount("/page", StaticFiles(directory=_PAGE))


def _describe(app: FastAPI) -> None:
    """The OpenAPI document, with how a token is shown."""
    made = app.openapi()
    made.setdefault("components", {})["securitySchemes"] = SECURITY


# What is answered when something is wrong


async def _refused(request: Request, error: Exception) -> Response:
    service: Service = request.app.state.service
    if not isinstance(error, Safe2RealError):
        return await _mistake(request, error)
    return problem_of(error, service.without_places(str(error), request.path_params.get("name", "")))


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
