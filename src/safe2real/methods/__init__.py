"""What to deploy next: one method in each file, `base.py` is the contract."""

from safe2real.methods.base import Decision, Method, Reason
from safe2real.methods.reward_free import RewardFree
from safe2real.methods.sim_to_real import SimToReal
from safe2real.methods.unconstrained import Unconstrained

ALL: tuple[type[Method], ...] = (SimToReal, RewardFree, Unconstrained)
"""Those of this package; one from elsewhere is passed as an object (docs/extending.md)."""

__all__ = ["ALL", "Decision", "Method", "Reason", "RewardFree", "SimToReal", "Unconstrained"]
