"""Asking: a deployment is recorded before a worker receives it, and withdrawn when an assumption behind it is refuted."""

from __future__ import annotations

from typing import Any

import numpy as np

from safe2real.campaign import events
from safe2real.campaign.deployment import Deployment, Withdrawal, id_of
from safe2real.campaign.events import ASK, HALTED, REFUTED, WITHDRAW, AskBody, Draft, Event, bounds_of, by_field
from safe2real.campaign.journal import Transaction
from safe2real.campaign.leases import EXPIRED, overdue
from safe2real.campaign.record import Record
from safe2real.campaign.replay import Held, Replay
from safe2real.errors import Halted, InvalidInput, Stopped, StorageFailure
from safe2real.exploration.proposal import Proposal, coin_of, drawn
from safe2real.methods.base import Reason
from safe2real.model.constraint_text import count
from safe2real.model.policy import MarkovPolicy, Mixture, carried_out
from safe2real.model.serialization import finite_or_none
from safe2real.model.validation import DEPLOYMENTS, ask_limit, positive_integer, shown
from safe2real.standing import Standing

_HALTED = (
    "the data refute the margin of the baseline, so nothing is handed out any more, the baseline included: STOP THE "
    "MACHINE. What is out can still be told. To go on, make a new campaign with a smaller margin that is there, and take "
    "over the episodes of this one: carry_over(new, old), or campaign import NEW --from OLD"
)


def hand_out(record: Record, worker: str, n: int) -> list[Deployment]:
    """Return `n` deployments for `worker`, first those that it holds; see `Campaign.ask_batch`."""
    n = positive_integer("n", n)
    if n > ask_limit():
        raise InvalidInput(
            f"n is {shown(n)}; one call hands out at most {count(ask_limit(), 'deployment')}: ask again when these are told "
            f"or abandoned, or set {DEPLOYMENTS} if that is meant"
        )
    record.catch_up_unlocked().learner.propose()  # planned before others are kept waiting; usually nothing has changed below
    while True:
        fresh: list[Event] = []
        asked: list[AskBody] = []
        with record.journal.writing() as transaction:
            replay = record.catch_up(transaction)
            withdrawn = _refuted_of(record, worker)
            withdrawn += _expired(record, {draft.deployment for draft in withdrawn})
            if withdrawn:
                fresh = transaction.append(withdrawn)
            else:
                held = replay.held_by(worker)[:n]
                if len(held) < n:
                    fresh, asked = _proposed(record, transaction, worker, n - len(held), nothing_held=not held)
                named = {digest for body in (*(one.body for one in held), *asked) for digest in body.policies}
                policies = {digest: record.policy(transaction, digest) for digest in named}
        record.take(fresh, asked)
        if not withdrawn:  # else episodes that waited for the withdrawn deployments count now, which can refute more
            record.keep_snapshot()
            return [deployment_of(record, one, policies) for one in replay.held_by(worker)[:n]]


def no_longer_certified(replay: Replay) -> list[Held]:
    """Return the open deployments that rest on a refuted assumption; after a halt, all open deployments."""
    if replay.learner.standing is not Standing.REFUTED:
        return []
    halted = replay.learner.propose().reason is Reason.HALT
    return [one for one in replay.held.values() if halted or one.body.reason != Reason.BASELINE.name]


def _refuted_of(record: Record, worker: str) -> list[Draft]:
    """Return the withdrawals of a worker's deployments that are no longer certified."""
    found = [held for held in no_longer_certified(record.replay) if held.worker == worker]
    if not found:
        return []
    learner = record.replay.learner
    body = {
        "cause": HALTED if learner.propose().reason is Reason.HALT else REFUTED,
        "reason": "; ".join(str(doubt) for doubt in learner.doubts() if doubt.standing is Standing.REFUTED),
    }
    return [Draft(WITHDRAW, body, held.number, worker) for held in found]


