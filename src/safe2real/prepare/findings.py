"""What a check before the first deployment finds: one statement each, with its numbers and, where needed, its cure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from safe2real.campaign.specification import Specification
from safe2real.errors import InvalidInput
from safe2real.explore.settings import Settings
from safe2real.model.checks import Floats, finite_floats, finite_number, probability_of_failure
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.uncertainty.mismatch import reach_of


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """Nothing is unsafe, but it costs something, or it is open."""
    FAILURE = "failure"
    """A guarantee does not stand, or there is nothing to gain: mend it first."""


class Standing(StrEnum):
    """What the numbers of a rehearsal are worth; only the first is a guarantee, and only on that reality."""

    CERTIFIED = "certified"
    HEURISTIC = "HEURISTIC, not guaranteed"
    BROKEN = "not guaranteed, an assumption fails"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: Level
    what: str
    cure: str = ""  # empty where nothing is to be mended
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        mended = f" Cure: {self.cure}." if self.cure else ""
        return f"{self.level.upper():8} {self.name}: {self.what}.{mended}"


def check_readable(specification: Specification) -> None:
    """Refuse what no statement can be made about: what is no number, or has the shape of another system.

    Numbers that are merely out of their range are findings, each with its cure.
    """
    if not isinstance(specification, Specification):
        raise InvalidInput(
            f"specification is a {type(specification).__name__}; give Specification(model, baseline, settings), of a finite "
            "system Specification(system.model, baseline, settings, known=system.known)"
        )
    for name, kind in (("simulator", CMDP), ("baseline", MarkovPolicy), ("settings", Settings)):
        part = getattr(specification, name)
        if not isinstance(part, kind):
            raise InvalidInput(f"{name} of the specification is a {type(part).__name__}; give a {kind.__name__}")
    settings, kernel = specification.settings, specification.simulator.kernel
    for name in ("calibrated_gap", "mismatch_gap", "tolerance", "bonus_scale", "replan_growth"):
        finite_number(name, getattr(settings, name))
    probability_of_failure("delta", settings.delta)
    margins_of(specification)
    rows = (*(() if kernel.horizon is None else (kernel.horizon,)), kernel.num_states, kernel.num_actions)
    known = None if specification.known is None else np.asarray(specification.known)
    if known is not None and (known.shape != rows or known.dtype != np.bool_):
        raise InvalidInput(f"known has shape {known.shape} and type {known.dtype}; give booleans of shape {rows}")
    reach_of(specification.support, kernel)


def margins_of(specification: Specification) -> Floats:
    """The stated margins [K]."""
    given, constraints = finite_floats("margin", specification.settings.margin), specification.simulator.num_constraints
    if given.shape not in ((), (constraints,)):
        raise InvalidInput(f"margin has shape {given.shape}; give one number, or one per constraint ({constraints})")
    return np.broadcast_to(given, (constraints,)).copy()


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
