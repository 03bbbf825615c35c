"""What to deploy next, and why it is safe."""

from safe2real.exploration.certificate import Certificate
from safe2real.exploration.learner import Learner, Proposal, Reason
from safe2real.exploration.plan import Plan
from safe2real.exploration.rollout import explore
from safe2real.exploration.settings import Algorithm, Settings
from safe2real.exploration.simulate import Run, collect, roll_out, simulate

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
