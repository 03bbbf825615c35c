"""Small random systems on which every assumption is true, and reality is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safe2real.methods.base import Method
from safe2real.model.cmdp import CMDP, AtLeast
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.evaluate import constraint_values
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.radii import Radius


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A problem, and the real system that it is about."""

    problem: Problem
    real: Kernel

    @property
    def reality(self) -> CMDP:
        return self.problem.simulator.with_kernel(self.real)


def check_named(one: Method | Radius) -> None:
    """What records say of a plug-in."""
    assert isinstance(one.name, str), "name it: records do"
    assert one.name.strip(), "name it: records do"
    assert isinstance(one.revision, int), "the revision is a number from 1 on"
    assert one.revision >= 1, "the revision is a number from 1 on"


def random_case(
    seed: int, *, radius: Radius | None = None, constraints: int = 1, replan_growth: float = 0.0, states: int = 4
) -> Case:
    """2 actions, horizon 3; a third of the rows wrong by at least the mismatch gap, the others exact."""
    rng = np.random.default_rng([seed, 7])
    actions, horizon = 2, 3
    real = rng.dirichlet(np.full(states, 0.6), size=(states, actions))
    simulator = real.copy()
    wrong = rng.random((states, actions)) < 1 / 3
    for row in np.argwhere(wrong):
        simulator[tuple(row)] = np.eye(states)[int(np.argmin(real[tuple(row)]))]
    far = 0.5 * np.abs(simulator - real).sum(axis=-1)
    baseline = MarkovPolicy.uniform(horizon=horizon, num_states=states, num_actions=actions)
    utilities = rng.random((constraints, states, actions))
    free = CMDP.of(Kernel.from_dense(real), horizon, 0, [AtLeast(utility, 0.0) for utility in utilities])
    reality = free.with_thresholds(constraint_values(free, baseline) - 0.3)
    settings = Settings(
        margin=0.3,
        calibrated_gap=0.0,
        mismatch_gap=float(far[wrong].min(initial=1.0)),
        tolerance=0.075,
        seed=seed,
        replan_growth=replan_growth,
        **({} if radius is None else {"radius": radius}),  # type: ignore[arg-type]
    )
    model = reality.with_kernel(Kernel.from_dense(simulator))
    return Case(Problem(model, baseline, settings), reality.kernel)
