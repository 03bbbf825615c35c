"""What is broken on purpose, to see that the trial notices."""

from __future__ import annotations

from enum import StrEnum

from trial.parts import Part
from trial.statements import Kind


class Flaw(StrEnum):
    """One thing that is wrong, and that the library is not told."""

    NOTHING = "nothing"
    HALF_RADIUS = "every radius halved"
    MARGIN = "margin overstated, tests of it switched off"
    TESTED_MARGIN = "margin overstated"
    """Here the tests must notice."""
    UNDERSTATED = "`within` understated"
    FALSE_TIES = "false ties called exact, tests of them switched off"
    SMALL_SUPPORT = "support too small, steps outside it unseen"
    BY_OUTCOME = "bad episodes abandoned"
    CARRIED_TWICE = "episodes carried over several times"
    POLICY_BY_POLICY = "logs imported policy by policy, the luckiest first"
    SAME_SEEDS = "episodes of the same seeds counted several times"
    ONE_LOG = "one log as simulator and as data"
    LUCKY_POLICY = "bad episodes of the candidate left out"

    @property
    def part(self) -> Part:
        """In which it is tried."""
        return _PARTS.get(self, Part.LONG)

    @property
    def overstates(self) -> bool:
        return self in (Flaw.MARGIN, Flaw.TESTED_MARGIN)

    @property
    def told(self) -> frozenset[Kind]:
        """What is no finding here: the learner repeats what it was told falsely, or notices that it is false."""
        if self.overstates:
            return frozenset({Kind.CERTIFICATE, Kind.MARGIN, Kind.HALTED, Kind.REFUTED})
        noticed = self in (Flaw.UNDERSTATED, Flaw.FALSE_TIES, Flaw.SMALL_SUPPORT)
        return frozenset({Kind.HALTED, Kind.REFUTED}) if noticed else frozenset()


_PARTS = {
    Flaw.FALSE_TIES: Part.ASKED,
    Flaw.SMALL_SUPPORT: Part.ASKED,
    Flaw.BY_OUTCOME: Part.CAMPAIGN,
    Flaw.CARRIED_TWICE: Part.CARRIED,
    Flaw.POLICY_BY_POLICY: Part.LOGS,
    Flaw.SAME_SEEDS: Part.SEEDS,
    Flaw.ONE_LOG: Part.FITTED,
    Flaw.LUCKY_POLICY: Part.POLICY,
}
