"""CMDPs and their parts: transition rows, constraints, policies and episodes (numpy only)."""

from safe2real.model.cmdp import CMDP, AtLeast, AtMost, Constraint
from safe2real.model.kernel import Kernel
from safe2real.model.policy import Agent, MarkovPolicy, Mixture, Policy
from safe2real.model.trajectory import Trajectory

__all__ = ["CMDP", "Agent", "AtLeast", "AtMost", "Constraint", "Kernel", "MarkovPolicy", "Mixture", "Policy", "Trajectory"]
