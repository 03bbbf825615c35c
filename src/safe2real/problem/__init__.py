"""What is given and assumed; frozen, and what a campaign stores."""

from safe2real.problem.problem import Problem, RowAccuracy
from safe2real.problem.settings import Settings
from safe2real.problem.ties import Ties

__all__ = ["Problem", "RowAccuracy", "Settings", "Ties"]
