"""Small random systems for the contracts, on which every assumption is true, and campaigns on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.errors import Stopped
from safe2real.exploration.simulate import roll_out
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
    """Refuse a plug-in without the name or the revision that records need."""
    assert isinstance(one.name, str), "name it: records do"
    assert one.name.strip(), "name it: records do"
    assert isinstance(one.revision, int), "the revision is a number from 1 on"
    assert one.revision >= 1, "the revision is a number from 1 on"


def random_case(
    seed: int, *, radius: Radius | None = None, constraints: int = 1, replan_growth: float = 0.0, states: int = 4
) -> Case:
    """Make a small random system: 2 actions, horizon 3; a third of the rows wrong by at least the mismatch gap.

    Args:
        seed: of the system and of its settings; the same gives the same case.
        radius: of the settings; the default one if None.
        constraints: K of them, all with the margin 0.3.
        replan_growth: of the settings.
        states: S of them.

    Returns:
        The problem with the real rows; every assumption is true of it.
    """
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


def run_rounds(campaign: Campaign, case: Case, rounds: int) -> None:
    """Ask and tell, for this many rounds or until the stop; a worker of the real system, which is known here."""
    for _ in range(rounds):
        try:
            deployment = campaign.ask(worker="contract")
        except Stopped:
            return
        campaign.tell(deployment.id, roll_out(case.reality, deployment.policy, seed=1, round_number=deployment.number))


@contextmanager
def refused(kind: type[Exception], what: str) -> Iterator[None]:
    """Fail unless `kind` is raised within the context; `what` names the call in the message."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what}: nothing was raised, instead of {kind.__name__}")
