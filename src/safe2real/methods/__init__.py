"""What to deploy next: one method in each file, `base.py` is the contract."""

from safe2real.methods.base import Decision, Method, Reason
from safe2real.methods.reward_free import RewardFree
from safe2real.methods.sim_to_real import SimToReal
from safe2real.methods.trial import Trial
from safe2real.methods.unconstrained import Unconstrained

ALL: tuple[type[Method], ...] = (SimToReal, RewardFree, Unconstrained)
"""The paper's algorithms, which need no parameter; one from elsewhere is passed as an object (docs/extending.md)."""
OWN: tuple[type[Method], ...] = (*ALL, Trial)
"""Every method of this package: what it proves is not an assumption, and records may name it."""

__all__ = ["ALL", "OWN", "Decision", "Method", "Reason", "RewardFree", "SimToReal", "Trial", "Unconstrained"]
