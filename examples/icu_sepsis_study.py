"""The study behind icu_sepsis.py: patients treated under certified mixtures, and what is known after each batch of them.

A mixture that was certified once stays certified, so each is deployed for a batch of patients. Which of its policies treats
a patient is drawn for every patient by the learner's own coin, a function of (seed, patient).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from icu_sepsis_system import GAP, LEAST_SURVIVAL, MARGIN, TREATED, Case
from numpy.typing import NDArray

import safe2real as s2r
from safe2real.evidence.mismatch_map import MismatchMap, Verdict, map_mismatch
from safe2real.exploration.coin import coin_of, drawn
from safe2real.model.checks import Floats, Indices

FIRST_BATCH, GROWTH = 500, 0.03  # a batch is 500 patients, or 3 % of those treated so far
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


def learner_of(case: Case, in_doubt: NDArray[np.bool_], seed: int) -> s2r.Learner:
    """Certified settings: nothing is scaled. Rows outside `in_doubt` [S, A] are declared known, the support is the
    simulator's."""
    settings = s2r.Settings(margin=MARGIN, calibrated_gap=0.0, mismatch_gap=GAP, tolerance=MARGIN / 4.0, seed=seed)
    support = case.simulator.kernel
    return s2r.Learner(s2r.Problem(case.simulator, case.clinicians, settings, known=~in_doubt, support=support))


def schedule(patients: int) -> list[int]:
    """The sizes of the batches."""
    sizes: list[int] = []
    while (done := sum(sizes)) < patients:
        sizes.append(min(max(FIRST_BATCH, int(GROWTH * done)), patients - done))
    return sizes


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
        learner.count(*_patients(case, proposal.mixture, learner.settings.seed, done, size))
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


def _patients(
    case: Case, mixture: s2r.Mixture, seed: int, done: int, size: int
) -> tuple[Indices, Indices, NDArray[np.int64]]:
    """Episodes of `size` patients laid end to end, as `Learner.count` takes them; a coin for each says who treats them."""
    coins = np.array([drawn(mixture.weights, coin_of(seed, done + i)) for i in range(size)])
    rng = np.random.default_rng((seed, done))
    groups = [stays(case.real, policy, int((coins == index).sum()), rng) for index, policy in enumerate(mixture.policies)]
    states, actions, lengths = (np.concatenate(parts) for parts in zip(*groups, strict=True))
    steps = np.arange(states.shape[1])
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return states[steps <= lengths[:, None]], actions[steps[:-1] < lengths[:, None]], ends


def stays(
    model: s2r.CMDP, policy: s2r.MarkovPolicy, patients: int, rng: np.random.Generator
) -> tuple[Indices, Indices, NDArray[np.int64]]:
    """States [n, H + 1], actions [n, H] and lengths [n] of stays; one is over when the patient has died or survived."""
    kernel, horizon = model.kernel, model.horizon
    cumulative = np.cumsum(kernel.probability)  # every row sums to 1, so row i covers the numbers from i to i + 1
    states = np.zeros((patients, horizon + 1), dtype=np.uint32)
    actions = np.zeros((patients, horizon), dtype=np.uint32)
    lengths = np.full(patients, horizon, dtype=np.int64)
    states[:, 0] = _pick(np.cumsum(model.start)[None], rng.random(patients))
    table = None if policy.table is None else np.cumsum(policy.table, axis=2)
    here = np.arange(patients)
    for step in range(horizon):
        state = states[here, step].astype(np.int64)
        if table is None:
            action = policy.actions[step, state].astype(np.int64)  # type: ignore[index]
        else:
            action = _pick(table[step, state], rng.random(here.size))
        row = state * model.num_actions + action
        first = kernel.begin[row].astype(np.int64)
        found = np.searchsorted(cumulative, row + rng.random(here.size), side="right")
        successor = kernel.successor[np.clip(found, first, first + kernel.length[row] - 1)]  # clipped: sums are rounded
        actions[here, step], states[here, step + 1] = action, successor
        over = successor >= TREATED
        lengths[here[over]] = step + 1
        here = here[~over]
    return states, actions, lengths


def _pick(cumulative: Floats, uniform: Floats) -> NDArray[np.int64]:
    """An index for each row of cumulative probabilities [n or 1, m]; never one of probability 0."""
    within = np.minimum(uniform, cumulative[:, -1] * (1.0 - 1e-12))  # sums may be rounded to less than 1
    return np.asarray(np.argmax(cumulative > within[:, None], axis=1))
