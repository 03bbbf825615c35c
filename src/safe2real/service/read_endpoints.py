"""What is read: where a campaign stands, its plans, its map of mismatches, what it is about. Nothing is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import (
    certificate_document,
    label_of,
    map_document,
    plan_document,
    proposal_document,
    status_document,
)
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.methods.named import document_of
from safe2real.model.serialization import array_from_json, finite_or_none
from safe2real.service.request import READERS, Call, Endpoint

PAGE = 200  # rows of the map in one answer
_VERDICTS = tuple(verdict.name.lower() for verdict in Verdict)
_ORDERS = ("number", "visits", "distance", "lower", "upper", "visits_needed")


def status(campaign: Campaign, call: Call) -> Any:
    return status_with(campaign, forecast=call.flag("forecast", False))


def status_with(campaign: Campaign, *, forecast: bool) -> dict[str, Any]:
    """The status, and the certificate of whatever is handed out now, with all it rests on as codes and texts."""
    document = status_document(campaign.status(forecast=forecast), campaign)
    document["campaign"] = document.pop("name")
    problem, model = campaign.problem, campaign.problem.simulator
    about = {"delta": problem.settings.delta, "method": campaign.method.name}
    about |= {"format": campaign.format, "horizon": model.steps, "states": model.num_states, "actions": model.num_actions}
    return {**document, **about, "assurance": certificate_document(campaign.assurance())}


def plan(campaign: Campaign, call: Call) -> Any:
    given = call.document(required=("reward",))
    return plan_document(campaign.plan(array_from_json(given["reward"], "reward")))


def proposal(campaign: Campaign, call: Call) -> Any:
    """The same as `ask` would hand out to one who holds nothing, as long as nothing else happens."""
    return proposal_document(campaign.proposal())


def floors(campaign: Campaign, call: Call) -> Any:
    """Empty where the method has no candidate of which anything is certain."""
    return {"floors": campaign.floors(), **label_of(campaign)}


def problem(campaign: Campaign, call: Call) -> Any:
    """The specification, which `create` takes."""
    return document_of(campaign.problem, campaign.method)


def mismatch_map(campaign: Campaign, call: Call) -> Any:
    """Rows that pass the filters, a page of them; or all as arrays."""
    found = campaign.mismatch_map()
    if call.one_of("form", ("rows", "arrays")) == "arrays":
        return {**map_document(found), "intervals_certified": found.certified}
    chosen = _chosen(found, call)
    key = call.one_of("order", _ORDERS, "number")
    if key != "number":
        column = np.nan_to_num(getattr(found, str(key)).reshape(-1)[chosen].astype(np.float64), nan=-1.0)
        chosen = chosen[np.argsort(-column if call.flag("descending", True) else column, kind="stable")]
    offset, limit = call.number("offset", 0), call.number("limit", PAGE, least=1, most=10_000)
    return {
        "certified": found.certified and not found.count(Verdict.CONTRADICTED),
        "counts": {verdict.name.lower(): found.count(verdict) for verdict in Verdict},
        "shape": list(found.visits.shape),
        "total": len(chosen),
        "offset": offset,
        "rows": [_row(found, int(place)) for place in chosen[offset : offset + limit]],
    }


def _chosen(found: MismatchMap, call: Call) -> Any:
    """[n] the places in the flat arrays that pass the filters."""
    keep = np.ones(found.visits.shape, dtype=np.bool_)
    verdict = call.one_of("verdict", _VERDICTS)
    if verdict is not None:
        keep &= found.verdict == Verdict[verdict.upper()]
    for key, axis in (("state", -2), ("action", -1)):
        if key in call.query:
            size = found.visits.shape[axis]
            chosen = np.arange(size) == call.number(key, 0, most=size - 1)
            keep &= chosen[:, None] if axis == -2 else chosen
    keep &= found.visits >= call.number("least_visits", 0)
    return np.flatnonzero(keep)


def _row(found: MismatchMap, place: int) -> dict[str, Any]:
    index = tuple(int(part) for part in np.unravel_index(place, found.visits.shape))
    return {
        **({"step": index[0]} if len(index) == 3 else {}),
        "state": index[-2],
        "action": index[-1],
        "name": found.row_name(index),
        "visits": int(found.visits[index]),
        "distance": finite_or_none(found.distance[index]),
        "lower": float(found.lower[index]),
        "upper": float(found.upper[index]),
        "verdict": Verdict(int(found.verdict[index])).name.lower(),
        "visits_needed": finite_or_none(found.visits_needed[index]),
    }


_MAP_QUERY = {
    "form": "rows (a page) or arrays (all)",
    "verdict": f"one of {', '.join(_VERDICTS)}",
    "state": "a state's number",
    "action": "an action's number",
    "least_visits": "rows with at least so many visits",
    "order": f"one of {', '.join(_ORDERS)}",
    "descending": "true or false",
    "offset": "rows passed over",
    "limit": "rows in the answer, up to 10,000",
}
ENDPOINTS = (
    Endpoint(
        *("GET", "/status", READERS, status, "Where the campaign stands, what is out, and what all of it rests on."),
        query={"forecast": "true to rehearse the rest of the campaign, which may take long"},
        answer={"standing": "certified", "rounds": 17, "told": 16, "uncertainty": 0.4, "tolerance": 0.3, "held": []},
    ),
    Endpoint(
        *("POST", "/plan", READERS, plan, "A policy for any reward in [0, 1], with what is promised of it."),
        is_long=True,
        body={"reward": [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]},
        answer={"certified": True, "value": 1.2, "bound": 1.9, "suboptimality": 0.7},
    ),
    Endpoint(
        *("GET", "/proposal", READERS, proposal, "What the next deployment would be made from; nothing is recorded."),
        is_long=True,
        answer={"round": 18, "reason": "MIXTURE", "exploration_weight": 0.25, "uncertainty": 0.4, "coin": 0.3},
    ),
    Endpoint(
        *("GET", "/floors", READERS, floors, "What is certain of the method's candidate alone."),
        is_long=True,
        answer={"floors": {"upright": 1.6}, "certified": True, "standing": "certified", "statement": "..."},
    ),
    Endpoint(
        *("GET", "/problem", READERS, problem, "What the campaign is about: the specification."),
        answer={"horizon": 4, "simulator": {}, "baseline": {}, "settings": {}},
    ),
    Endpoint(
        *("GET", "/map", READERS, mismatch_map, "How far every row of the simulator is from reality, and what is known."),
        query=_MAP_QUERY,
        answer={"certified": True, "counts": {"open": 6}, "shape": [3, 2], "total": 6, "offset": 0, "rows": []},
    ),
)
