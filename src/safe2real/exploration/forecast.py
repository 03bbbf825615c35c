"""Expected rounds until the stop, by a rehearsal on the learnt model.

Reality is guessed: a suspect row is wrong, and as observed, if its distance to the simulator exceeds the clearing
threshold by more than chance would explain; otherwise it is the simulator's. Each step asks the method once, adds the
expected visits of the deployed mixture for a number of rounds that grows with those done, and clears the rows that would be
cleared by then.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from safe2real._compiled import codes, likelihood, row_update
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.mismatch_map import visits_to_clear
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Reason
from safe2real.planning.evaluate import occupancy

_MOST_PLANS = 2_000
_LUCK, _MORE = 1.3, 1.25  # the sequential test takes longer than its slowest set is expected to
_GROWTH = 0.03  # rounds of one step, as a share of all before it


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected rounds and samples until the stop; None where a rehearsal did not reach it. No promise.

    Rows that the data do not show to be wrong are taken to be right, so an early forecast is an optimistic one.
    """

    rounds: int | None
    samples: int | None
    undecided: int = 0  # rows that were taken to be right because nothing shows yet that they are wrong
    rows: int = 0  # in all

    @property
    def caution(self) -> str:
        """How reliable the forecast is, in words; empty if no row is open."""
        if not self.undecided:
            return ""
        return (
            f"a guess: {self.undecided:,} of {self.rows:,} rows are open still and taken to be as the simulator says. If "
            "some of them are wrong it takes longer, early in a campaign several times as long"
        )


def forecast(learner: Learner) -> Forecast:
    """Return rounds and samples until the method stops, in expectation; nothing is changed.

    Args:
        learner: at any round.

    Returns:
        The forecast, with None where a rehearsal does not reach the stop.
    """
    if learner.stopped:
        return Forecast(0, 0)
    evidence = learner.evidence.settled()
    if evidence.goes_by_returns or evidence.is_refuted:  # returns are not rehearsed here
        return Forecast(None, None)  # at most the baseline is deployed from now on
    imagined = _Imagined(evidence)
    model, problem, method = imagined.reality, learner.problem, learner.method
    baseline_visits = occupancy(model, problem.baseline)
    done, past = 0, max(1, evidence.counts.episodes)
    memory: Any = None
    for _ in range(_MOST_PLANS):
        imagined.update()
        decision = method.propose(
            problem, imagined.evidence, seed=problem.settings.coin_seed, round_number=past + done, memory=memory
        )
        memory = decision.memory
        if decision.reason is Reason.STOP:
            return Forecast(done, done * model.steps, imagined.undecided, model.kernel.num_rows)
        if decision.reason is Reason.HALT or decision.notice:
            return Forecast(None, None)
        mixture = decision.mixture(problem.baseline)
        visits = baseline_visits if mixture is None or not decision.policies else occupancy(model, mixture)
        rounds = max(1, int(_GROWTH * (past + done)))
        imagined.add(rounds * visits)
        done += rounds
    return Forecast(None, None)


class _Imagined:
    """Evidence as it may become: a copy whose visits are expectations, on a model that is the guessed reality."""

    def __init__(self, evidence: Evidence) -> None:
        tally, belief, rule = evidence.counts.tally, evidence.belief, evidence.rule
        self.visits = tally.visits.astype(np.float64)
        distance, known_by = evidence.distances.reshape(-1), evidence.pool(self.visits)
        # One that is right and not cleared yet was unlucky so far: it will take some more.
        right = _LUCK * visits_to_clear(evidence, np.zeros_like(distance), as_seen=False)
        self.cleared_at = np.maximum(right, np.where(known_by > 0.0, _MORE * known_by, 0.0))
        wrong = belief.suspect & (known_by > 0.0)
        limit = rule.threshold if rule.clearing == codes.HALFWAY else 0.5 * (rule.cleared_gap + rule.clearing_gap)
        wrong &= distance > max(0.0, limit) + 1.0 / np.sqrt(np.maximum(known_by, 1.0))
        self.distance = np.where(wrong, distance, 0.0)
        self.undecided = int((belief.suspect & ~wrong).sum())
        self.seen = np.maximum(evidence.seen, tally.simulator_length.astype(np.int64))  # by the time it matters
        self.reality = evidence.problem.simulator.with_kernel(evidence.view(wrong))
        rows = self.reality.kernel
        self.evidence = copy.copy(evidence)
        self.evidence.counts = copy.copy(evidence.counts)  # a method may look at visits: at those imagined
        self.evidence.counts.tally = tally._replace(visits=tally.visits.copy())
        self.evidence.belief = belief._replace(
            begin=rows.begin.copy(),
            length=rows.length.copy(),
            suspect=belief.suspect.copy(),
            low=belief.low.copy(),
            gap=belief.gap.copy(),
            divergence=belief.divergence.copy(),
            bonus=belief.bonus.copy(),
        )
        self.radius, self.near = np.empty(self.visits.shape), evidence.all_near

    def update(self) -> None:
        """Recompute radii, cleared rows and the bonus after the visits so far."""
        belief, rule = self.evidence.belief, self.evidence.rule
        known_by = self.evidence.pool(self.visits)
        row_update.radii(rule, known_by, self.seen, self.near, self.radius)
        self.evidence.counts.tally.visits[:] = np.minimum(self.visits, 2.0**62)
        belief.low[:] = np.maximum(belief.low, np.where(self.distance > 0.0, self.distance - self.radius, 0.0))
        belief.suspect[:] &= (self.distance > 0.0) | (known_by < self.cleared_at)
        sure = np.minimum(self.radius, rule.within) if rule.within.size else self.radius
        belief.gap[:] = np.where(belief.suspect, sure, np.where(belief.known, 0.0, rule.cleared_gap))
        if rule.likelihood.size:
            likelihood.bounds(rule, self.reality.kernel.compiled_rows, self.distance == 0.0, known_by, belief.divergence)
            belief.divergence[~belief.suspect] = np.inf
        cleared = np.where(belief.known, 0.0, rule.cleared_bonus)
        belief.bonus[:] = np.where(belief.suspect, rule.suspect_bonus * belief.gap, cleared)

    def add(self, visits: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Add expected `visits` [H, S, A]; a last step that only collects shows nothing of its rows."""
        visits = visits[: self.reality.steps]
        pooled = self.reality.kernel.is_stationary
        self.visits += (visits.sum(axis=0) if pooled else visits).reshape(-1)
