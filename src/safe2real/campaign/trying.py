"""A trial within a campaign: events that say from where to where one policy is on trial, and what it is.

What is out stays out, and counts for the rows. For the trial count those episodes alone that were handed out for it, in the
order in which they were, until it is ended: the mark is in the record of each deployment before anybody runs it.
"""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Receipt
from safe2real.campaign.events import TRIAL, Draft
from safe2real.campaign.record import Record
from safe2real.errors import InvalidInput
from safe2real.methods.trial import Trial
from safe2real.methods.trial_within import TrialWithin, without_baseline
from safe2real.model.policy import Policy, fitted


def begin_trial(
    record: Record,
    policy: Policy,
    delta: float,
    rewards: Mapping[str, ArrayLike] | None,
    target: Mapping[str, float] | None,
) -> Receipt:
    """Record that a policy is on trial from here on; what is refused leaves nothing behind."""
    with record.writing() as transaction:
        learner = record.replay.learner
        trial = Trial(
            without_baseline(fitted(policy, learner.simulator), learner.baseline), rewards, len(learner.trials) + 1, target
        )
        TrialWithin(learner.method, trial, delta).check(learner.problem)
        body = {"begin": {**trial.to_parameters(), "delta": float(delta)}}
        (event,) = transaction.append([Draft(TRIAL, body, worker=record.by)])
    return Receipt(event.sequence, True, 0)


def end_trial(record: Record) -> Receipt:
    """Record that the trial is over, and the campaign goes on with its method."""
    with record.writing() as transaction:
        method = record.replay.learner.method
        if not isinstance(method, TrialWithin):
            raise InvalidInput("no trial is running within this campaign; begin one with begin_trial(policy, delta=...)")
        (event,) = transaction.append([Draft(TRIAL, {"end": method.trial.number}, worker=record.by)])
    return Receipt(event.sequence, True, 0)
