"""Endpoints that read: status, plans, proposals, the mismatch map, deployments. They record nothing."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import label_of, map_document, plan_document, proposal_document, status_document
from safe2real.campaign.history import OUTCOMES, Entry
from safe2real.errors import InvalidInput
from safe2real.methods.base import Reason
from safe2real.methods.document import document_of
from safe2real.model.cmdp import CMDP
from safe2real.model.serialization import array_from_json, finite_or_none
from safe2real.service import request
from safe2real.service.request import OF_A_CAMPAIGN, READERS, Array, Body, InCampaign

_LARGEST = 2**53
Forecast = Annotated[bool, Query(description="Rehearse the rest of the campaign, which may take long.")]
reading = request.router(READERS, OF_A_CAMPAIGN)

_STATUS = {"standing": "certified", "rounds": 17, "told": 16, "uncertainty": 0.4, "tolerance": 0.3, "held": []}
_PLAN = {"certified": True, "value": 1.2, "bound": 1.9, "suboptimality": 0.7}
_PROPOSAL = {"round": 18, "reason": "MIXTURE", "exploration_weight": 0.25, "uncertainty": 0.4, "coin": 0.3}
_FLOORS = {"floors": {"upright": 1.6}, "certified": True, "standing": "certified", "statement": "..."}
_PROBLEM: dict[str, Any] = {"horizon": 4, "simulator": {}, "baseline": {}, "settings": {}}
_MAP = {
    "certified": True,
    "visits": [[4, 0], [7, 2], [0, 0]],
    "verdict": [["OPEN", "OPEN"], ["WRONG", "OPEN"], ["OPEN", "OPEN"]],
}
_DEPLOYMENTS = {"total": 1, "offset": 0, "deployments": [{"id": "1f0c2a9b-17-8e4d21", "outcome": "out"}]}
_COURSE = {"total": 1, "number": [1], "constraints": [{"name": "falls", "proved": [1.7], "observed": [1.0]}]}


@reading.get("/status", responses=request.answers(_STATUS))
async def status(call: InCampaign, forecast: Forecast = False) -> Response:
    """Return the campaign's standing, its deployments that are out, its assumptions and doubts."""
    return await call.read(partial(status_document, forecast=forecast), is_long=forecast)


