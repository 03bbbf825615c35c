"""One sepsis treatment plan on trial: the simulator's own for survival, certified by the outcomes of its own patients.

Nothing of the simulator enters the certificate: no row, no support, no separation. It rests on the clinicians' margin and on
independent, identical patients (docs/trials.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.studies.sepsis_patients import stays
from experiments.studies.sepsis_system import GAP, MARGIN, Case
from safe2real.errors import Halted
from safe2real.exploration.learner import Learner
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.methods.trial import Trial
from safe2real.model.policy import Mixture
from safe2real.planning.evaluate import constraint_values
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

BATCH = 50  # patients between two looks; what was certified stays certified


@dataclass(frozen=True, slots=True)
class Course:
    """One run: (patients so far, certified survival of the plan) at every look, and exact values of what was deployed."""

    floors: list[tuple[int, float]]
    deployed: list[float]  # exact survival of every mixture
    plan: float  # exact survival of the plan alone

    def patients_until(self, floor: float) -> int | None:
        return next((patients for patients, bound in self.floors if bound >= floor), None)


def on_trial(case: Case, seed: int) -> tuple[Learner, Trial]:
    """The simulator's own plan for survival, against the clinicians."""
    trial = Trial(solve(case.simulator, case.rewards["survival"]).policy)
    settings = Settings(margin=MARGIN, calibrated_gap=0.0, mismatch_gap=GAP, tolerance=MARGIN / 4.0, seed=seed)
    return Learner(Problem(case.simulator, case.clinicians, settings), trial, trust_margin=True), trial


def treat(case: Case, seed: int, patients: int, watched: Callable[[range], Iterable[int]] = iter) -> Course:
    """Batches of patients under the certified mixture of plan and clinicians.

    Args:
        case: the two systems.
        seed: of the coins and the patients.
        patients: how many, in whole batches.
        watched: passes the batches on, and may show how far they are.

    Raises:
        Halted: nothing is certified any more, because the data refute what is assumed.
    """
    learner, trial = on_trial(case, seed)
    values = {
        "plan": constraint_values(case.real, trial.candidate)[0],
        "clinicians": constraint_values(case.real, case.clinicians)[0],
    }
    course = Course([], [], float(values["plan"]))
    rng = np.random.default_rng((seed, 15))
    batches = range(0, patients, BATCH)
    for done in watched(batches):
        proposal = learner.propose()
        if proposal.mixture is None or proposal.certificate is None or not proposal.certificate.holds:
            raise Halted(f"after {done} patients nothing is certified any more: {learner.doubts()}")
        share = proposal.exploration_weight
        course.deployed.append(float(share * values["plan"] + (1.0 - share) * values["clinicians"]))
        states, actions, ends, of_baseline = _batch(case, learner, proposal.mixture, done, rng)
        learner.count(states, actions, ends, of_baseline=of_baseline, of_candidate=~of_baseline)
        course.floors.append((done + BATCH, learner.floors()["survival"]))
    return course


def _batch(case: Case, learner: Learner, mixture: Mixture, done: int, rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """(states, actions, ends, of_baseline) of whole stays, one coin each.

    After its end a stay goes on in its last state, so that every utility is there.
    """
    coins = np.array([drawn(mixture.weights, coin_of(learner.settings.coin_seed, done + i + 1)) for i in range(BATCH)])
    horizon = case.real.horizon
    states = np.zeros((BATCH, horizon + 1), dtype=np.int64)
    actions = np.zeros((BATCH, horizon), dtype=np.int64)
    of_baseline = np.zeros(BATCH, dtype=np.bool_)
    for index, policy in enumerate(mixture.policies):
        mine: NDArray[np.bool_] = coins == index
        seen, chosen, lengths = stays(case.real, policy, int(mine.sum()), rng)
        last = np.take_along_axis(seen, lengths[:, None], axis=1)
        states[mine] = np.where(np.arange(horizon + 1) > lengths[:, None], last, seen)
        actions[mine] = chosen
        of_baseline[mine] = policy is learner.baseline
    laid_out = (states.reshape(-1).astype(np.uint32), actions.reshape(-1).astype(np.uint32))
    return *laid_out, horizon * np.arange(BATCH + 1), of_baseline
