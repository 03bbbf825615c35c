"""Durable campaigns on a real system: ask, tell, resume, verify.

Names are found when they are asked for: what needs no database, such as how an episode is written down, can be imported
without SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safe2real.campaign.campaign import Campaign
    from safe2real.campaign.deployment import FIELD_ASSUMPTIONS, Deployment, Receipt, Withdrawal
    from safe2real.campaign.import_log import CarriedOver, Overlap, carry_over
    from safe2real.campaign.status import CampaignStatus
    from safe2real.campaign.verify import Differences, Discrepancy, Ledger

_HOMES = {
    "campaign": ("Campaign",),
    "deployment": ("FIELD_ASSUMPTIONS", "Deployment", "Receipt", "Withdrawal"),
    "import_log": ("CarriedOver", "Overlap", "carry_over"),
    "status": ("CampaignStatus",),
    "verify": ("Differences", "Discrepancy", "Ledger"),
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
