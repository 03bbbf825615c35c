"""safe2real: provably safe sim-to-real transfer for finite systems."""

from safe2real.campaign import Campaign, Deployment, Problem
from safe2real.errors import (
    Conflict,
    Halted,
    InvalidInput,
    OutOfOrder,
    OutsideModel,
    Safe2RealError,
    Stopped,
    StorageFailure,
)
from safe2real.evidence.confidence import LiteralRadius, Radius, ScaledRadius
from safe2real.exploration import (
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
from safe2real.preflight import Guess, Preflight, check_problem
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode, Standing
from safe2real.systems import Discretised, FiniteSystem, from_gymnasium
from safe2real.systems.estimate import estimate_model
from safe2real.systems.estimated import EstimatedModel
from safe2real.version import __version__

__all__ = [
    "CMDP",
    "Algorithm",
    "Assumption",
    "AssumptionCode",
    "AtLeast",
    "AtMost",
    "Campaign",
    "Certificate",
    "Conflict",
    "Constraint",
    "Deployment",
    "Discretised",
    "Doubt",
    "DoubtCode",
    "EstimatedModel",
    "FiniteSystem",
    "Guess",
    "Halted",
    "InvalidInput",
    "Kernel",
    "Learner",
    "LiteralRadius",
    "MarkovPolicy",
    "Mixture",
    "OutOfOrder",
    "OutsideModel",
    "Plan",
    "Policy",
    "Preflight",
    "Problem",
    "Proposal",
    "Radius",
    "Reason",
    "Run",
    "Safe2RealError",
    "ScaledRadius",
    "Settings",
    "Solution",
    "Standing",
    "Status",
    "Stopped",
    "StorageFailure",
    "Trajectory",
    "__version__",
    "check_problem",
    "constraint_values",
    "estimate_model",
    "evaluate",
    "from_gymnasium",
    "occupancy",
    "simulate",
    "solve",
    "value_functions",
]
