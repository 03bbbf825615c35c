"""The web application: routers, endpoints of the service itself, pages, and answers to errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import label_of
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.methods.document import problem_and_method
from safe2real.model.serialization import finite_or_none, to_text
from safe2real.report.page import render
from safe2real.service import event_stream, read_endpoints, record_endpoints, request, worker_endpoints
from safe2real.service.alerts import AlertTerms, watching
from safe2real.service.campaign_pool import Service
from safe2real.service.middleware import Shield, campaign_lines, unreadable_line
from safe2real.service.problem_documents import INTERNAL, Forbidden, NotFound, hidden, problem
from safe2real.service.request import ANY_ROLE, API, OPERATORS, READERS, Body, InService
from safe2real.service.storage import campaign_name
from safe2real.version import __version__

_HERE = Path(__file__).parent
_LARGE = 4096  # bytes from which an answer is compressed
_BRIEF_FIELDS = ("standing", "halted", "stopped", "next_reason", "rounds", "told", "samples", "tolerance", "events")
_Page = Callable[[Request], Awaitable[Response]]

operating = request.router(OPERATORS, API)
reading = request.router(READERS, API)
asking = request.router(ANY_ROLE, API)
ROUTERS = (
    *(worker_endpoints.brief, worker_endpoints.episodes, worker_endpoints.fleet),
    *(record_endpoints.writing, record_endpoints.checking, read_endpoints.reading, event_stream.watching),
    *(operating, reading, asking),
)


def make_app(service: Service, alerts: AlertTerms | None = None) -> FastAPI:
    """Return the application of a service; it closes the service when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with watching(service, alerts):
                yield
        finally:
            service.close()

    # FastAPI's own documentation pages load scripts from elsewhere, and its OpenAPI document needs no token.
    app = FastAPI(title="safe2real", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    app.add_route(f"{API}/health", health)
    app.add_route(f"{API}/ready", ready)
    # Static files without secrets: the pages request all data with a token.
    app.add_route("/", _page("index.html.jinja", title="Campaigns", root="./", script="overview.js"))
    app.add_route("/campaigns/{name}", _page("campaign.html.jinja", title="Campaign", root="../", script="campaign.js"))
    app.mount("/page", StaticFiles(directory=_HERE / "page"))
    app.add_exception_handler(Safe2RealError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(Exception, _internal_error)
    app.add_middleware(GZipMiddleware, minimum_size=_LARGE, compresslevel=2)
    app.add_middleware(Shield, metrics=service.metrics, loopback_only=not service.auth)
    return app


def _page(template: str, **texts: str) -> _Page:
    content = render(template, folder=_HERE / "templates", **texts)

    async def answer(_: Request) -> Response:
        return HTMLResponse(content, headers={"Cache-Control": "no-cache"})

    return answer


# Endpoints of the service itself

_CAMPAIGNS = {"campaigns": [{"name": "arm", "standing": "certified"}], "authentication": True, "who": "ann"}


@reading.get("/campaigns", responses=request.answers(_CAMPAIGNS))
async def overview(call: InService) -> Response:
    """List the campaigns that this token may see, with their standing; `authentication` is false if no token is needed."""
    names = await call.service.names(call.caller)
    found = await asyncio.gather(*(_overview_of(call.service, name) for name in names))
    about = {"authentication": call.service.auth, "version": __version__}
    return JSONResponse({"campaigns": found, **about, "who": call.caller.name, "role": call.caller.role})


async def _overview_of(service: Service, name: str) -> dict[str, Any]:
    try:
        hosted = await service.hosted(name)
        return {"name": name, "problem": None, **await hosted.reader.do(_brief_status, timeout=service.limits.answering)}
    except Safe2RealError as error:  # an unreadable campaign must not hide the others
        return {"name": name, "problem": hidden(service.without_places(str(error), name))}


def _brief_status(campaign: Campaign) -> dict[str, Any]:
    status = campaign.status(forecast=False)
    numbers = {"held": len(status.held), "overdue": len(status.overdue), "uncertainty": finite_or_none(status.uncertainty)}
    return {"campaign": status.name, **{key: getattr(status, key) for key in _BRIEF_FIELDS}, **numbers}


class Create(Body):
    """A campaign to create."""

    name: str = Field(examples=["arm"])
    problem: dict[str, Any] = Field(
        description="A specification, as `safe2real campaign init` takes it.",
        examples=[{"horizon": 4, "simulator": {}, "baseline": {}, "settings": {}}],
    )
    trust_margin: bool = False
    lease: float | None = Field(default=None, examples=[3600])
    withdraw_overdue: bool = False
    exist_ok: bool = False


_MADE = {"name": "arm", "campaign": "1f0c2a9b", "certified": True, "standing": "certified"}


@operating.post("/campaigns", status_code=201, responses=request.answers(_MADE, status=201))
async def create(call: InService, body: Create) -> Response:
    """Create a campaign; an existing one is never overwritten."""
    if call.caller.campaign is not None:
        raise Forbidden(f"this token is for the campaign {call.caller.campaign!r} alone")
    return JSONResponse(await call.service.in_slow_thread(_created, call.service, body), 201)


def _created(service: Service, body: Create) -> dict[str, Any]:
    name = campaign_name(body.name)
    problem, method = problem_and_method(to_text(body.problem))
    service.places.prepare(name)
    how = body.model_dump(exclude={"name", "problem"})
    with Campaign.create(service.places.place_of(name), problem, method=method, **how) as made:
        return {"name": name, "campaign": made.name, **label_of(made)}


@asking.get("/whoami", responses=request.answers({"name": "cell-3", "role": "worker", "campaign": None}))
async def whoami(call: InService) -> Response:
    """Return the owner, role and campaign of this token."""
    caller = call.caller
    about = {"authentication": call.service.auth, "version": __version__}
    return JSONResponse({"name": caller.name, "role": caller.role, "campaign": caller.campaign, **about})


@reading.get("/metrics", response_class=PlainTextResponse)
async def metrics(call: InService) -> Response:
    """Return metrics for Prometheus; only campaigns that were used since the start are included."""
    lines = call.service.metrics.text()
    for hosted in call.service.open_now():
        if call.caller.campaign in (None, hosted.name):
            try:
                lines += await hosted.reader.do(partial(campaign_lines, hosted.name), timeout=call.limits.answering)
            except Safe2RealError:  # an unreadable campaign must not hide the others
                lines.append(unreadable_line(hosted.name))
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


@asking.get("/openapi.json")
async def openapi(call: InService, asked: Request) -> Response:
    """Return this OpenAPI document."""
    return JSONResponse(await asyncio.to_thread(asked.app.openapi))  # built once, in 0.1 s


async def health(_: Request) -> Response:
    """Answer that the process runs; needs no token."""
    return JSONResponse({"status": "ok"})


async def ready(asked: Request) -> Response:
    """Answer that the database can be reached; needs no token."""
    service: Service = asked.app.state.service
    await service.in_helper_thread(service.places.names)  # an unreachable database is a problem document
    return JSONResponse({"status": "ready"})


# Answers to errors


async def _refused(asked: Request, error: Exception) -> Response:
    service: Service = asked.app.state.service
    if not isinstance(error, Safe2RealError):
        return await _internal_error(asked, error)
    return problem(error.kind, service.without_places(str(error), asked.path_params.get("name", "")))


async def _invalid(asked: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        return await _internal_error(asked, error)
    first = error.errors()[0]
    source, *place = first["loc"]
    return await _refused(asked, request.invalid({**first, "loc": place}, f"the {source}"))


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else None
    if status == 405:
        return problem(NotFound.kind, f"this address does not support this method; see {API}/openapi.json", status=405)
    return problem(NotFound.kind, f"there is nothing at this address; see {API}/openapi.json")


async def _internal_error(_: Request, error: Exception) -> Response:
    if isinstance(error, MemoryError | RecursionError):
        what = "memory" if isinstance(error, MemoryError) else "depth"
        return problem(InvalidInput.kind, f"what was given needs more {what} than there is; give something smaller")
    return problem(INTERNAL, f"{type(error).__name__}: a mistake of safe2real; please report it")
