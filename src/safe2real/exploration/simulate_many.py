"""Whole studies over seeds in one call: coverage, comparisons, how long a method takes.

A run is compiled code from its first round to its last, which needs nothing of the interpreter, so threads of one process
run side by side: nothing is copied, nothing is started. Each run is the one that `simulate` would make, bit for bit, because
every random number in it is a function of (seed, round, index) and runs share nothing that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from safe2real import parallel
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import Run, simulate
from safe2real.methods.base import Method
from safe2real.model.kernel import Kernel
from safe2real.model.validation import positive_integer, seed_number
from safe2real.problem.problem import Problem
from safe2real.progress import Report, progress_bar

Kept = TypeVar("Kept")


@overload
def simulate_many(
    problem: Problem,
    seeds: Iterable[int],
    real: Kernel,
    *,
    method: Method | None = None,
    max_rounds: int = 1_000_000,
    jobs: int = -1,
    progress: Report | bool | None = None,
) -> list[Run]: ...


@overload
def simulate_many(
    problem: Problem,
    seeds: Iterable[int],
    real: Kernel,
    *,
    method: Method | None = None,
    max_rounds: int = 1_000_000,
    keep: Callable[[Learner, Run], Kept],
    jobs: int = -1,
    progress: Report | bool | None = None,
) -> list[Kept]: ...


def simulate_many(
    problem: Problem,
    seeds: Iterable[int],
    real: Kernel,
    *,
    method: Method | None = None,
    max_rounds: int = 1_000_000,
    keep: Callable[[Learner, Run], Any] | None = None,
    jobs: int = -1,
    progress: Report | bool | None = None,
) -> list[Any]:
    """A simulated run for every seed, several at a time: each equal to the one that `simulate` makes, bit for bit.

    Args:
        problem: what is given and assumed; its seed is replaced by each of `seeds`.
        seeds: one run for each.
        real: the rows of the "real" system.
        method: what is deployed by; `methods.SimToReal()` unless another is given.
        max_rounds: of each run at most.
        keep: (learner, run) -> what is kept of a run, done where it ran; so plans can be made and evaluated there, and no
            more learners are in memory than jobs. The run itself if None.
        jobs: runs at a time, by threads of this process; -1 for one per core. A method without compiled rounds gains little
            by threads. Within `joblib.parallel_config(backend=...)` or `parallel.workers(...)` the runs go to that backend's
            workers instead; `keep` must be a function of a module then.
        progress: shows a bar with the time left: True always, False never, None on a terminal; or a function that is told
            (runs done, in all).

    Returns:
        What was kept, in the order of `seeds`.

    Raises:
        InvalidInput: as of `simulate`; runs that have not begun are given up.

    Example:
        >>> runs = simulate_many(problem, range(1_000), real, max_rounds=10_000)
        >>> sum(run.unsafe_share(problem.simulator.thresholds) > 0.0 for run in runs)
        0
    """
    listed = [seed_number(f"seeds[{i}]", seed) for i, seed in enumerate(seeds)]
    study = _Study(problem, real, method, positive_integer("max_rounds", max_rounds), keep)
    if jobs != -1:
        positive_integer("jobs", jobs)
    kept: list[Any] = [None] * len(listed)
    ended = parallel.run(study, listed, jobs=jobs, compiled=True)
    with progress_bar("runs", progress) as report:
        for done, (number, result) in enumerate(ended, start=1):
            kept[number] = result
            if report is not None:
                report(done, len(listed))
    return kept


@dataclass(frozen=True, eq=False, slots=True)
class _Study(Generic[Kept]):
    """From a seed to what is kept of its run."""

    problem: Problem
    real: Kernel
    method: Method | None
    max_rounds: int
    keep: Callable[[Learner, Run], Kept] | None

    def __call__(self, seed: int) -> Kept | Run:
        problem = replace(self.problem, settings=replace(self.problem.settings, seed=seed))
        learner = Learner(problem, self.method, trust_margin=True)  # on `real`, which is known, the run shows what is true
        run = simulate(learner, self.real, max_rounds=self.max_rounds)
        return run if self.keep is None else self.keep(learner, run)
