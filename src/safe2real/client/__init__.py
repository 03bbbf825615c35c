"""Client of a campaign on a service: `RemoteCampaign(url, token)` has the interface of `Campaign`."""

from safe2real.client.remote import RemoteCampaign

__all__ = ["RemoteCampaign"]
