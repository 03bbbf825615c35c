"""Durable campaigns on a real system: ask, tell, resume, verify.

Names are found when they are asked for: what needs no database, such as how an episode is written down, can be imported
without SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safe2real.campaign.campaign import Campaign
    from safe2real.campaign.checker import Discrepancy
    from safe2real.campaign.deployment import FIELD_ASSUMPTIONS, Deployment, Receipt, Withdrawal
    from safe2real.campaign.imports import Overlap
    from safe2real.campaign.ledger import Differences, Ledger
    from safe2real.campaign.status import CampaignStatus

_HOMES = {
    "FIELD_ASSUMPTIONS": "campaign.deployment",
    "Campaign": "campaign.campaign",
    "CampaignStatus": "campaign.status",
    "Deployment": "campaign.deployment",
    "Differences": "campaign.ledger",
    "Discrepancy": "campaign.checker",
    "Ledger": "campaign.ledger",
    "Overlap": "campaign.imports",
    "Receipt": "campaign.deployment",
    "Withdrawal": "campaign.deployment",
}

__all__ = [
    "FIELD_ASSUMPTIONS",
    "Campaign",
    "CampaignStatus",
    "Deployment",
    "Differences",
    "Discrepancy",
    "Ledger",
    "Overlap",
    "Receipt",
    "Withdrawal",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"safe2real.{_HOMES[name]}"), name)
