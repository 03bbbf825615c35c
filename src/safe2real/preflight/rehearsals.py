"""All rehearsals of one check, one after the other: they share the time, the rewards and the progress that is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from safe2real.methods.base import Method
from safe2real.model.checks import Floats
from safe2real.model.kernel import Kernel
from safe2real.preflight.trials import Trial, run_trial
from safe2real.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class Rehearsals:
    """What each of `parts` rehearsals may take."""

    rewards: list[Floats]  # [S, A] each, planned for on the way
    max_rounds: int  # of each
    parts: int
    seconds: float | None  # in all
    progress: Callable[[int, int], None] | None  # is told (done, total) rounds
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
        far = real.distances_to(problem.simulator.kernel).reshape(-1) > problem.settings.calibrated_gap + 1e-9
        turn = next(self.turns)
        before = turn * self.max_rounds
        return run_trial(
            problem,
            method,
            real,
            np.asarray(far & ~problem.known_rows()),  # what is declared known is never looked at
            seed=seed,
            max_rounds=self.max_rounds if rounds is None else rounds,
            rewards=self.rewards,
            seconds=self._share(self.parts - turn),
            progress=None if self.progress is None else lambda done: self._tell(before + done),
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
