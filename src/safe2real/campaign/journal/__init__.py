"""Where a campaign's events are kept."""

from safe2real.errors import needed_for

with needed_for("campaigns", "campaign"):
    import sqlalchemy  # noqa: F401 (its users are all in this package)
