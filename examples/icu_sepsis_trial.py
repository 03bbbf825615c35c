"""One sepsis treatment plan on trial: how many patients until its own outcomes certify it?

A benchmark, NOT medical advice. Every patient here is simulated.

    python examples/icu_sepsis_trial.py [--seeds N] [--patients N]

The systems, the clinicians and the limit are those of icu_sepsis.py. The plan is the best one for survival on the simulator,
which is too optimistic. Nothing of the simulator enters the certificate: no row, no support, no separation; the clinicians'
margin of 2 % and independent, identical patients are all it rests on. Prints after how many patients the certified survival
of the plan passes 70 %, 73 % and more, and the lowest exact survival of anything that was deployed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from icu_sepsis_study import stays
from icu_sepsis_system import GAP, LEAST_SURVIVAL, MARGIN, Case, build, load_records
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

import safe2real as s2r
from safe2real.exploration.coin import coin_of, drawn
from safe2real.exploration.counting import Entry, entry_of, play
from safe2real.planning import constraint_values

BATCH = 50  # patients between two looks; what was certified stays certified
FLOORS = (0.70, 0.73, 0.75)
PATIENTS, SEEDS = 20_000, 3


@dataclass(frozen=True, slots=True)
class Course:
    """One run: (patients so far, certified survival of the plan) at every look, and exact values of what was deployed."""

    floors: list[tuple[int, float]]
    deployed: list[float]  # exact survival of every mixture
    plan: float  # exact survival of the plan alone

    def patients_until(self, floor: float) -> int | None:
        return next((patients for patients, bound in self.floors if bound >= floor), None)


def on_trial(case: Case, seed: int) -> s2r.Learner:
    """The simulator's own plan for survival, against the clinicians."""
    plan = s2r.solve(case.simulator, case.rewards["survival"]).policy
    settings = s2r.Settings(margin=MARGIN, calibrated_gap=0.0, mismatch_gap=GAP, tolerance=MARGIN / 4.0, seed=seed)
    return s2r.Learner(s2r.Problem(case.simulator, case.clinicians, settings), s2r.methods.Trial(plan), trust_margin=True)


def treat(case: Case, seed: int, patients: int, console: Console | None = None) -> Course:
    """Batches of patients under the certified mixture of plan and clinicians."""
    learner = on_trial(case, seed)
    candidate = learner.method.candidate  # type: ignore[attr-defined]
    values = {
        "plan": constraint_values(case.real, candidate)[0],
        "clinicians": constraint_values(case.real, case.clinicians)[0],
    }
    course = Course([], [], float(values["plan"]))
    rng = np.random.default_rng((seed, 15))
    batches = range(0, patients, BATCH)
    for done in track(batches, f"seed {seed}", console=console, transient=True) if console else batches:
        proposal = learner.propose()
        if proposal.mixture is None or proposal.certificate is None or not proposal.certificate.holds:
            raise SystemExit(f"after {done} patients nothing is certified any more: {learner.doubts()}")
        share = proposal.exploration_weight
        course.deployed.append(float(share * values["plan"] + (1.0 - share) * values["clinicians"]))
        play(learner, _batch(case, learner, proposal.mixture, done, rng))
        course.floors.append((done + BATCH, learner.floors()["survival"]))
    return course


def _batch(case: Case, learner: s2r.Learner, mixture: s2r.Mixture, done: int, rng: np.random.Generator) -> Entry:
    """Whole stays, one coin each; after its end a stay goes on in its last state, so that every utility is there."""
    coins = np.array([drawn(mixture.weights, coin_of(learner.settings.seed, done + i + 1)) for i in range(BATCH)])
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
    return entry_of(states.reshape(-1), actions.reshape(-1), horizon * np.arange(BATCH + 1), of_baseline, ~of_baseline)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--patients", type=int, default=PATIENTS)
    options = parser.parse_args()
    console, case = Console(), build(load_records())
    console.print("[bold]A benchmark, NOT medical advice: the patients are simulated, its errors are made up.[/bold]")
    safe = True
    for seed in range(options.seeds):
        course = treat(case, seed, options.patients, Console(stderr=True))
        found = ", ".join(f"{floor:.0%} after {course.patients_until(floor) or 'more'}" for floor in FLOORS)
        safe = safe and min(course.deployed) >= LEAST_SURVIVAL
        console.print(
            f"seed {seed}: certified survival of the plan passes {found}; {course.floors[-1][1]:.2%} after "
            f"{options.patients:,} (exactly {course.plan:.2%}). Lowest exact survival deployed {min(course.deployed):.2%} "
            f"(limit {LEAST_SURVIVAL:.0%})."
        )
    return 0 if safe else 1


if __name__ == "__main__":
    raise SystemExit(main())
