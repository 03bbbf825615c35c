"""A PostgreSQL server of our own, as the campaigns' tests have it."""

from tests.campaign.conftest import server

__all__ = ["server"]
