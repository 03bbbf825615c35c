"""What machines do: ask what to run, tell what happened, give up. Each of these may be sent again without harm."""

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

_BRIEF, _EPISODE = 64 << 10, 1 << 20  # bytes of a body: a worker's token must not keep the campaign reading
_AT_ONCE = 100  # deployments of one ask: 0.04 s, for which all other workers of the campaign wait
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
    """Who asks, for how many deployments, and how they are written."""

    worker: Name | None = Field(default=None, examples=["cell-3"])
    n: int = Field(default=1, description=f"At most {_AT_ONCE}.")
    mixture: bool = Field(default=False, description="Whether all policies of the mixture are answered.")
    packed: bool = Field(default=False, description="Whether arrays are answered packed, for programs.")


_ASK = Ask()


@brief.post("/ask", responses=request.answers({"certified": True, "deployments": [_DEPLOYMENT], "withdrawn": []}))
async def ask(call: InCampaign, body: Ask = _ASK) -> Response:
    """What a worker is to run next, recorded before it is answered.

    The same worker is given the same deployments until it tells or abandons them: a lost answer is asked for again.
    """
    worker = call.worker(body.worker)
    if worker is None:
        raise InvalidInput("the body lacks 'worker': who runs the episodes, a different name for each machine")
    if body.n > _AT_ONCE:
        raise InvalidInput(
            f"n is {shown(body.n)}; one worker is handed at most {count(_AT_ONCE, 'deployment')} at once, because "
            f"all other workers wait meanwhile: ask for n <= {_AT_ONCE}, and ask again when these are told or abandoned"
        )

    return await call.record(
        lambda campaign: asked_document(campaign.ask_batch(body.n, worker=worker), mixture=body.mixture, packed=body.packed)
    )


class _Act(Body):
    """Something that is done with a deployment."""

    worker: Name | None = Field(default=None, description="Who holds the deployment; a worker's token speaks for itself.")
    force: Reason | None = Field(default=None, description="Why an operator acts for another than the holder; recorded.")


class Tell(_Act):
    """An episode: one state more than actions; as many where the last action left the model."""

    states: list[Any] = Field(examples=[[0, 1, 1, 0, 0]], json_schema_extra={"items": {"type": "integer"}})
    actions: list[Any] = Field(examples=[[1, 0, 0, 1]], json_schema_extra={"items": {"type": "integer"}})
    left_model: bool = Field(default=False, description="Whether the last action led where the model has no state.")
    partial: bool = Field(default=False, description="Whether the episode was cut short.")


class Abandon(_Act):
    """Why a deployment is given up."""

    reason: Reason = Field(examples=["the cell lost its power"])


class AbandonAll(Body):
    """Whose deployments are given up, and why."""

    worker: Name = Field(examples=["cell-3"])
    reason: Reason = Field(examples=["the cell was dismantled"])


@episodes.post("/deployments/{id}/tell", responses=request.answers(_RECEIPT))
async def tell(call: InCampaign, id: str, body: Tell) -> Response:
    """What happened in a deployment; durable when it is answered.

    The same episode told again changes nothing ("new": false); another one for the same deployment is a conflict.
    """
    worker, episode = _acting(call, body), {"states": body.states, "actions": body.actions, "left_model": body.left_model}

    def told(campaign: Campaign) -> Any:
        receipt = campaign.tell_json(id, episode, partial=body.partial, worker=worker, force=body.force)
        return {"id": id, **receipt_document(receipt)}

    return await call.record(told)


@brief.post("/deployments/{id}/abandon", responses=request.answers({**_RECEIPT, "samples": 0}))
async def abandon(call: InCampaign, id: str, body: Abandon) -> Response:
    """Give up on a deployment; told later, it is still taken."""
    worker = _acting(call, body)

    def abandoned(campaign: Campaign) -> Any:
        return {"id": id, **receipt_document(campaign.abandon(id, body.reason, worker=worker, force=body.force))}

    return await call.record(abandoned)


@fleet.post("/abandon", responses=request.answers({"worker": "cell-3", "ids": [_ID]}))
async def abandon_all(call: InCampaign, body: AbandonAll) -> Response:
    """Give up on everything that a worker holds: its machine is gone."""
    worker, reason = body.worker, body.reason
    return await call.record(lambda campaign: {"worker": worker, "ids": campaign.abandon_all(worker, reason)})


def _acting(call: InCampaign, body: _Act) -> str | None:
    """Who tells or abandons."""
    worker = call.worker(body.worker)
    if call.caller.role is Role.WORKER and body.force is not None:
        raise Forbidden("a worker acts on what it holds itself; an operator may act for another and say why with force")
    return worker
