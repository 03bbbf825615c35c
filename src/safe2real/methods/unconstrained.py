"""Algorithm 3 of the paper: reuse the simulator, ignore safety while exploring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.methods.sim_to_real import SimToReal


@dataclass(frozen=True, slots=True)
class Unconstrained(SimToReal):
    """The rounds of `SimToReal` without constraints: the candidate is deployed as it is. To compare with, not to deploy."""

    name: ClassVar[str] = "unconstrained sim-to-real RL"
    keeps_safe: ClassVar[bool] = False

    @property
    def can_be_rechecked(self) -> bool:
        """Never: it claims nothing of what it deploys."""
        return False  # nothing is claimed of what it deploys
