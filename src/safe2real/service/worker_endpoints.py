"""Endpoints of workers: ask, tell, abandon. Each request may be repeated without harm."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from starlette.responses import Response

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import asked_document, receipt_document
from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import count
from safe2real.model.validation import shown
from safe2real.service import request
from safe2real.service.problem_documents import Forbidden
from safe2real.service.request import OF_A_CAMPAIGN, OPERATORS, WORKERS, Body, InCampaign, Name, Reason
from safe2real.service.tokens import Role

_BRIEF, _EPISODE = 64 << 10, 1 << 20  # bytes of a body: one worker must not block the campaign
_AT_ONCE = 100  # deployments of one ask: 0.04 s, while all other workers of the campaign wait
_ID = "1f0c2a9b-17-8e4d21"
_RECEIPT = {"id": _ID, "sequence": 35, "new": True, "samples": 4}
_DEPLOYMENT = {
    "id": _ID,
    "number": 17,
    "worker": "cell-3",
    "at": "2026-01-05T08:00:00.000+00:00",
    "reason": "MIXTURE",
    "exploration_weight": 0.25,
    "uncertainty": 0.4,
    "drawn": 0,
    "policy": {"kind": "deterministic", "num_actions": 2, "actions": [[0, 1, 0], [0, 0, 0]]},
    "certificate": {"certified": True, "holds": True, "lower_bounds": [1.52], "thresholds": [1.5], "standing": "certified"},
}
brief = request.router(WORKERS, OF_A_CAMPAIGN, longest=_BRIEF)
episodes = request.router(WORKERS, OF_A_CAMPAIGN, longest=_EPISODE)
fleet = request.router(OPERATORS, OF_A_CAMPAIGN, longest=_BRIEF)


class Ask(Body):
    """The worker, the number of deployments, and their form."""

    worker: Name | None = Field(default=None, examples=["cell-3"])
    n: int = Field(default=1, description=f"At most {_AT_ONCE}.")
    mixture: bool = Field(default=False, description="Whether to answer all policies of the mixture.")
    packed: bool = Field(default=False, description="Whether to answer arrays packed, for programs.")


_ASK = Ask()


@brief.post("/ask", responses=request.answers({"certified": True, "deployments": [_DEPLOYMENT], "withdrawn": []}))
async def ask(call: InCampaign, body: Ask = _ASK) -> Response:
    """Hand out the deployments that a worker runs next, recorded before they are answered.

    The same worker receives the same deployments until it tells or abandons them, so a lost answer is asked for again.
    """
    worker = call.worker(body.worker)
    if worker is None:
        raise InvalidInput(
            "the body lacks 'worker'; give the name of the machine that runs the episodes, a different one for each"
        )
    if body.n > _AT_ONCE:
        raise InvalidInput(
            f"n is {shown(body.n)}; one worker is handed at most {count(_AT_ONCE, 'deployment')} at once, because "
            f"all other workers wait meanwhile: ask for n <= {_AT_ONCE}, and ask again when these are told or abandoned"
        )

    return await call.record(
        lambda campaign: asked_document(campaign.ask_batch(body.n, worker=worker), mixture=body.mixture, packed=body.packed)
    )


class _Act(Body):
    """Base of requests about one deployment."""

    worker: Name | None = Field(
        default=None, description="The worker that holds the deployment; a worker's token implies its own name."
    )
    force: Reason | None = Field(
        default=None, description="Why an operator acts for another worker than the holder; recorded."
    )


class Tell(_Act):
    """An episode: one state more than actions, or equally many if the last action left the model."""

    states: list[Any] = Field(examples=[[0, 1, 1, 0, 0]], json_schema_extra={"items": {"type": "integer"}})
    actions: list[Any] = Field(examples=[[1, 0, 0, 1]], json_schema_extra={"items": {"type": "integer"}})
    left_model: bool = Field(
        default=False, description="Whether the last action led to a state that the model does not have."
    )
    partial: bool = Field(default=False, description="Whether the episode was cut short.")


class Abandon(_Act):
    """The reason for abandoning a deployment."""

    reason: Reason = Field(examples=["the cell lost its power"])


class AbandonAll(Body):
    """The worker whose deployments are abandoned, and the reason."""

    worker: Name = Field(examples=["cell-3"])
    reason: Reason = Field(examples=["the cell was dismantled"])


@episodes.post("/deployments/{id}/tell", responses=request.answers(_RECEIPT))
async def tell(call: InCampaign, id: str, body: Tell) -> Response:
    """Record the episode of a deployment; durable when it is answered.

    The same episode told again changes nothing ("new": false); another one for the same deployment is a conflict.
    """
    worker, episode = _acting(call, body), {"states": body.states, "actions": body.actions, "left_model": body.left_model}

    def told(campaign: Campaign) -> Any:
        receipt = campaign.tell(id, episode, partial=body.partial, worker=worker, force=body.force)
        return {"id": id, **receipt_document(receipt)}

    return await call.record(told)


@brief.post("/deployments/{id}/abandon", responses=request.answers({**_RECEIPT, "samples": 0}))
async def abandon(call: InCampaign, id: str, body: Abandon) -> Response:
    """Abandon a deployment; its episode is still accepted later."""
    worker = _acting(call, body)

    def abandoned(campaign: Campaign) -> Any:
        return {"id": id, **receipt_document(campaign.abandon(id, body.reason, worker=worker, force=body.force))}

    return await call.record(abandoned)


@fleet.post("/abandon", responses=request.answers({"worker": "cell-3", "ids": [_ID]}))
async def abandon_all(call: InCampaign, body: AbandonAll) -> Response:
    """Abandon every deployment that a worker holds, for example if its machine is gone."""
    worker, reason = body.worker, body.reason
    return await call.record(lambda campaign: {"worker": worker, "ids": campaign.abandon_all(worker, reason)})


def _acting(call: InCampaign, body: _Act) -> str | None:
    """Return the worker that tells or abandons."""
    worker = call.worker(body.worker)
    if call.caller.role is Role.WORKER and body.force is not None:
        raise Forbidden(
            "a worker acts only on the deployments that it holds; an operator may act for another, with the reason in force"
        )
    return worker
