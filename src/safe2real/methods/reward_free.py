"""Algorithm 2 of the paper: keep safe, and never trust the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from safe2real.methods.sim_to_real import SimToReal


@dataclass(frozen=True, slots=True)
class RewardFree(SimToReal):
    """The rounds of `SimToReal` on a model in which no row is ever cleared; the simulator only says where to begin."""

    name: ClassVar[str] = "reward-free safe RL"
    reuses_simulator: ClassVar[bool] = False