def _expired(record: Record, taken: set[int | None]) -> list[Draft]:
    """Return the withdrawals of deployments held for longer than the lease, since a lost worker never asks again."""
    lease = record.replay.lease
    if lease is None or not lease.withdraws:
        return []
    body = {"cause": EXPIRED, "reason": EXPIRED}
    late = overdue(lease, record.replay.held.values(), events.now())
    return [Draft(WITHDRAW, body, one.number, one.worker) for one in late if one.number not in taken]


def _proposed(
    record: Record, transaction: Transaction, worker: str, n: int, *, nothing_held: bool
) -> tuple[list[Event], list[AskBody]]:
    learner = record.replay.learner
    proposal = learner.propose()
    if proposal.reason is Reason.HALT:
        gone = ", ".join(one.id for one in _withdrawals(record, worker))
        taken = f". Do not run {gone}: withdrawn; tell what has run of it" if gone else ""
        raise Halted(f"{_HALTED} ({'; '.join(map(str, learner.doubts()))}){taken}")
    if proposal.reason is Reason.STOP:
        if nothing_held:
            raise Stopped(
                f"nothing is left to deploy: the method has stopped, at the uncertainty {proposal.uncertainty:.4g} "
                f"(tolerance {record.problem.settings.tolerance:.4g}); call plan(reward)"
            )
        return [], []
    return record_asks(record, transaction, proposal, worker, n)


def record_asks(
    record: Record, transaction: Transaction, proposal: Proposal, worker: str, n: int
) -> tuple[list[Event], list[AskBody]]:
    """Record `n` deployments of a proposal that holds, each with its own coin; returns the events and their bodies."""
    learner, mixture, certificate = record.replay.learner, proposal.mixture, proposal.certificate
    if mixture is None or certificate is None or not certificate.reaches:
        raise StorageFailure("a proposal without a certificate that holds was stopped at the door; please report this")
    digests = transaction.add_policies([record.encoded(policy) for policy in mixture.policies])
    first = record.replay.deployments + 1
    bodies = [
        AskBody(
            reason=proposal.reason.name,
            weights=mixture.weights.tolist(),
            policies=digests,
            candidates=len(digests) - (mixture.policies[-1] is learner.baseline),
            drawn=drawn(mixture.weights, coin_of(learner.settings.coin_seed, number)),
            exploration_weight=proposal.exploration_weight,
            # It speaks of the candidate: a record of the baseline alone claims nothing of one.
            uncertainty=finite_or_none(proposal.uncertainty) if proposal.reason is Reason.MIXTURE else None,
            lower_bounds=certificate.lower_bounds.tolist(),
            certified=certificate.certified,
            episodes_counted=learner.evidence.counts.episodes,
            bounds=bounds_of(learner.settings),
            by=record.by,
        )
        for number in range(first, first + n)
    ]
    return transaction.append(Draft(ASK, by_field(body), first + i, worker) for i, body in enumerate(bodies)), bodies


def deployment_of(record: Record, held: Held, policies: dict[str, MarkovPolicy]) -> Deployment:
    """Return the deployment as the worker receives it; `policies` has those of its mixture by digest."""
    body, learner = held.body, record.replay.learner
    whole = Mixture.of(body.weights, [policies[digest] for digest in body.policies])
    mixture = carried_out(whole, record.problem.simulator)
    bounds: Any = np.array(body.lower_bounds, dtype=np.float64)
    return Deployment(
        id=id_of(record.name, held.event),
        number=held.number,
        worker=held.worker,
        at=held.at,
        policy=mixture.policies[body.drawn],
        mixture=mixture,
        drawn=body.drawn,
        reason=Reason[body.reason],
        exploration_weight=body.exploration_weight,
        uncertainty=np.inf if body.uncertainty is None else body.uncertainty,
        certificate=record.replay.in_the_field(learner.certify(bounds)),
        withdrawn=_withdrawals(record, held.worker),
    )


def _withdrawals(record: Record, worker: str) -> tuple[Withdrawal, ...]:
    found = record.replay.withdrawn_from(worker)
    return tuple(Withdrawal(id_of(record.name, one.held.event), one.at, one.reason) for one in found)
