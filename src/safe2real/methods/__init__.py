"""Methods decide the next deployment: one file for each, with the contract in `base.py`."""

from safe2real.methods.base import Decision, Method, Reason
from safe2real.methods.for_rewards import ForRewards
from safe2real.methods.sim_to_real import RewardFree, SimToReal, Unconstrained
from safe2real.methods.trial import Trial

ANY_REWARD: tuple[type[SimToReal], ...] = (SimToReal, RewardFree, Unconstrained)
"""The paper's algorithms, which have no parameters."""
ALL: tuple[type[Method], ...] = (*ANY_REWARD, ForRewards, Trial)
"""The methods of this package; a user's own method is passed as an object (docs/extending.md)."""

__all__ = [
    "ALL",
    "ANY_REWARD",
    "Decision",
    "ForRewards",
    "Method",
    "Reason",
    "RewardFree",
    "SimToReal",
    "Trial",
    "Unconstrained",
]
