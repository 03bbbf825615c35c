"""The fixed inputs and assumptions of a run, as a campaign stores them."""

from safe2real.problem.problem import Problem, RowAccuracy
from safe2real.problem.settings import Settings
from safe2real.problem.ties import Ties

__all__ = ["Problem", "RowAccuracy", "Settings", "Ties"]
