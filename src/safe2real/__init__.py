"""safe2real: provably safe sim-to-real transfer for finite systems."""

from safe2real.errors import InvalidInput, OutOfOrder, Safe2RealError
from safe2real.model import CMDP, AtLeast, AtMost, Constraint, Kernel, MarkovPolicy, Mixture, Policy, Trajectory
from safe2real.planning import Solution, Status, constraint_values, evaluate, occupancy, solve, value_functions

__version__ = "0.1.0"

__all__ = [
    "CMDP",
    "AtLeast",
    "AtMost",
    "Constraint",
    "InvalidInput",
    "Kernel",
    "MarkovPolicy",
    "Mixture",
    "OutOfOrder",
    "Policy",
    "Safe2RealError",
    "Solution",
    "Status",
    "Trajectory",
    "constraint_values",
    "evaluate",
    "occupancy",
    "solve",
    "value_functions",
]
