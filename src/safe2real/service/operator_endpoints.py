"""What operators decide on the way: rewards to explore for, a newer format of the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import Receipt
from safe2real.errors import InvalidInput
from safe2real.model.serialization import array_from_json
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


def _rewards(given: Mapping[str, Any]) -> dict[str, Any] | None:
    rewards = given.get("rewards")
    if rewards is None:
        return None
    if not isinstance(rewards, Mapping):
        raise InvalidInput(f"rewards are {shown(rewards)}; give an object, an array for each name")
    return {name: array_from_json(value, f"rewards.{name[:40]}") for name, value in rewards.items()}


def _brief(receipt: Receipt) -> dict[str, Any]:
    return {"sequence": receipt.sequence, "new": receipt.new}


ENDPOINTS = (
    Endpoint(
        *("POST", "/declare", OPERATORS, declare, "Add rewards to those that are explored for, or drop some."),
        records=True,
        body={"rewards": {"pick": [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]}, "drop": ["place"]},
        answer={"sequence": 36, "new": True, "rewards": ["pick"]},
    ),
)
