"""Why a proposal is safe, in numbers and with the assumptions it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from safe2real.model.checks import Floats
from safe2real.model.wording import Wording
from safe2real.standing import Assumption, Doubt, Standing, standing_of

_PREFIXES = {
    Standing.HEURISTIC: "HEURISTIC, not a guarantee",
    Standing.REFUTED: "REFUTED, not a guarantee",
    Standing.INCOMPLETE: "INCOMPLETE, not a guarantee",
}


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """A statement about the exact value V_c of one deployed mixture on the real system.

    With probability at least 1 - delta over the whole run, every deployed mixture has V_c >= `lower_bounds` >=
    `thresholds`. The guarantee is in expectation, over the coin of the mixture too: once the coin shows the candidate,
    that policy alone is only guaranteed threshold - Delta. Where there are `doubts` nothing here is a guarantee.
    """

    lower_bounds: Floats  # [K] on V_c of the mixture
    thresholds: Floats  # [K]
    assumptions: tuple[Assumption, ...]
    doubts: tuple[Doubt, ...]  # empty when certified
    wordings: tuple[Wording, ...] = ()  # [K] or more: how the constraints were written

    @property
    def standing(self) -> Standing:
        """What the bounds are worth."""
        return standing_of(self.doubts)

    @property
    def certified(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.doubts

    @property
    def reaches(self) -> bool:
        """Whether the bounds reach every threshold (to rounding), whatever they are worth."""
        same = np.shape(self.lower_bounds) == np.shape(self.thresholds)  # else a bound that is not there would be met
        return same and bool(np.all(self.lower_bounds >= self.thresholds - 1e-9))

    @property
    def holds(self) -> bool:
        """Whether every threshold is reached by bounds that are certified: what is deployed may rely on this alone."""
        return self.certified and self.reaches

    @property
    def reason_uncertified(self) -> str:
        """The doubts in words; empty when certified."""
        return "; ".join(map(str, self.doubts))

    def assuming(self, more: Sequence[Assumption]) -> Certificate:
        """The same statement, resting on `more` besides."""
        return replace(self, assumptions=(*self.assumptions, *more)) if more else self

    def statement(self) -> str:
        """The bounds alone, in words, whatever they are worth."""
        return ", ".join(
            f"V_c >= {low:.6g} (threshold {limit:.6g})"
            for low, limit in zip(self.lower_bounds, self.thresholds, strict=True)
        )

    def describe(self) -> str:
        """The statement in words."""
        if len(self.thresholds) == 0 and self.standing is not Standing.REFUTED:
            return "No safety constraint is enforced, so nothing is promised about safety."
        bounds = self.statement()
        if not self.reaches:
            return f"NOT SAFE: the bound misses a threshold. {bounds}. {self.reason_uncertified}"
        if not self.certified:
            estimated = f" Estimated: {bounds}." if bounds else ""
            return f"{_PREFIXES[self.standing]} ({self.reason_uncertified}).{estimated}"
        return f"Certified: {bounds}, provided that " + "; ".join(map(str, self.assumptions)) + "."
