"""The runs of the study on ICU-Sepsis: what is certified of survival after how many patients, row by row and by a trial.

A benchmark, NOT medical advice: every patient is simulated. Nothing is scaled; the package `icu-sepsis` has to be installed.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from experiments.store import Plain
from experiments.studies import sepsis_trial
from experiments.studies.sepsis_patients import learner_of, patients_under, schedule
from experiments.studies.sepsis_system import LEAST_SURVIVAL, MARGIN, Case, build, load_records
from safe2real.errors import Halted
from safe2real.planning.evaluate import constraint_values

REAL_ERROR = 1e-9  # of an exact evaluation


@cache
def _case() -> Case:
    return build(load_records())


def sepsis_floor_run(settings: Plain) -> Plain:
    """Every treatment in doubt: the certified survival of the best plan so far, at growing numbers of patients.

    Args:
        settings: `seed`, the first number of patients at which to plan (`first`), how many more until the next plan
            (`every`), `most` patients, and `records`, the version of the package.

    Returns:
        `points` of patients, certified floor and exact survival of the plan that has it; what was deployed and false.
    """
    case = _case()
    learner = learner_of(case, case.offered, settings["seed"])
    floor, survival = LEAST_SURVIVAL + MARGIN, float(constraint_values(case.real, case.clinicians)[0])
    points: list[Plain] = []
    deployed: list[float] = []
    unsafe, false, done = 0, 0, 0
    for size in schedule(settings["most"]):
        proposal = learner.propose()
        if proposal.mixture is None:
            raise Halted(f"after {done} patients nothing is certified any more: {learner.doubts()}")
        deployed.append(float(constraint_values(case.real, proposal.mixture)[0]))
        unsafe += size * (deployed[-1] < LEAST_SURVIVAL - REAL_ERROR)
        learner.count(*patients_under(case, proposal.mixture, settings["seed"], done, size))
        done += size
        if done < settings["first"] + len(points) * settings["every"] and done < settings["most"]:
            continue
        plan = learner.plan(case.rewards["survival"])
        bound, real = float(plan.certificate.lower_bounds[0]), float(constraint_values(case.real, plan.policy)[0])
        false += not (plan.certificate.certified and real >= bound - REAL_ERROR)
        if bound > floor:  # what was certified once stays so
            floor, survival = bound, real
        points.append({"patients": done, "floor": floor, "survival": survival})
    return {
        "points": points,
        "mixtures": len(deployed),
        "lowest": min(deployed),
        "unsafe_rounds": unsafe,
        "lost": int((~learner.evidence.suspects & case.biased).sum()),
        "false": false,
    }


def sepsis_trial_run(settings: Plain) -> Plain:
    """The simulator's plan for survival on trial: its certified survival after every batch of patients.

    Args:
        settings: `seed`, `most` patients, and `records`, the version of the package.
    """
    course = sepsis_trial.treat(_case(), settings["seed"], settings["most"])
    return {
        "points": [{"patients": patients, "floor": floor, "survival": course.plan} for patients, floor in course.floors],
        "mixtures": len(course.deployed),
        "lowest": min(course.deployed),
        "unsafe_rounds": sepsis_trial.BATCH * int((np.array(course.deployed) < LEAST_SURVIVAL - REAL_ERROR).sum()),
        "lost": 0,
        "false": sum(floor > course.plan + REAL_ERROR for _, floor in course.floors),
    }
