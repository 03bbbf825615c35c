"""The study behind icu_sepsis.py: patients treated under certified mixtures, and what is known after each batch of them.

A mixture that was certified once stays certified, so each is deployed for a batch of patients. Which of its policies treats
a patient is drawn for every patient by the learner's own coin, a function of (seed, patient).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import safe2real as s2r
from experiments.studies.sepsis_patients import patients_under
from experiments.studies.sepsis_system import LEAST_SURVIVAL, MARGIN, Case
from safe2real.evidence import MismatchMap, Verdict, map_mismatch

Report = Callable[[float], None]  # seconds of work done, by a rough guess, for the progress bar


def seconds_of_batch(patients: int) -> float:
    return 0.1 + 6e-5 * patients


SECONDS_OF_PLAN = 2.5


@dataclass(frozen=True, slots=True)
class Batch:
    """One deployment. Survival is exact, on the real dynamics."""

    after: int  # patients treated before it
    patients: int
    reason: s2r.methods.Reason
    weight: float  # alpha: share of the candidate
    uncertainty: float  # Delta
    bound: float  # certified lower bound on survival
    survival: float  # of the deployed mixture
    candidate: float  # of the candidate without the mixing; nan where there is none


@dataclass(frozen=True, slots=True)
class Planned:
    """A certified plan for one reward; all but `floor` and `bound` are exact values on the real dynamics."""

    reward: str
    floor: float  # certified: the reward is at least this
    bound: float  # certified: no feasible policy earns more
    value: float
    survival: float
    survival_floor: float  # certified


@dataclass(slots=True)
class Record:
    """What happened."""

    batches: list[Batch] = field(default_factory=list)
    curve: list[tuple[int, Planned]] = field(default_factory=list)  # (patients so far, best plan for survival so far)
    counts: list[tuple[int, int, int]] = field(default_factory=list)  # (patients so far, rows proved wrong, rows cleared)
    plans: list[Planned] = field(default_factory=list)
    map: MismatchMap | None = None
    doubts: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def patients(self) -> int:
        return sum(batch.patients for batch in self.batches)


def treat(
    case: Case, learner: s2r.Learner, sizes: Sequence[int], looks: Sequence[int], rewards: Sequence[str], report: Report
) -> Record:
    """Deploy one certified mixture after the other; plan for survival when `looks` patients have been treated, and for all
    of `rewards` at the end."""
    record, done, waiting = Record(), 0, sorted(looks)
    best = _clinicians_alone(case)
    record.curve.append((0, best))
    for size in sizes:
        while waiting and done >= waiting[0]:
            waiting.pop(0)
            best = _better(best, planned(case, learner, "survival"))
            record.curve.append((done, best))
            report(SECONDS_OF_PLAN)
        proposal = learner.propose()
        if proposal.mixture is None or proposal.certificate is None:
            record.stopped = True
            break
        record.batches.append(_batch(case, proposal, proposal.mixture, proposal.certificate, done, size))
        learner.count(*patients_under(case, proposal.mixture, learner.settings.coin_seed, done, size))
        done += size
        here = map_mismatch(learner.evidence)
        record.counts.append((done, here.count(Verdict.WRONG), here.count(Verdict.CLEARED)))
        report(seconds_of_batch(size))
    record.map = map_mismatch(learner.evidence)
    for name in rewards:
        record.plans.append(planned(case, learner, name))
        report(SECONDS_OF_PLAN)
    record.curve += [(done, _better(best, plan)) for plan in record.plans if plan.reward == "survival"]
    record.doubts = tuple(map(str, learner.doubts()))
    return record


def planned(case: Case, learner: s2r.Learner, name: str) -> Planned:
    reward = case.rewards[name]
    plan = learner.plan(reward)
    if not plan.certificate.certified or not plan.certificate.holds:
        raise SystemExit(f"the plan for {name} is not certified: {plan.certificate.describe()}")
    survival = float(s2r.planning.constraint_values(case.real, plan.policy)[0])
    value = s2r.evaluate(case.real, plan.policy, reward)
    return Planned(name, plan.value, plan.bound, value, survival, float(plan.certificate.lower_bounds[0]))


def _clinicians_alone(case: Case) -> Planned:
    """What is certain before anything is planned: the assumed margin."""
    survival = float(s2r.planning.constraint_values(case.real, case.clinicians)[0])
    floor = LEAST_SURVIVAL + MARGIN
    return Planned("survival", floor, 1.0, survival, survival, floor)


def _better(old: Planned, new: Planned) -> Planned:
    """What was certified once stays so: a plan is given up only for one of which more is certain."""
    return new if new.survival_floor > old.survival_floor else old


def _batch(
    case: Case,
    proposal: s2r.exploration.Proposal,
    mixture: s2r.Mixture,
    certificate: s2r.exploration.Certificate,
    done: int,
    size: int,
) -> Batch:
    parts = [float(s2r.planning.constraint_values(case.real, policy)[0]) for policy in mixture.policies]
    own = np.array([policy is not case.clinicians for policy in mixture.policies])
    candidate = float(np.average(np.array(parts)[own], weights=mixture.weights[own])) if own.any() else np.nan
    return Batch(
        after=done,
        patients=size,
        reason=proposal.reason,
        weight=proposal.exploration_weight,
        uncertainty=proposal.uncertainty,
        bound=float(certificate.lower_bounds[0]),
        survival=float(mixture.weights @ parts),
        candidate=candidate,
    )
