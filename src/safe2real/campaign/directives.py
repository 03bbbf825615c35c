"""Directives of an operator: declared rewards and trials within a campaign, as events that are written and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Receipt
from safe2real.campaign.events import DECLARE, TRIAL, Draft, Event
from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.methods.for_rewards import ForRewards, redeclared
from safe2real.methods.trial import Trial
from safe2real.methods.trial_within import TrialWithin, refuse_within_trial, without_baseline
from safe2real.model.extensions import named_from_json, named_to_json
from safe2real.model.policy import Policy, fitted
from safe2real.model.serialization import check_keys, from_text
from safe2real.model.validation import finite_number

if TYPE_CHECKING:
    from safe2real.campaign.record import Record


def declared_in(event: Event) -> ForRewards:
    """The method that a declaration states; refuses one that is not as it was written."""
    where = f"event {event.sequence}"
    body = check_keys(from_text(event.body, where), where, required=("method",))
    return method_from(body["method"], where)


def method_from(document: Any, where: str) -> ForRewards:
    method = named_from_json(document, f"{where}.method", ForRewards, (ForRewards,))
    if not isinstance(method, ForRewards):
        raise InvalidInput(f"{where} declares no rewards; a newer safe2real may know what it says: upgrade")
    return method


def direct(learner: Learner, method: ForRewards) -> None:
    """Let a learner go on with declared rewards; only one that had some may."""
    if not isinstance(learner.method, ForRewards):
        raise InvalidInput(f"rewards were declared in a campaign of the method {learner.method.name!r}, which has none")
    learner.direct(method)


# Declaring other rewards on the way: an event that says by which method the campaign goes on.
#
# What was learnt and what is out stay as they are: a deployment is certified whatever it was chosen for. From the event
# on, proposals and the stop are those of the method that it states, in every process that reads the record, and in
# `verify`.


def declare(record: Record, rewards: Mapping[str, ArrayLike] | None, drop: Iterable[str]) -> Receipt:
    """Record that rewards are added or dropped; what is refused leaves nothing behind."""
    with record.writing() as transaction:
        learner = record.replay.learner
        refuse_within_trial(learner.method)
        method = redeclared(learner.method, rewards, drop)
        method.check(learner.problem)
        (event,) = transaction.append([Draft(DECLARE, {"method": named_to_json(method)}, worker=record.by)])
    return Receipt(event.sequence, True, 0)


_BEGIN = ("policy", "rewards", "number", "target", "delta")


def change_in(event: Event) -> dict[str, Any]:
    """What an event says about trials: {"begin": {...}} or {"end": number}; refuses one that is not as it was written."""
    where = f"event {event.sequence}"
    body = check_keys(from_text(event.body, where), where, required=(), optional=("begin", "end"))
    if len(body) != 1:
        raise InvalidInput(f"{where} does not say whether a trial begins or ends")
    return body


def change(learner: Learner, said: Mapping[str, Any]) -> None:
    """Begin or end a trial in a learner, as `change_in` read it."""
    if "end" in said:
        running = learner.method.trial.number if isinstance(learner.method, TrialWithin) else None
        if said["end"] != running or running is None:
            raise InvalidInput(f"the trial {said['end']!r} is said to be over, and the one that runs is {running!r}")
        learner.end_trial()
        return
    given = check_keys(said["begin"], "begin", required=_BEGIN)
    trial = Trial.from_parameters(given, "begin")
    learner.try_out(TrialWithin(learner.method, trial, finite_number("begin.delta", given["delta"])))


# A trial within a campaign: events that say from where to where one policy is on trial, and what it is.
#
# What is out stays out, and counts for the rows. For the trial count those episodes alone that were handed out for it, in
# the order in which they were, until it is ended: the mark is in the record of each deployment before anybody runs it.


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
