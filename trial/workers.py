"""Many runs on several cores or machines, in order: what comes out does not depend on how many there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from safe2real.engines.base import Engine, in_order
from safe2real.engines.job import Job
from trial.examine import Flaw, Outcome, examine
from trial.systems import draw_case

_AT_ONCE = 8  # runs that one task does


@dataclass(frozen=True, slots=True)
class Plan:
    """Which runs are made."""

    seed: int
    longest: int  # rounds
    flaw: Flaw = Flaw.NOTHING

    def outcome(self, number: int) -> Outcome:
        """Run one case."""
        return examine(draw_case(self.seed, number, self.longest), self.flaw)

    def outcomes(self, numbers: range) -> list[Outcome]:
        """Run several."""
        return [self.outcome(number) for number in numbers]


def compile_everything() -> None:
    """Have all compiled code ready and kept on disk, so that the processes do not all compile it."""
    plan = Plan(seed=0, longest=100)
    for number in range(12):
        plan.outcome(number)


def run_in_order(plan: Plan, engine: Engine) -> Iterator[Outcome]:
    """The outcomes of cases 0, 1, 2, ... without end; a few more than are taken may be run."""
    tasks = (range(first, first + _AT_ONCE) for first in itertools.count(0, _AT_ONCE))
    for outcomes in in_order(engine.run(Job(plan.outcomes, compile_everything), tasks)):
        yield from outcomes
