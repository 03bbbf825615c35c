"""Addresses of the service itself: its campaigns, who asks, whether it is well, and its numbers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from safe2real.campaign.campaign import Campaign
from safe2real.errors import Safe2RealError
from safe2real.model.serialization import finite_or_none
from safe2real.service.dispatch import Answering
from safe2real.service.metrics import campaign_lines, unreadable_line
from safe2real.service.problems import Forbidden, hidden
from safe2real.service.request import EVERYBODY, OPERATORS, READERS, Call, Endpoint
from safe2real.service.service import Service
from safe2real.version import __version__

_BRIEFLY = ("standing", "halted", "stopped", "next_reason", "rounds", "told", "samples", "tolerance", "events")


async def overview(service: Service, request: Request, call: Call) -> Response:
    """Those that this token may see, with where they stand; `authentication` is false where no token is needed."""
    names = await service.names(call.caller)
    found = await asyncio.gather(*(_briefly(service, name) for name in names))
    return JSONResponse(
        {
            "campaigns": found,
            "authentication": service.options.auth,
            "version": __version__,
            "who": call.caller.name,
            "role": call.caller.role,
        }
    )


async def _briefly(service: Service, name: str) -> dict[str, Any]:
    try:
        hosted = await service.hosted(name)
        return {"name": name, "problem": None, **await hosted.desk.do(_in_brief, patience=service.limits.answering)}
    except Safe2RealError as error:  # one that cannot be opened must not hide the others
        return {"name": name, "problem": hidden(service.without_places(str(error), name))}


def _in_brief(campaign: Campaign) -> dict[str, Any]:
    status = campaign.status(forecast=False)
    numbers = {"held": len(status.held), "overdue": len(status.overdue), "uncertainty": finite_or_none(status.uncertainty)}
    return {"campaign": status.name, **{key: getattr(status, key) for key in _BRIEFLY}, **numbers}


async def create(service: Service, request: Request, call: Call) -> Response:
    """The problem is a specification in JSON, as `safe2real campaign init` takes it."""
    if call.caller.campaign is not None:
        raise Forbidden(f"this token is for the campaign {call.caller.campaign!r} alone")
    return JSONResponse(await service.create(call), 201)


async def whoami(service: Service, request: Request, call: Call) -> Response:
    caller = call.caller
    about = {"authentication": service.options.auth, "version": __version__}
    return JSONResponse({"name": caller.name, "role": caller.role, "campaign": caller.campaign, **about})


async def metrics(service: Service, request: Request, call: Call) -> Response:
    """For Prometheus; of campaigns, those that were asked for since the start."""
    lines = service.metrics.text()
    for hosted in service.open_now():
        if call.caller.campaign in (None, hosted.name):
            try:
                lines += await hosted.desk.do(partial(campaign_lines, hosted.name), patience=service.limits.answering)
            except Safe2RealError:  # one that cannot be read must not hide the others
                lines.append(unreadable_line(hosted.name))
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


async def openapi(service: Service, request: Request, call: Call) -> Response:
    return JSONResponse(request.app.openapi())


OWN: tuple[tuple[Endpoint, Answering], ...] = (
    (
        Endpoint(
            *("GET", "/campaigns", READERS, overview, "All campaigns, and where they stand."),
            answer={"campaigns": [{"name": "arm", "standing": "certified"}], "authentication": True, "who": "ann"},
        ),
        overview,
    ),
    (
        Endpoint(
            *("POST", "/campaigns", OPERATORS, create, "Begin a campaign; an existing one is never overwritten."),
            body={"name": "arm", "problem": {"horizon": 4, "simulator": {}, "baseline": {}, "settings": {}}, "lease": 3600},
            answer={"name": "arm", "campaign": "1f0c2a9b", "certified": True, "standing": "certified"},
        ),
        create,
    ),
    (
        Endpoint(
            *("GET", "/whoami", EVERYBODY, whoami, "Whose token this is."),
            answer={"name": "cell-3", "role": "worker", "campaign": None},
        ),
        whoami,
    ),
    (Endpoint("GET", "/metrics", READERS, metrics, "Numbers for Prometheus."), metrics),
    (Endpoint("GET", "/openapi.json", EVERYBODY, openapi, "This document."), openapi),
)


async def health(_: Request) -> Response:
    """Whether the process answers; says nothing else, and needs no token."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """Whether the database answers too."""
    service: Service = request.app.state.service
    await service.aside(service.places.names)  # one that cannot be reached is a problem document
    return JSONResponse({"status": "ready"})
