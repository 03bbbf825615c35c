"""Where a campaign stands, and how long it may still take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safe2real._compiled import radii as _kernels
from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import now
from safe2real.campaign.leases import overdue
from safe2real.campaign.replay import Replay
from safe2real.exploration.learner import Learner, Reason
from safe2real.exploration.problem import Problem
from safe2real.model.checks import Floats
from safe2real.planning.evaluate import occupancy
from safe2real.planning.robust import TVBalls
from safe2real.planning.solve import solve
from safe2real.standing import Standing

_GROWTH = 0.03  # of the rounds between two plans of a rehearsal
_MOST_PLANS = 2_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected rounds and samples until the stop; None where a rehearsal did not reach it. No promise.

    Rows that the data do not show to be wrong are taken to be right, so an early forecast is an optimistic one.
    """

    rounds: int | None
    samples: int | None


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """A summary for people and scripts."""

    name: str
    standing: Standing  # what everything that is handed out now is worth
    stopped: bool
    halted: bool  # the data refute the baseline's margin: stop the machine
    rounds: int  # deployments handed out
    told: int
    cut_short: int  # of those told
    left_model: int  # episodes, told or imported, that went where the model has no state
    abandoned: int  # and not told since
    withdrawn: int  # and not told since: the data refuted what they rested on, or their lease is over
    told_late: int  # after they were abandoned or withdrawn: counted when they arrived
    imported: int  # episodes of earlier logs
    branches: int  # times the record was restored from a copy and went on from there
    forced: int  # deployments told or abandoned by others than the worker that held them
    samples: int  # transitions recorded
    samples_counted: int  # of those in the model
    episodes_waiting: int  # recorded, to be counted when an earlier deployment is told or abandoned
    waiting_for: str | None  # the id of that deployment
    held: tuple[tuple[str, str, str], ...]  # (id, worker, since) of every deployment that is out
    lease: float | None  # seconds that a deployment may be out; None where that was not limited
    overdue: tuple[str, ...]  # ids of those that are out for longer
    next_reason: str  # of the next proposal: BASELINE, MIXTURE, STOP or HALT
    uncertainty: float  # Delta; inf while only the baseline is deployed
    tolerance: float  # tau: the campaign stops when Delta reaches it
    exploration_weight: float  # alpha
    suspects: int
    rows: int
    events: int
    head: str  # digest of the last event, to be noted elsewhere and given to verify later
    forecast: Forecast | None

    @property
    def certified(self) -> bool:
        return self.standing.is_guarantee


def status_of(name: str, replay: Replay, forecast: Forecast | None) -> CampaignStatus:
    learner, proposal, blocker = replay.learner, replay.learner.propose(), replay.blocker

    return CampaignStatus(
        name=name,
        standing=learner.standing,
        stopped=proposal.reason is Reason.STOP,
        halted=proposal.reason is Reason.HALT,
        rounds=replay.deployments,
        told=replay.told,
        cut_short=replay.cut_short,
        left_model=replay.left_model,
        abandoned=len(replay.abandoned),
        withdrawn=len(replay.withdrawn),
        told_late=replay.told_late,
        imported=replay.imported,
        branches=replay.branches,
        forced=replay.forced,
        samples=replay.samples,
        samples_counted=learner.samples,
        episodes_waiting=replay.uncounted,
        waiting_for=None if blocker is None else id_of(name, blocker.event),
        held=tuple((id_of(name, held.event), held.worker, held.at) for held in replay.held.values()),
        lease=None if replay.lease is None else replay.lease.seconds,
        overdue=tuple(id_of(name, one.event) for one in overdue(replay.lease, replay.held.values(), now())),
        next_reason=proposal.reason.name,
        uncertainty=proposal.uncertainty,
        tolerance=learner.settings.tolerance,
        exploration_weight=proposal.exploration_weight,
        suspects=int(learner.hybrid.suspects.sum()),
        rows=learner.simulator.kernel.num_rows,
        events=replay.sequence,
        head=replay.digest,
        forecast=forecast,
    )


def forecast_of(specification: Problem, learner: Learner) -> Forecast:
    """Rehearse the rest of the campaign in expectation, with steps that grow with the rounds done.

    Reality is guessed: a suspect row is wrong, and as observed, where its distance to the simulator is beyond the deletion
    threshold by more than chance would explain; else it is the simulator's. Each step plans once, adds the expected visits
    of the deployed mixture for that many rounds, and clears the rows that would be cleared by then.
    """
    if learner.propose().reason is Reason.STOP:
        return Forecast(0, 0)
    hybrid, task = learner.hybrid, specification.simulator
    if learner.standing is Standing.REFUTED:
        return Forecast(None, None)  # at most the baseline is deployed from now on
    rule, visits = hybrid.rule, hybrid.counts.tally.visits.astype(np.float64)
    distance = hybrid.counts.distances()
    wrong = hybrid.belief.suspect & (visits > 0.0)
    wrong &= distance > max(0.0, rule.threshold) + 1.0 / np.sqrt(np.maximum(visits, 1.0))
    reality = task.with_kernel(hybrid.view(wrong))
    gap = np.where(wrong, distance, 0.0)
    suspect, known = hybrid.belief.suspect.copy(), hybrid.belief.known
    spans, tally = learner.spans, hybrid.counts.tally
    seen = np.maximum(tally.length, tally.simulator_length).astype(np.int64)  # by the time it matters
    baseline_visits = occupancy(reality, learner.baseline)
    margins = learner.trusted - task.thresholds
    solution, done, past = None, 0, max(1, hybrid.counts.episodes)
    radius = np.empty(visits.shape)
    for _ in range(_MOST_PLANS):
        _kernels.radii(rule, visits, seen, radius)
        suspect &= gap + radius > rule.threshold
        bonus = np.where(suspect, rule.suspect_bonus * radius, np.where(known, 0.0, rule.cleared_bonus))
        rows = bonus.reshape((-1, task.num_states, task.num_actions))
        reward = _per_pair(rows) if spans[0] == 1.0 else spans[:, None, None] * rows
        solution = solve(reality, reward if task.horizon > 1 else _per_pair(reward), warm=solution)
        if not solution.is_feasible:
            return Forecast(None, None)
        delta = min(float(task.horizon), max(solution.bound, solution.value))
        if delta <= learner.settings.tolerance:
            return Forecast(done, done * task.horizon)
        lower = solution.constraint_values - delta
        if learner.settings.robust_safety:
            gaps = np.where(suspect, radius, np.where(known, 0.0, rule.cleared_gap))
            lower = np.maximum(lower, TVBalls(reality, gaps, hybrid.reach).worst_constraints(solution.policy))
        excess = np.maximum(0.0, task.thresholds - lower)
        alpha = float(np.min(margins / (margins + excess), initial=1.0))
        mixed = alpha * occupancy(reality, solution.policy) + (1.0 - alpha) * baseline_visits
        rounds = max(1, int(_GROWTH * (past + done)))
        visits += rounds * (mixed.sum(axis=0) if task.kernel.is_stationary else mixed).reshape(-1)
        done += rounds
    return Forecast(None, None)


def _per_pair(rows: Floats) -> Floats:
    """[S, A] where rows do not change with the step."""
    return rows[0] if len(rows) == 1 else rows
