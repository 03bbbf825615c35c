"""Durable campaigns on a real system: ask, tell, resume, verify.

Names are found when they are asked for: what needs no database, such as how an episode is written down, can be imported
without SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safe2real.campaign.campaign import Campaign
    from safe2real.campaign.carrying_over import CarriedOver, carry_over
    from safe2real.campaign.checker import Discrepancy
    from safe2real.campaign.deployment import FIELD_ASSUMPTIONS, Deployment, Receipt, Withdrawal
    from safe2real.campaign.imports import Overlap
    from safe2real.campaign.ledger import Differences, Ledger
    from safe2real.campaign.status import CampaignStatus

_HOMES = {
    "campaign": ("Campaign",),
    "carrying_over": ("CarriedOver", "carry_over"),
    "checker": ("Discrepancy",),
    "deployment": ("FIELD_ASSUMPTIONS", "Deployment", "Receipt", "Withdrawal"),
    "imports": ("Overlap",),
    "ledger": ("Differences", "Ledger"),
    "status": ("CampaignStatus",),
}

__all__ = [
    "FIELD_ASSUMPTIONS", "Campaign", "CampaignStatus", "CarriedOver", "Deployment", "Differences", "Discrepancy", "Ledger",
    "Overlap", "Receipt", "Withdrawal", "carry_over",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
