"""One place that many machines ask and tell over HTTP: campaigns of a folder or a database, with names and rights."""

from safe2real.errors import needed_for

with needed_for("services", "service"):
    import fastapi  # noqa: F401
