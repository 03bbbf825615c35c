"""Durable campaigns on a real system: ask, tell, resume, verify."""

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.checker import Discrepancy
from safe2real.campaign.deployment import FIELD_ASSUMPTIONS, Deployment, Receipt, Withdrawal
from safe2real.campaign.imports import Overlap
from safe2real.campaign.ledger import Differences, Ledger
from safe2real.campaign.status import CampaignStatus
from safe2real.exploration.forecast import Forecast
from safe2real.problem.problem import Problem

__all__ = [
    "FIELD_ASSUMPTIONS",
    "Campaign",
    "CampaignStatus",
    "Deployment",
    "Differences",
    "Discrepancy",
    "Forecast",
    "Ledger",
    "Overlap",
    "Problem",
    "Receipt",
    "Withdrawal",
]
