"""What to deploy next, and why it is safe."""

from safe2real.explore.certificate import Certificate
from safe2real.explore.learner import Learner, Proposal, Reason
from safe2real.explore.plan import Plan
from safe2real.explore.rollout import explore
from safe2real.explore.settings import Algorithm, Settings
from safe2real.explore.simulate import Run, collect, roll_out, simulate

__all__ = [
    "Algorithm",
    "Certificate",
    "Learner",
    "Plan",
    "Proposal",
    "Reason",
    "Run",
    "Settings",
    "collect",
    "explore",
    "roll_out",
    "simulate",
]
