"""What machines do: ask what to run, tell what happened, give up. Each of these may be sent again without harm."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import deployment_document, receipt_document
from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import count
from safe2real.model.serialization import mixture_to_json, policy_to_json
from safe2real.model.validation import shown
from safe2real.service.problems import Forbidden
from safe2real.service.request import OPERATORS, WORKERS, Call, Endpoint, boolean
from safe2real.service.tokens import Role

_BRIEF, _EPISODE = 64 << 10, 1 << 20  # bytes of a body: a worker's token must not keep the campaign reading
_AT_ONCE = 100  # deployments of one ask: 0.04 s, for which all other workers of the campaign wait
_ID = "1f0c2a9b-17-8e4d21"


def ask(campaign: Campaign, call: Call) -> Any:
    """The same worker is given the same deployments until it tells or abandons them: a lost answer is asked for again."""
    given = call.document(optional=("worker", "n", "mixture", "packed"))
    worker, with_mixture, packed = call.worker(given.get("worker")), boolean(given, "mixture"), boolean(given, "packed")
    if worker is None:
        raise InvalidInput("the body lacks 'worker': who runs the episodes, a different name for each machine")
    n = given.get("n", 1)
    if isinstance(n, int | float) and n > _AT_ONCE:
        raise InvalidInput(
            f"n is {shown(n)}; the service hands out at most {count(_AT_ONCE, 'deployment')} to one worker at once, because "
            f"all other workers wait meanwhile: ask for n <= {_AT_ONCE}, and ask again when these are told or abandoned"
        )
    deployments = campaign.ask_batch(n, worker=worker)
    documents = []
    for one in deployments:
        document = deployment_document(one, policy=not packed)
        if packed and not with_mixture:
            document["policy"] = policy_to_json(one.policy)
        if with_mixture:
            document["mixture"] = mixture_to_json(one.mixture, plain=not packed)
        documents.append(document)
    return {
        "certified": all(one.certificate.certified for one in deployments),
        "deployments": documents,
        "withdrawn": [asdict(one) for one in deployments[0].withdrawn],
    }


def tell(campaign: Campaign, call: Call) -> Any:
    """The same episode told again changes nothing ("new": false); another one for the same deployment is a conflict."""
    given = call.document(required=("states", "actions"), optional=("left_model", "partial", "worker", "force"))
    worker, force = _acts(call, given)
    episode = {key: given[key] for key in ("states", "actions", "left_model") if key in given}
    receipt = campaign.tell_json(call.id, episode, partial=boolean(given, "partial"), worker=worker, force=force)
    return {"id": call.id, **receipt_document(receipt)}


def abandon(campaign: Campaign, call: Call) -> Any:
    given = call.document(required=("reason",), optional=("worker", "force"))
    worker, force = _acts(call, given)
    return {"id": call.id, **receipt_document(campaign.abandon(call.id, given["reason"], worker=worker, force=force))}


def abandon_all(campaign: Campaign, call: Call) -> Any:
    given = call.document(required=("worker", "reason"))
    return {"worker": given["worker"], "ids": campaign.abandon_all(given["worker"], given["reason"])}


def _acts(call: Call, given: dict[str, Any]) -> tuple[str | None, str | None]:
    """(worker, force) of a tell or an abandonment."""
    worker, force = call.worker(given.get("worker")), given.get("force")
    if call.caller.role is Role.WORKER and force is not None:
        raise Forbidden("a worker acts on what it holds itself; an operator may act for another and say why with force")
    if force is not None and not isinstance(force, str):
        raise InvalidInput(f"force is {shown(force)}; give the reason as a text")
    return worker, force


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
ENDPOINTS = (
    Endpoint(
        *("POST", "/ask", WORKERS, ask, "What a worker is to run next, recorded before it is answered."),
        records=True,
        longest=_BRIEF,
        body={"worker": "cell-3", "n": 1},
        answer={"certified": True, "deployments": [_DEPLOYMENT], "withdrawn": []},
    ),
    Endpoint(
        *("POST", "/deployments/{id}/tell", WORKERS, tell, "What happened in a deployment; durable when it is answered."),
        records=True,
        longest=_EPISODE,
        body={"states": [0, 1, 1, 0, 0], "actions": [1, 0, 0, 1]},
        answer=_RECEIPT,
    ),
    Endpoint(
        *("POST", "/deployments/{id}/abandon", WORKERS, abandon, "Give up on a deployment; told later, it is still taken."),
        records=True,
        longest=_BRIEF,
        body={"reason": "the cell lost its power"},
        answer={**_RECEIPT, "samples": 0},
    ),
    Endpoint(
        *("POST", "/abandon", OPERATORS, abandon_all, "Give up on everything that a worker holds: its machine is gone."),
        records=True,
        body={"worker": "cell-3", "reason": "the cell was dismantled"},
        answer={"worker": "cell-3", "ids": [_ID]},
    ),
)
