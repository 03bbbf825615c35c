"""Why a proposal is safe, in numbers and with the assumptions it rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safe2real.model.checks import Floats


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """A statement about the exact value V_c of one deployed mixture on the real system.

    With probability at least 1 - delta over the whole run, every deployed mixture has V_c >= `lower_bounds` >=
    `thresholds`. The guarantee is in expectation, over the coin of the mixture too: once the coin shows the candidate,
    that policy alone is only guaranteed threshold - Delta. When `certified` is False the numbers were computed with
    constants that carry no guarantee, and nothing here is one.
    """

    certified: bool
    lower_bounds: Floats  # [K] on V_c of the mixture
    thresholds: Floats  # [K]
    assumptions: tuple[str, ...]
    reason_uncertified: str  # empty when certified

    @property
    def holds(self) -> bool:
        """Whether the bound reaches every threshold (to rounding)."""
        return bool(np.all(self.lower_bounds >= self.thresholds - 1e-9))

    def describe(self) -> str:
        """The statement in words."""
        if len(self.thresholds) == 0:
            return "No safety constraint is enforced, so nothing is promised about safety."
        bounds = ", ".join(
            f"V_c >= {low:.6g} (threshold {limit:.6g})"
            for low, limit in zip(self.lower_bounds, self.thresholds, strict=True)
        )
        if not self.holds:
            return f"NOT SAFE: the bound misses a threshold. {bounds}. {self.reason_uncertified}"
        if not self.certified:
            return f"HEURISTIC, not a guarantee ({self.reason_uncertified}). Estimated: {bounds}."
        return f"Certified: {bounds}, provided that " + "; ".join(self.assumptions) + "."
