"""Which rules a record was made by: the method, and the revision of every bound.

A release that changes what a bound says raises its revision. A record of an older revision is checked with the bounds of
today: what was claimed then must still be provable, and may by now be less than could be.
"""

from __future__ import annotations

from typing import Any

from safe2real.errors import InvalidInput
from safe2real.model.validation import shown
from safe2real.problem.settings import Settings

# Of everything beside the radius that goes into a lower bound or decides what is handed out.
_DELTA = "1"  # the uncertainty of policies that are feasible on the model
_ROBUST = "1"  # the worst value over the confidence sets
_MARGIN = "1"  # the tests of the baseline's margin, and the margin that data prove


def bounds_of(settings: Settings) -> dict[str, str]:
    """Every bound that a campaign with these settings rests on, with its revision, like "adaptive/1"."""
    bounds = {
        "radius": f"{settings.radius.name}/{settings.radius.revision}",
        "uncertainty": f"{'span-bonus' if settings.span_bonus else 'bonus'}/{_DELTA}",
        "margin": f"run-tested/{_MARGIN}",
    }
    bounds |= {one.name: f"{one.name}/{one.revision}" for one in settings.refinements}
    return bounds | ({"safety": f"tv-balls/{_ROBUST}"} if settings.robust_safety else {"safety": f"uncertainty/{_DELTA}"})


def check_bounds(recorded: Any, settings: Settings) -> None:
    """Refuse what these settings cannot have been used with, and what only a newer release can check."""
    if not isinstance(recorded, dict) or recorded.keys() != bounds_of(settings).keys():
        raise InvalidInput(f"the bounds are {shown(recorded)}; a campaign names {', '.join(bounds_of(settings))}")
    for what, known in bounds_of(settings).items():
        name, revision = known.split("/")
        said = recorded[what].split("/") if isinstance(recorded[what], str) else []
        if len(said) != 2 or said[0] != name or not said[1].isdecimal():
            raise InvalidInput(f"the {what} is {shown(recorded[what])}; the settings say {name}")
        if int(said[1]) > int(revision):
            raise InvalidInput(f"the {what} is {recorded[what]}, newer than {known} here; upgrade safe2real to check it")
