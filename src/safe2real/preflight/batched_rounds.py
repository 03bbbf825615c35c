"""Rounds of a rehearsal, in compiled code or in batches.

In a large system there is always a row that was never visited before, so lazy replanning plans in nearly every round. There
one proposal is handed out to a whole batch that grows with the rounds, as a campaign does with `ask_batch`; what was
certified once stays certified.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real.exploration.explore import drive_batch
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import KnownSystem, simulate
from safe2real.methods.base import Reason
from safe2real.model.kernel import Kernel
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import constraint_values

LARGE = 50_000  # H S A
REPLAN_GROWTH = 0.02
BATCH_GROWTH = 0.1


@dataclass(frozen=True, eq=False, slots=True)
class Stretch:
    """Some rounds: an entry for each plan that was deployed."""

    deployed: NDArray[np.int64]  # [T] rounds of each plan
    uncertainties: Floats  # [T] Delta
    real_values: Floats  # [T, K] exact V_c of the deployed mixture
    uncertainty: float  # Delta at the end
    stopped: bool
    halted: bool  # the data refuted the baseline's margin: nothing more is deployed


def lazily(learner: Learner, real: Kernel, done: int, until: int) -> Stretch:
    """Rounds `done` + 1 to `until`, or to the stop, in compiled code."""
    run = simulate(learner, real, max_rounds=until - done)
    plans, last = len(run.deployed), learner.propose()  # the data of the last round may have brought the stop
    return Stretch(
        run.deployed,
        run.uncertainty[:plans],
        run.real_values,
        last.uncertainty,
        last.reason is Reason.STOP,
        last.reason is Reason.HALT,
    )


def in_batches(learner: Learner, real: Kernel, done: int, until: int, deadline: float) -> Stretch:
    """The same, one proposal for each batch; past the `deadline` (of time.monotonic) no further batch begins."""
    system = learner.simulator.with_kernel(real)
    world = KnownSystem(system, learner.settings.coin_seed)
    deployed: list[int] = []
    uncertainties: list[float] = []
    values: list[Floats] = []
    while done < until and (not deployed or time.monotonic() < deadline):
        proposal = learner.propose()
        if proposal.mixture is None:  # nothing more is deployed: the stop, or a halt
            break
        batch = min(max(1, int(BATCH_GROWTH * done)), until - done)
        deployed.append(batch)
        uncertainties.append(proposal.uncertainty)
        values.append(constraint_values(system, proposal.mixture))
        drive_batch(learner, world, proposal, first_round=done + 1, episodes=batch)
        done += batch
    last = learner.propose()
    return Stretch(
        np.array(deployed, dtype=np.int64),
        np.array(uncertainties, dtype=np.float64),
        np.array(values, dtype=np.float64).reshape(len(values), system.num_constraints),
        last.uncertainty,
        last.reason is Reason.STOP,
        last.reason is Reason.HALT,
    )
