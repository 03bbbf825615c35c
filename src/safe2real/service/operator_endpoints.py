"""What operators decide on the way: rewards to explore for, a policy on trial, a newer format of the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import Receipt
from safe2real.errors import InvalidInput
from safe2real.model.serialization import array_from_json, mixture_from_json
from safe2real.model.validation import shown
from safe2real.service.request import OPERATORS, Call, Endpoint


def declare(campaign: Campaign, call: Call) -> Any:
    """All or nothing; what is out stays out."""
    given = call.document(optional=("rewards", "drop"))
    drop = given.get("drop", [])
    if not isinstance(drop, list):
        raise InvalidInput(f"drop is {shown(drop)}; give a list of names")
    receipt = campaign.declare(_rewards(given), drop=drop)
    return {**_brief(receipt), "rewards": [one.name for one in campaign.status(forecast=False).rewards]}


def begin_trial(campaign: Campaign, call: Call) -> Any:
    given = call.document(required=("policy", "delta"), optional=("rewards", "target"))
    model, document = campaign.problem.simulator, given["policy"]
    if isinstance(document, dict) and "policy" in document:  # the whole answer of plan
        document = document["policy"]
    tried = mixture_from_json(document, "policy", horizon=model.horizon, num_states=model.num_states)
    target = given.get("target")
    if not isinstance(target, Mapping | None):
        raise InvalidInput(f"target is {shown(target)}; give an object, a floor for each name")
    receipt = campaign.begin_trial(tried, delta=given["delta"], rewards=_rewards(given), target=target)
    return _with_trial(campaign, receipt)


def end_trial(campaign: Campaign, call: Call) -> Any:
    call.document()
    return _with_trial(campaign, campaign.end_trial())


def migrate(campaign: Campaign, call: Call) -> Any:
    """No event is changed; programs of older releases refuse the record from then on."""
    call.document()
    before = campaign.format
    return {"migrated": campaign.migrate(), "from": before, "to": campaign.format}


def _rewards(given: Mapping[str, Any]) -> dict[str, Any] | None:
    rewards = given.get("rewards")
    if rewards is None:
        return None
    if not isinstance(rewards, Mapping):
        raise InvalidInput(f"rewards are {shown(rewards)}; give an object, an array for each name")
    return {name: array_from_json(value, f"rewards.{name[:40]}") for name, value in rewards.items()}


def _with_trial(campaign: Campaign, receipt: Receipt) -> dict[str, Any]:
    found = campaign.status(forecast=False).trial
    return {**_brief(receipt), "trial": None if found is None else asdict(found)}


def _brief(receipt: Receipt) -> dict[str, Any]:
    return {"sequence": receipt.sequence, "new": receipt.new}


_TRIAL = {"number": 1, "running": True, "episodes": 0, "floors": {"upright": 0.0}, "delta": 0.01}
ENDPOINTS = (
    Endpoint(
        *("POST", "/declare", OPERATORS, declare, "Add rewards to those that are explored for, or drop some."),
        records=True,
        body={"rewards": {"pick": [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]}, "drop": ["place"]},
        answer={"sequence": 36, "new": True, "rewards": ["pick"]},
    ),
    Endpoint(
        *("POST", "/trial/begin", OPERATORS, begin_trial, "Put one policy on trial, from the next deployment on."),
        records=True,
        body={"policy": {"kind": "deterministic", "num_actions": 2, "actions": [0, 1, 0]}, "delta": 0.01},
        answer={"sequence": 37, "new": True, "trial": _TRIAL},
    ),
    Endpoint(
        *("POST", "/trial/end", OPERATORS, end_trial, "End the trial; what it has shown stays true."),
        records=True,
        body={},
        answer={"sequence": 38, "new": True, "trial": {**_TRIAL, "running": False}},
    ),
    Endpoint(
        *("POST", "/migrate", OPERATORS, migrate, "Bring the record to the format of this release."),
        records=True,
        body={},
        answer={"migrated": True, "from": 1, "to": 2},
    ),
)
