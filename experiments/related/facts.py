"""What is to be known of a related system before its numbers are read: what it promises, was told, and how true it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fidelity(StrEnum):
    """How near an implementation is to what its authors published."""

    EXACT = "exact"
    """Their algorithm with their constants; visits are pooled over steps where the system is stationary, which keeps their
    bounds (docs/comparison-proofs.md)."""
    ADAPTED = "adapted"
    """Something that they published does not fit here or is not printed, and was replaced as `Facts.differs` says."""
    VARIANT = "variant"
    """The same idea by other means."""
    RECONSTRUCTION = "reconstruction"
    """From a description alone."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A related system, and what became of it here."""

    system: str  # as its authors call it
    citation: str
    key: str  # of the paper's bibliography; empty where the paper does not cite it
    fidelity: Fidelity
    safe: bool  # whether every deployment meets the constraints, by its own proof
    any_reward: bool  # whether its result serves every reward; otherwise it has to be run for each
    uses_simulator: bool
    stops: bool  # whether it ends by itself; otherwise it is given a number of episodes
    told: tuple[str, ...]  # what it must be told besides rewards, constraints and delta
    differs: str = ""  # from what was published

    @property
    def label(self) -> str:
        """What tables call it: never the bare name where something differs."""
        return self.system if self.fidelity is Fidelity.EXACT else f"{self.system} ({self.fidelity})"

    @property
    def structure(self) -> str:
        """What tables call it when its constants are replaced by a radius of this library."""
        return f"the structure of {self.system}, our radius"


@dataclass(frozen=True, slots=True)
class NotRun:
    """A related system that is named and not run."""

    system: str
    citation: str
    key: str
    why: str


NOT_RUN = (
    NotRun(
        "DOPE+",
        "Yu, Lee, Overman, Lee: Improved Regret Bound for Safe Reinforcement Learning via Tighter Cost Pessimism and Reward "
        "Optimism. Reinforcement Learning Journal (RLC), 2025",
        "yu2025improved",
        "not run: its constants were not found in a public source; what was searched for stands on this page",
    ),
    NotRun(
        "MIN-UCB-VI / MAX-LCB-VI",
        "Wu, Zheng, Zuo, Xu, Kong. arXiv, 2026",
        "wu2026unified",
        "not run: its constants were not found in a public source; what was searched for stands on this page",
    ),
)
