"""The HTTP service: the campaigns of a folder or a database, with tokens for workers, operators and auditors."""

from safe2real.errors import needed_for

with needed_for("services", "service"):
    import fastapi  # noqa: F401
