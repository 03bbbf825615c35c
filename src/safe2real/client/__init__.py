"""A campaign that a service keeps, used as if it were here: `RemoteCampaign(url, token)`."""

from safe2real.client.remote import RemoteCampaign

__all__ = ["RemoteCampaign"]
