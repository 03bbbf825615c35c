"""Every statement that the library makes, against the truth.

A plan is asked for rewards that were chosen after the data, by an adversary who knows the real rows: what the constraints
forbid, and what the data, or the learnt model, make look more likely than it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from safe2real import solve
from safe2real.evidence.evidence import Evidence
from safe2real.exploration import Learner
from safe2real.exploration.plan import Plan
from safe2real.model.validation import ROUNDING, Floats
from safe2real.standing import DoubtCode
from trial.exact import Truth
from trial.systems import Case


class Kind(StrEnum):
    """A statement that turned out false."""

    UNSAFE = "unsafe"
    """A deployed mixture misses a threshold."""
    CERTIFICATE = "certificate"
    """A certified lower bound on V_c is above the real value."""
    CLEARED = "cleared"
    """A wrong row was cleared."""
    INFEASIBLE = "plan infeasible"
    """A certified plan misses a threshold."""
    VALUE = "plan value"
    """A plan earns less than it says, or the best feasible policy more than is said to be possible."""
    SUBOPTIMAL = "plan suboptimal"
    """A plan misses more of the best feasible policy than it says."""
    FLOOR = "floor"
    """A floor of a trial is above what its policy is worth."""
    RADIUS = "radius"
    """A real row is farther from the observed one than its radius, or outside its set, at one of the moments."""
    MARGIN = "margin"
    """The data are said to prove a margin that the baseline has not got."""
    REFUTED = "refuted"
    """The data are said to contradict a row of which everything assumed is true."""
    HALTED = "halted"
    """The data are said to contradict the baseline's margin, which it has."""


def about_learner(case: Case, learner: Learner, truth: Truth) -> Iterator[Kind]:
    """What is false of the state the learner is in."""
    evidence = learner.evidence
    if (case.wrong & ~evidence.suspects).any():
        yield Kind.CLEARED
    for doubt in learner.doubts():
        yield Kind.HALTED if doubt.code is DoubtCode.MARGIN_REFUTED else Kind.REFUTED
    if (evidence.trusted > case.task.thresholds + case.margins + ROUNDING).any():
        yield Kind.MARGIN
    if _outside(evidence, truth):
        yield Kind.RADIUS
    proposal = learner.propose()
    mixture, certificate = proposal.mixture, proposal.certificate
    if mixture is None or certificate is None or not certificate.certified:
        return
    if (certificate.lower_bounds > truth.constraint_values(mixture) + ROUNDING).any():
        yield Kind.CERTIFICATE


def _outside(evidence: Evidence, truth: Truth) -> bool:
    """Whether a real row is not in its set; rows that are learnt together have no radius of their own."""
    if evidence.units[0] is evidence:
        seen = np.stack([evidence.counts.empirical_row(row) for row in range(evidence.radii.size)])
        if (truth.distances(seen.reshape((*evidence.radii.shape, -1))) > evidence.radii + ROUNDING).any():
            return True
    settled = evidence.settled()
    if settled.is_refuted:
        return False
    gaps = settled.belief.gap.reshape(evidence.radii.shape)
    return bool((truth.distances(settled.to_kernel().to_dense()) > gaps + ROUNDING).any())


def about_plan(plan: Plan, truth: Truth, reward: Floats) -> Iterator[Kind]:
    """What is false of a plan for a reward."""
    if not plan.certificate.certified:
        return
    model = truth.model
    values = truth.constraint_values(plan.policy)
    if (values < model.thresholds - ROUNDING).any():
        yield Kind.INFEASIBLE
    if (values < plan.certificate.lower_bounds - ROUNDING).any():
        yield Kind.CERTIFICATE
    earned, best = truth.earned(plan.policy, reward), solve(model, reward).value  # of a feasible policy: no overestimate
    if earned < plan.value - ROUNDING or best > plan.bound + ROUNDING:
        yield Kind.VALUE
    if best - earned > plan.suboptimality + ROUNDING:
        yield Kind.SUBOPTIMAL


def about_floors(floors: dict[str, float], values: dict[str, float]) -> Iterator[Kind]:
    """What is false of the floors of a policy; `values` are its real ones, by the same names."""
    if any(floor > values[name] + ROUNDING for name, floor in floors.items()):
        yield Kind.FLOOR


def rewards(case: Case, evidence: Evidence, truth: Truth, rng: np.random.Generator) -> Iterator[Floats]:
    """A reward at random, one for exactly what a constraint forbids, what is overstated, and what is understated."""
    task = case.task
    shape = (task.num_states, task.num_actions)
    yield rng.random(shape) if rng.random() < 0.5 else (rng.random(shape) < 0.3).astype(np.float64)
    if task.num_constraints:
        wanted = task.utilities[rng.integers(task.num_constraints)]
        yield 1.0 - (wanted[0] if len(wanted) == 1 or task.counts_end else wanted)
    overstated = (_excess(evidence, truth, by_counts=bool(rng.random() < 0.5)) > 0.0).astype(np.float64)
    yield np.broadcast_to(overstated[:, None], shape)
    yield np.broadcast_to(1.0 - overstated[:, None], shape)


def _excess(evidence: Evidence, truth: Truth, *, by_counts: bool) -> Floats:
    """[S] how much more often a state follows by what was counted, or by the learnt model, than in reality."""
    shape = evidence.radii.shape
    if by_counts:
        counts = evidence.counts
        seen = np.stack([counts.empirical_row(row) for row in range(counts.simulator.num_rows)]).reshape((*shape, -1))
        excess, weight = truth.differences(seen), counts.visits[..., None].astype(np.float64)
    else:
        excess, weight = truth.differences(evidence.settled().to_kernel().to_dense()), np.ones((*shape, 1))
    return np.asarray((excess * weight).sum(axis=tuple(range(excess.ndim - 1))))
