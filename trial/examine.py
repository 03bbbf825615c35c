"""One long run in compiled code, examined: every statement the library makes about it, against the truth.

Every deployed mixture is evaluated exactly on the real system, by the compiled loop that deploys it. At several moments of
the run everything that can be asked is asked, too: the proposal that stands, plans for rewards that were chosen after the
data, the margins in use, the radius of every row. Those answers are compared with textbook evaluation, which also checks the
compiled one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import margin as _margin
from safe2real.exploration import Learner, Run, simulate
from safe2real.methods.base import Reason
from safe2real.model.validation import ROUNDING, Floats
from trial.exact import Truth
from trial.flaws import Flaw
from trial.judge import Judge
from trial.outcome import Outcome
from trial.parts import Part
from trial.statements import Kind
from trial.systems import Case

_MOMENTS = (0.0, *np.geomspace(0.004, 1.0, 12))  # of the run, at which the learner's state is looked at
_PLANS_AT = _MOMENTS[::4]  # of them, those at which plans are asked for
_OVERSTATED = 1.9  # by how much the margin is, in the control
_UNDERSTATED = 0.3  # by how much `within` is, in the control


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


def examine(case: Case, flaw: Flaw = Flaw.NOTHING) -> Outcome:
    """Run a case, and compare what is said with what is true."""
    learner = learner_of(case, flaw)
    judge = Judge(case, np.random.default_rng([case.settings.coin_seed, case.number]))
    runs: list[Run] = []
    done = 0
    for moment in _MOMENTS:
        until = max(int(moment * case.rounds), done)
        if until > done:
            expected = _expected(learner, judge.truth)
            runs.append(simulate(learner, case.real, max_rounds=until - done))
            _agree(runs[-1], expected)
            done += runs[-1].rounds
        judge.look(learner)
        last = bool(learner.doubts()) or learner.propose().reason is Reason.STOP
        if last or moment in _PLANS_AT:
            judge.ask_plans(learner)
        if last:
            break
    deployed = Deployed.of(runs, case.task.num_constraints)
    judge.deployments, judge.exploring, judge.mixtures = done, deployed.exploring, deployed.mixtures
    judge.unsafe = deployed.unsafe(case.task.thresholds)
    if judge.unsafe:
        judge.found.add(Kind.UNSAFE)
    outcome = judge.outcome(Part.LONG, flaw, learner.failure)
    return replace(outcome, stopped=bool(runs and runs[-1].stopped))


def learner_of(case: Case, flaw: Flaw = Flaw.NOTHING) -> Learner:
    """The learner of a case; with a flaw it still calls everything certified."""
    if flaw.overstates:
        case = replace(case, settings=replace(case.settings, margin=_overstated(case)))
    if flaw is Flaw.UNDERSTATED:
        case = replace(case, within=_UNDERSTATED * case.task.kernel.distances_to(case.real))
    learner = Learner(case.problem, case.method, trust_margin=True)
    if flaw is Flaw.HALF_RADIUS:
        rule = learner.evidence.rule
        learner.evidence.rule = rule._replace(scale=0.5 * rule.scale)
        learner.evidence.update()
    if flaw is Flaw.MARGIN:
        state = learner.evidence.trust.compiled
        learner.evidence.trust.compiled = state._replace(bets=np.zeros_like(state.bets))
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
