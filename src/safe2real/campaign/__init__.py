"""Durable campaigns on a real system: ask, tell, resume, verify."""

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.checker import Problem
from safe2real.campaign.deployment import FIELD_ASSUMPTIONS, Deployment, Receipt, Withdrawal
from safe2real.campaign.imports import Overlap
from safe2real.campaign.ledger import Differences, Ledger
from safe2real.campaign.specification import Specification
from safe2real.campaign.status import CampaignStatus, Forecast

__all__ = [
    "FIELD_ASSUMPTIONS",
    "Campaign",
    "CampaignStatus",
    "Deployment",
    "Differences",
    "Forecast",
    "Ledger",
    "Overlap",
    "Problem",
    "Receipt",
    "Specification",
    "Withdrawal",
]
