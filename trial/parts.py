"""The ways in which the library is used, each tried by runs of its own."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """A way to use the library; the runs of each are judged by themselves."""

    LONG = "compiled runs"
    """`simulate`: nearly all deployments."""
    ASKED = "ask and tell"
    """Every method, with ties too; the learner is saved and loaded on the way."""
    CAMPAIGN = "campaign"
    """Several workers who tell out of order, late or never; the campaign is opened anew on the way."""
    CARRIED = "carry-over"
    """A campaign that takes over the episodes of another, twice."""
    LOGS = "logs"
    """Logs of policies that were chosen by the logs of others, imported in one step."""
    SEEDS = "repeated seeds"
    """Learners of one seed on a seeded environment, each of which imports the episodes of those before it."""
    FITTED = "fitted simulator"
    """Half of a log is the simulator, the other half is imported."""
    POLICY = "policy trial"


ROUTES = tuple(part for part in Part if part is not Part.LONG)
