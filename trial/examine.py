"""One case, run and examined: every statement the library makes about it, against the truth.

Every deployed mixture is evaluated exactly on the real system, by the compiled loop that deploys it. At several moments of
the run everything that can be asked is asked, too: the proposal that stands, plans for rewards that want what the
constraints forbid, the margins in use, the radius of every row. Those answers are compared with textbook evaluation, which
also checks the compiled one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real import solve
from safe2real._compiled import margin as _margin
from safe2real.exploration import Learner, Run, simulate
from safe2real.exploration.plan import Plan
from safe2real.methods.base import Reason
from safe2real.model.validation import Floats
from safe2real.problem.problem import Problem
from safe2real.standing import DoubtCode
from trial.exact import Truth
from trial.systems import Case

ROUNDING = 1e-9  # how far a statement must be beyond the truth to be called false
_MOMENTS = (0.0, *np.geomspace(0.004, 1.0, 12))  # of the run, at which the learner's state is looked at
_PLANS_AT = _MOMENTS[::4]  # of them, those at which plans are asked for
_OVERSTATED = 1.9  # by how much the margin is, in the control


class Flaw(StrEnum):
    """What is broken on purpose, to see that the trial notices."""

    NOTHING = "nothing"
    HALF_RADIUS = "every radius halved"
    MARGIN = "margin overstated, tests of it switched off"
    TESTED_MARGIN = "margin overstated"
    """Here the tests must notice."""

    @property
    def overstates(self) -> bool:
        return self in (Flaw.MARGIN, Flaw.TESTED_MARGIN)


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
    RADIUS = "radius"
    """A real row is farther from the observed one than its radius, at one of the moments."""
    MARGIN = "margin"
    """The data are said to prove a margin that the baseline has not got."""
    REFUTED = "refuted"
    """The data are said to contradict a row of which everything assumed is true."""
    HALTED = "halted"
    """The data are said to contradict the baseline's margin, which it has."""


# Of a learner that was told a false margin, these are no findings: it repeats what it was told, or notices.
_TOLD = frozenset({Kind.CERTIFICATE, Kind.MARGIN, Kind.HALTED, Kind.REFUTED})


