"""The status of a campaign, with a forecast of its remaining rounds."""

from __future__ import annotations

from dataclasses import dataclass

from safe2real.campaign.ask import no_longer_certified
from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import now
from safe2real.campaign.leases import notices_of, overdue
from safe2real.campaign.replay import Replay
from safe2real.exploration.forecast import Forecast
from safe2real.methods.base import Reason
from safe2real.standing import Standing


@dataclass(frozen=True, slots=True)
class RewardStatus:
    """A declared reward: the best safe policy is worth between the two, and the plan of the campaign at least `lower`."""

    name: str
    lower: float
    upper: float
    allowed: float  # upper - lower that is asked for
    accurate: bool  # whether it is that near


_AS_REPLAYED = ("told", "cut_short", "left_model", "told_late", "imported", "branches", "forced", "samples")


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
    uncertainty: float  # Delta; inf where nothing is known but the baseline
    tolerance: float  # tau, or the accuracy that is asked for: the campaign stops when the uncertainty reaches it
    exploration_weight: float  # alpha
    suspects: int
    rows: int
    events: int
    head: str  # digest of the last event, to be noted elsewhere and given to verify later
    forecast: Forecast | None
    rewards: tuple[RewardStatus, ...] = ()  # what is certain of each declared reward; empty where none is declared
    notices: tuple[str, ...] = ()  # what to know of what is out, and of the run: say, that it will not stop by itself
    failure: float = 1.0  # how likely anything that the campaign promises is false, at most
    uncertified: tuple[str, ...] = ()  # ids of those that are out and rest on what is refuted: stop their machines

    @property
    def certified(self) -> bool:
        """Whether its standing is a guarantee."""
        return self.standing.is_guarantee


def status_of(name: str, replay: Replay, forecast: Forecast | None) -> CampaignStatus:
    learner, proposal, blocker = replay.learner, replay.learner.propose(), replay.blocker
    held = tuple((id_of(name, one.event), one.worker, one.at) for one in replay.held.values())
    waiting_for, at = None if blocker is None else id_of(name, blocker.event), now()
    return CampaignStatus(
        name=name,
        standing=learner.standing,
        stopped=proposal.reason is Reason.STOP,
        halted=proposal.reason is Reason.HALT,
        rounds=replay.deployments,
        **{name: getattr(replay, name) for name in _AS_REPLAYED},
        abandoned=len(replay.abandoned),
        withdrawn=len(replay.withdrawn),
        samples_counted=learner.samples,
        episodes_waiting=replay.uncounted,
        waiting_for=waiting_for,
        held=held,
        lease=None if replay.lease is None else replay.lease.seconds,
        overdue=tuple(id_of(name, one.event) for one in overdue(replay.lease, replay.held.values(), at)),
        next_reason=proposal.reason.name,
        uncertainty=proposal.uncertainty,
        tolerance=learner.method.stops_at(learner.problem),
        exploration_weight=proposal.exploration_weight,
        suspects=int(learner.evidence.suspects.sum()),
        rows=learner.simulator.kernel.num_rows,
        events=replay.sequence,
        head=replay.digest,
        forecast=forecast,
        rewards=tuple(
            RewardStatus(one.name, one.lower, one.upper, one.allowed, one.is_accurate) for one in learner.intervals()
        ),
        failure=learner.failure,
        notices=(
            *filter(None, [learner.decide().notice]),
            *notices_of(held, waiting_for, replay.uncounted, replay.lease, at),
        ),
        uncertified=tuple(id_of(name, one.event) for one in no_longer_certified(replay)),
    )
