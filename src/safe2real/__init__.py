"""safe2real: provably safe sim-to-real transfer for finite systems."""

from safe2real.campaign import Campaign, Deployment, Specification
from safe2real.envs import FiniteSystem, from_gymnasium
from safe2real.errors import Conflict, InvalidInput, OutOfOrder, Safe2RealError, Stopped, StorageFailure
from safe2real.explore import (
    Algorithm,
    Certificate,
    Learner,
    Plan,
    Proposal,
    Reason,
    Run,
    Settings,
    simulate,
)
from safe2real.model import CMDP, AtLeast, AtMost, Constraint, Kernel, MarkovPolicy, Mixture, Policy, Trajectory
from safe2real.planning import Solution, Status, constraint_values, evaluate, occupancy, solve, value_functions
from safe2real.uncertainty.confidence import LiteralRadius, Radius, ScaledRadius

__version__ = "0.1.0"

__all__ = [
    "CMDP",
    "Algorithm",
    "AtLeast",
    "AtMost",
    "Campaign",
    "Certificate",
    "Conflict",
    "Constraint",
    "Deployment",
    "FiniteSystem",
    "InvalidInput",
    "Kernel",
    "Learner",
    "LiteralRadius",
    "MarkovPolicy",
    "Mixture",
    "OutOfOrder",
    "Plan",
    "Policy",
    "Proposal",
    "Radius",
    "Reason",
    "Run",
    "Safe2RealError",
    "ScaledRadius",
    "Settings",
    "Solution",
    "Specification",
    "Status",
    "Stopped",
    "StorageFailure",
    "Trajectory",
    "constraint_values",
    "evaluate",
    "from_gymnasium",
    "occupancy",
    "simulate",
    "solve",
    "value_functions",
]
