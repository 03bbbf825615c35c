"""Many runs on several cores, in order: what comes out does not depend on how many cores there are."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from trial.examine import Flaw, Outcome, examine
from trial.systems import draw_case

_AT_ONCE = 8  # runs that one task does
_AHEAD = 3  # tasks per core that wait their turn


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


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """As many processes, or none where one is enough."""
    if jobs == 1:
        yield None
        return
    # Started afresh and not forked: a fork would inherit threads of libraries that do not survive it.
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_in_order(plan: Plan, pool: Executor | None, jobs: int) -> Iterator[Outcome]:
    """The outcomes of cases 0, 1, 2, ... without end; a few more than are taken may be run."""
    waiting: deque[Future[list[Outcome]]] = deque()
    try:
        for first in itertools.count(0, _AT_ONCE):
            task = range(first, first + _AT_ONCE)
            if pool is None:
                yield from map(plan.outcome, task)
                continue
            waiting.append(pool.submit(plan.outcomes, task))
            if len(waiting) >= _AHEAD * jobs:
                yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
