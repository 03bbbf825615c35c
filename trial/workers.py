"""Many runs on several cores or machines, in order: what comes out does not depend on how many there are."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

from safe2real import parallel
from safe2real.radii import Adaptive
from safe2real.refinements import DEFAULT
from trial.examine import examine
from trial.flaws import Flaw
from trial.outcome import Outcome
from trial.parts import Part
from trial.routes import travel
from trial.systems import DELTAS, Case, Family, draw_case

_AT_ONCE = 4  # runs that one task does, at most
_FAMILIES = {
    Flaw.FALSE_TIES: Family.TIED,
    Flaw.BY_OUTCOME: Family.COINS,
    Flaw.POLICY_BY_POLICY: Family.COINS,
    Flaw.SAME_SEEDS: Family.COINS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which runs are made: those of one part, as they are or with a flaw of that part."""

    seed: int
    longest: int  # rounds
    part: Part = Part.LONG
    flaw: Flaw = Flaw.NOTHING

    def case(self, number: int) -> Case:
        """The case of a run.

        One with a flaw has the smallest delta, where failures are told from chance soonest; a short one also has the
        smallest sets there are, and a family in which the flaw matters.
        """
        if self.flaw is Flaw.NOTHING:
            return draw_case(self.seed, number, self.longest, self.part)
        false_ties, own = self.flaw is Flaw.FALSE_TIES, len(DELTAS) * number
        case = draw_case(self.seed, own, self.longest, self.part, family=_FAMILIES.get(self.flaw), false_ties=false_ties)
        if self.part is Part.LONG:
            return case
        tight = replace(case.settings, radius=Adaptive(), refinements=DEFAULT, robust_safety=True, span_bonus=True)
        return replace(case, settings=tight)

    def outcome(self, number: int) -> Outcome:
        """Run one case."""
        case = self.case(number)
        if self.part is Part.LONG:
            return examine(case, self.flaw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # refutations are counted
            return travel(case, self.part, self.flaw)

    def outcomes(self, numbers: range) -> list[Outcome]:
        """Run several, without the package's log of refutations."""
        logger = logging.getLogger("safe2real")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            return [self.outcome(number) for number in numbers]
        finally:
            logger.setLevel(level)


def compile_everything() -> None:
    """Have all compiled code ready and kept on disk, so that the processes do not all compile it."""
    for part in Part:
        Plan(0, 100, part).outcomes(range(12 if part is Part.LONG else 3))


def run_in_order(plan: Plan, runs: int | None = None) -> Iterator[Outcome]:
    """The outcomes of cases 0, 1, 2, ...: of as many, or without end; then a few more than are taken may be run.

    Where they are run is what `parallel.workers` says.
    """
    starts = itertools.count(0, _AT_ONCE) if runs is None else range(0, runs, _AT_ONCE)
    tasks = (range(first, first + _AT_ONCE if runs is None else min(first + _AT_ONCE, runs)) for first in starts)
    ended = parallel.run(plan.outcomes, tasks, ordered=True)
    try:
        for _, outcomes in ended:
            yield from outcomes
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of the runs that are given up
            ended.close()
