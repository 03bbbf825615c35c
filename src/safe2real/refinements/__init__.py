"""What makes the confidence sets smaller than the paper's, each with a name and a revision; proofs are in docs/samples.md.

All of them are certified: they change how the probability of failure is spent, never how much of it there is. Settings list
those that are used; none of them is the paper.
"""

from safe2real.refinements.base import Refinement, find
from safe2real.refinements.chain import Chain
from safe2real.refinements.clearing import BelowGap, SequentialClearing
from safe2real.refinements.likelihood import LikelihoodBalls
from safe2real.refinements.near import NearSets
from safe2real.refinements.open_rows import OpenRows

ALL: tuple[type[Refinement], ...] = (BelowGap, SequentialClearing, NearSets, OpenRows, LikelihoodBalls, Chain)
"""Those of this package."""
DEFAULT: tuple[Refinement, ...] = (SequentialClearing(), NearSets(), OpenRows(), LikelihoodBalls(), Chain())
"""The tightest that are certified."""

__all__ = [
    "ALL",
    "DEFAULT",
    "BelowGap",
    "Chain",
    "LikelihoodBalls",
    "NearSets",
    "OpenRows",
    "Refinement",
    "SequentialClearing",
    "find",
]
