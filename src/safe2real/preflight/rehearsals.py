"""All rehearsals of one check: they share the time, the rewards and the progress that is shown.

They are done one after the other in this process, or side by side by an engine. The outcome is the same, unless the time
runs out: how far a rehearsal comes then depends on how fast it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from safe2real.engines.base import Engine
from safe2real.engines.job import Job
from safe2real.exploration.prepare import compile_everything
from safe2real.methods.base import Method
from safe2real.model.kernel import Kernel
from safe2real.model.validation import Floats
from safe2real.preflight.trials import Trial, run_trial
from safe2real.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """One rehearsal: everything that it is a function of, and how long it may take."""

    problem: Problem
    method: Method
    real: Kernel
    wrong: NDArray[np.bool_]  # [R] rows that it is to find
    seed: int
    max_rounds: int
    rewards: list[Floats]
    seconds: float | None
    looks_ahead: bool

    def run(self, progress: Callable[[int], None] | None = None) -> Trial:
        """Here and now; `progress` is told the rounds done."""
        return run_trial(
            self.problem,
            self.method,
            self.real,
            self.wrong,
            seed=self.seed,
            max_rounds=self.max_rounds,
            rewards=self.rewards,
            seconds=self.seconds,
            progress=progress,
            looks_ahead=self.looks_ahead,
        )


@dataclass(frozen=True, eq=False, slots=True)
class Rehearsals:
    """What each of `parts` rehearsals may take."""

    rewards: list[Floats]  # [S, A] each, planned for on the way
    max_rounds: int  # of each
    parts: int
    seconds: float | None  # in all
    progress: Callable[[int, int], None] | None  # is told (done, total) rounds
    engine: Engine | None = None  # what runs many of them; this process, one by one, if None
    turns: Iterator[int] = field(default_factory=count)
    began: float = field(default_factory=time.monotonic)

    def run(
        self,
        problem: Problem,
        method: Method,
        real: Kernel,
        *,
        seed: int,
        rounds: int | None = None,
        looks_ahead: bool = False,
    ) -> Trial:
        """The next one, for `rounds` or for as many as are allowed; with `looks_ahead` it is forecast to its stop."""
        turn = next(self.turns)
        before = turn * self.max_rounds
        asked = self._asked(problem, method, real, seed, rounds, looks_ahead, self._share(self.parts - turn))
        return asked.run(None if self.progress is None else lambda done: self._tell(before + done))

    def run_each(
        self,
        problem: Problem,
        method: Method,
        real: Kernel,
        *,
        seeds: Sequence[int],
        rounds: Sequence[int | None] | None = None,
        looks_ahead: bool = False,
    ) -> list[Trial]:
        """The next ones, one for each of `seeds`, each for its own of `rounds`: in the order of the seeds."""
        lengths = rounds or [None] * len(seeds)
        pairs = list(zip(seeds, lengths, strict=True))
        if self.engine is None:
            return [
                self.run(problem, method, real, seed=seed, rounds=length, looks_ahead=looks_ahead) for seed, length in pairs
            ]
        turns = [next(self.turns) for _ in pairs]
        share = self._share(self.parts - turns[0])
        # As many as there are workers share the time of one.
        seconds = None if share is None else share * min(len(pairs), max(1, self.engine.workers))
        asked = [self._asked(problem, method, real, seed, length, looks_ahead, seconds) for seed, length in pairs]
        trials: list[Trial | None] = [None] * len(pairs)
        for done, (number, trial) in enumerate(self.engine.run(Job(Asked.run, compile_everything), asked), start=1):
            trials[number] = trial
            self._tell((turns[0] + done) * self.max_rounds)
        return [trial for trial in trials if trial is not None]

    def _asked(
        self,
        problem: Problem,
        method: Method,
        real: Kernel,
        seed: int,
        rounds: int | None,
        looks_ahead: bool,
        seconds: float | None,
    ) -> Asked:
        far = real.distances_to(problem.simulator.kernel).reshape(-1) > problem.settings.calibrated_gap + 1e-9
        return Asked(
            problem=problem,
            method=method,
            real=real,
            wrong=np.asarray(far & ~problem.known_rows()),  # what is declared known is never looked at
            seed=seed,
            max_rounds=self.max_rounds if rounds is None else rounds,
            rewards=self.rewards,
            seconds=seconds,
            looks_ahead=looks_ahead,
        )

    def _share(self, left: int) -> float | None:
        """Of the time that is left, what the next of `left` rehearsals may take: what one does not need others may."""
        return None if self.seconds is None else max(0.0, self.began + self.seconds - time.monotonic()) / max(1, left)

    def finish(self) -> None:
        """Whatever was not needed is done."""
        if next(self.turns) < self.parts:
            self._tell(self.parts * self.max_rounds)

    def _tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.parts * self.max_rounds)
