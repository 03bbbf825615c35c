"""What happened in one run."""

from __future__ import annotations

from dataclasses import dataclass

from trial.parts import Part
from trial.statements import Kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is counted of a run."""

    number: int
    part: Part
    delta: float
    allowed: float  # how likely the run may fail by what the library says: delta, or more where trials add to it
    family: str
    radius: str
    failures: tuple[Kind, ...]  # in the order of Kind
    deployments: int
    unsafe: int  # deployments
    exploring: int  # deployments of which the baseline was only a part
    mixtures: int  # different ones among those
    plans: int  # for rewards, checked
    stopped: bool
    halted: bool  # because the data refute the margin