@dataclass(frozen=True, eq=False, slots=True)
class Deployed:
    """What was deployed in a run, plan by plan."""

    times: NDArray[np.int64]  # [T]
    shares: Floats  # [T] of what is not the baseline
    values: Floats  # [T, K] exact V_c

    @classmethod
    def of(cls, runs: list[Run], constraints: int) -> Deployed:
        """Of the parts of a run, one after the other."""
        return cls(
            times=np.concatenate([np.empty(0, dtype=np.int64), *(run.deployed for run in runs)]),
            shares=np.concatenate([np.empty(0), *(run.exploration_weight[: len(run.deployed)] for run in runs)]),
            values=np.concatenate([np.empty((0, constraints)), *(run.real_values for run in runs)]),
        )

    def unsafe(self, thresholds: Floats) -> int:
        """How many deployments missed a threshold."""
        return int(self.times[(self.values < thresholds - ROUNDING).any(axis=1)].sum())

    @property
    def exploring(self) -> int:
        """How many deployments were not of the baseline alone."""
        return int(self.times[self.shares > 0.0].sum())

    @property
    def mixtures(self) -> int:
        """How many plans that are not the baseline alone were deployed, each unlike the one before: in its share of the
        baseline, or in its exact values.
        """
        other = np.ones(self.times.size, dtype=np.bool_)
        other[1:] = (np.diff(self.shares) != 0.0) | (np.diff(self.values, axis=0) != 0.0).any(axis=1)
        return int((other & (self.shares > 0.0)).sum())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in one run."""

    number: int
    delta: float
    family: str
    radius: str
    failures: tuple[Kind, ...]  # in the order of Kind
    deployments: int
    unsafe: int  # deployments
    exploring: int  # deployments of which the baseline was only a part
    mixtures: int  # different ones among those
    plans: int  # for rewards, checked
    stopped: bool
    halted: bool  # because the data refute the margin


def examine(case: Case, flaw: Flaw = Flaw.NOTHING) -> Outcome:
    """Run a case, and compare what is said with what is true."""
    learner, truth = learner_of(case, flaw), Truth(case.task, case.real)
    rng = np.random.default_rng([case.settings.coin_seed, case.number])
    found: set[Kind] = set()
    runs: list[Run] = []
    plans, done = 0, 0
    for moment in _MOMENTS:
        until = max(int(moment * case.rounds), done)
        if until > done:
            expected = _expected(learner, truth)
            runs.append(simulate(learner, case.real, max_rounds=until - done))
            _agree(runs[-1], expected)
            done += runs[-1].rounds
        found.update(_about_now(case, learner, truth))
        last = bool(learner.doubts()) or learner.propose().reason is Reason.STOP
        for reward in _rewards(case, rng) if last or moment in _PLANS_AT else ():
            found.update(_about_plan(learner.plan(reward), truth, reward))
            plans += 1
        if last:
            break
    deployed = Deployed.of(runs, case.task.num_constraints)
    unsafe = deployed.unsafe(case.task.thresholds)
    if unsafe:
        found.add(Kind.UNSAFE)
    if flaw.overstates:
        found -= _TOLD
    return Outcome(
        number=case.number,
        delta=case.settings.delta,
        family=str(case.family),
        radius=case.settings.radius.name,
        failures=tuple(kind for kind in Kind if kind in found),
        deployments=done,
        unsafe=unsafe,
        exploring=deployed.exploring,
        mixtures=deployed.mixtures,
        plans=plans,
        stopped=bool(runs and runs[-1].stopped),
        halted=learner.evidence.trust.halted,
    )


def learner_of(case: Case, flaw: Flaw = Flaw.NOTHING) -> Learner:
    """The learner of a case; with a flaw it still calls everything certified."""
    settings = case.settings
    if flaw.overstates:
        settings = replace(settings, margin=_overstated(case))
    learner = Learner(
        Problem(case.task, case.baseline, settings, known=case.known, support=case.support), case.method, trust_margin=True
    )
    if flaw is Flaw.HALF_RADIUS:
        rule = learner.evidence.rule
        learner.evidence.rule = rule._replace(scale=0.5 * rule.scale)
        learner.evidence.update()
    if flaw is Flaw.MARGIN:
        state = learner.evidence.trust.state
        learner.evidence.trust.state = state._replace(bets=np.zeros_like(state.bets))
        state.counters[_margin.NEXT] = np.iinfo(np.int64).max
        state.margins[:], state.refuted[:], state.flags[:] = state.stated, False, False  # the first look has been taken
    return learner


def _overstated(case: Case) -> Any:
    room = case.task.horizon - case.task.thresholds
    return tuple(float(xi) for xi in np.minimum(_OVERSTATED * case.margins, room))


def _expected(learner: Learner, truth: Truth) -> Floats | None:
    """V_c [K] of the mixture that the next round deploys, by the textbook; None where none stands."""
    mixture = learner.propose().mixture
    return None if mixture is None or learner.hand_over()[0] is None else truth.constraint_values(mixture)


def _agree(run: Run, expected: Floats | None) -> None:
    """Two evaluations of the same mixture must agree, or nothing that is reported here is worth anything."""
    if expected is not None and len(run.deployed) and np.abs(run.real_values[0] - expected).max(initial=0.0) > ROUNDING:
        raise ArithmeticError(f"the compiled evaluation gives {run.real_values[0]}, the textbook one {expected}")


def _about_now(case: Case, learner: Learner, truth: Truth) -> Iterator[Kind]:
    """What is false of the state the learner is in."""
    hybrid = learner.evidence
    if (case.wrong & ~hybrid.suspects).any():
        yield Kind.CLEARED
    for doubt in learner.doubts():
        yield Kind.HALTED if doubt.code is DoubtCode.MARGIN_REFUTED else Kind.REFUTED
    if (learner.evidence.trusted > case.task.thresholds + case.margins + ROUNDING).any():
        yield Kind.MARGIN
    seen = np.stack([hybrid.counts.empirical_row(row) for row in range(hybrid.radii.size)])
    if (truth.distances(seen.reshape((*hybrid.radii.shape, -1))) > hybrid.radii + ROUNDING).any():
        yield Kind.RADIUS
    proposal = learner.propose()
    mixture, certificate = proposal.mixture, proposal.certificate
    if mixture is None or certificate is None or not certificate.certified:
        return
    if (certificate.lower_bounds > truth.constraint_values(mixture) + ROUNDING).any():
        yield Kind.CERTIFICATE


def _about_plan(plan: Plan, truth: Truth, reward: Floats) -> Iterator[Kind]:
    """What is false of a plan for a reward."""
    if not plan.certificate.certified:
        return
    model = truth.model
    values = truth.constraint_values(plan.policy)
    if (values < model.thresholds - ROUNDING).any():
        yield Kind.INFEASIBLE
    if (values < plan.certificate.lower_bounds - ROUNDING).any():
        yield Kind.CERTIFICATE
    earned, best = truth.value(plan.policy, reward), solve(model, reward).value  # of a feasible policy: no overestimate
    if earned < plan.value - ROUNDING or best > plan.bound + ROUNDING:
        yield Kind.VALUE
    if best - earned > plan.suboptimality + ROUNDING:
        yield Kind.SUBOPTIMAL


def _rewards(case: Case, rng: np.random.Generator) -> Iterator[Floats]:
    """A reward at random, and one for exactly what a constraint forbids."""
    shape = (case.task.num_states, case.task.num_actions)
    yield rng.random(shape) if rng.random() < 0.5 else (rng.random(shape) < 0.3).astype(np.float64)
    if case.task.num_constraints:
        wanted = case.task.utilities[rng.integers(case.task.num_constraints)]
        yield 1.0 - (wanted[0] if len(wanted) == 1 else wanted)