class Plan(Body):
    """The reward to plan for."""

    reward: Array = Field(description="[S, A] or [H, S, A], in [0, 1].", examples=[[[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])


@reading.post("/plan", responses=request.answers(_PLAN))
async def plan(call: InCampaign, body: Plan) -> Response:
    """Return a certified policy for any reward in [0, 1], with a bound on its suboptimality."""
    return await call.read(
        lambda campaign: plan_document(campaign.plan(array_from_json(body.reward, "reward"))), is_long=True
    )


@reading.get("/proposal", responses=request.answers(_PROPOSAL))
async def proposal(call: InCampaign) -> Response:
    """Return the proposal that the next deployment of an idle worker would be made from; nothing is recorded."""
    return await call.read(lambda campaign: proposal_document(campaign.proposal()), is_long=True)


@reading.get("/floors", responses=request.answers(_FLOORS))
async def floors(call: InCampaign) -> Response:
    """Return certified bounds for the method's candidate alone; empty if the method has none."""
    return await call.read(lambda campaign: {"floors": campaign.floors(), **label_of(campaign)}, is_long=True)


@reading.get("/problem", responses=request.answers(_PROBLEM))
async def problem(call: InCampaign) -> Response:
    """Return the specification of the campaign, as `POST /campaigns` takes it."""
    return await call.read(lambda campaign: document_of(campaign.problem, campaign.method))


@reading.get("/map", responses=request.answers(_MAP))
async def mismatch_map(call: InCampaign) -> Response:
    """Return, for every row, bounds on its distance from the simulator and a verdict: arrays over states and actions."""
    return await call.read(lambda campaign: map_document(campaign.mismatch_map()))


@reading.get("/deployments", responses=request.answers(_DEPLOYMENTS))
async def deployments(
    call: InCampaign,
    outcome: Annotated[str, Query(description=f"Some of {', '.join(OUTCOMES)}, separated by commas.")] = ",".join(OUTCOMES),
    offset: Annotated[int, Query(ge=0, le=_LARGEST, description="How many to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """List the deployments with their outcomes, the newest first."""
    wanted = outcome.split(",")
    if not set(wanted) <= set(OUTCOMES):
        raise InvalidInput(f"outcome has an unknown word; give some of: {', '.join(OUTCOMES)}")

    def listed(campaign: Campaign) -> Any:
        found = [one for one in call.hosted.deployments(campaign) if one.outcome in wanted]
        chosen = [_deployment(campaign.problem.simulator, one) for one in found[::-1][offset : offset + limit]]
        return {"total": len(found), "offset": offset, "deployments": chosen}

    return await call.read(listed)


def _deployment(model: CMDP, entry: Entry) -> dict[str, Any]:
    body, words, observed = entry.body, model.wordings, entry.observed
    kept = ("id", "number", "worker", "outcome", "closed_at", "closed_by", "samples", "why_given_up", "observed")
    asked = ("by", "reason", "exploration_weight", "uncertainty", "lower_bounds")
    return {
        **{name: getattr(entry, name) for name in kept},
        **{name: getattr(body, name) for name in asked},
        "at": entry.asked_at,
        "proved": [finite_or_none(one.number(low)) for one, low in zip(words, body.lower_bounds, strict=True)],
        "observed": observed and [one.number(total) for one, total in zip(words, observed, strict=True)],
    }


@reading.get("/course", responses=request.answers(_COURSE))
async def course(
    call: InCampaign,
    points: Annotated[int, Query(ge=10, le=10_000, description="About how many deployments to answer.")] = 600,
) -> Response:
    """Return the proved bounds and observed sums of all deployments, as columns of one length, in the user's words.

    Of many deployments, the lowest and highest values of each stretch are kept.
    """
    return await call.read(lambda campaign: _course(campaign.problem.simulator, call.hosted.deployments(campaign), points))


def _course(model: CMDP, entries: list[Entry], points: int) -> dict[str, Any]:
    bodies, shape = [one.body for one in entries], (len(entries), model.num_constraints)
    uncertainty = np.array([np.nan if one.uncertainty is None else one.uncertainty for one in bodies])
    weights = np.array([one.exploration_weight for one in bodies])
    proved = np.array([one.lower_bounds for one in bodies], dtype=np.float64).reshape(shape)
    sums = [(np.nan,) * model.num_constraints if one.observed is None else one.observed for one in entries]
    observed = np.array(sums, dtype=np.float64).reshape(shape)
    kept = _extremes([uncertainty, weights, *proved.T, *observed.T], points)
    constraints = []
    for k, words in enumerate(model.wordings):
        seen = observed[~np.isnan(observed[:, k]), k]
        constraints.append(
            {
                "name": words.label,
                "relation": words.relation,
                "limit": finite_or_none(words.number(model.thresholds[k])),
                "proved": [finite_or_none(words.number(low)) for low in proved[kept, k]],
                "observed": [finite_or_none(words.number(sum_)) for sum_ in observed[kept, k]],
                "observed_mean": words.number(float(seen.mean())) if len(seen) else None,
                "observed_count": len(seen),
            }
        )
    return {
        "total": len(entries),
        "number": [entries[index].number for index in kept],
        "at": [entries[index].asked_at for index in kept],
        "baseline": [bodies[index].reason == Reason.BASELINE.name for index in kept],
        "uncertainty": [bodies[index].uncertainty for index in kept],
        "exploration_weight": [bodies[index].exploration_weight for index in kept],
        "constraints": constraints,
    }


def _extremes(columns: list[Any], points: int) -> list[int]:
    """Return the deployments to draw with about `points` points: the lowest and highest of every column in each stretch."""
    total = len(columns[0])
    if total <= points:
        return list(range(total))
    kept: set[int] = set()
    for column in columns:
        there = np.flatnonzero(~np.isnan(column))
        for stretch in np.array_split(there, min(points // 2, len(there)) or 1):
            if len(stretch):
                kept |= {int(stretch[np.argmin(column[stretch])]), int(stretch[np.argmax(column[stretch])])}
    return sorted(kept)
