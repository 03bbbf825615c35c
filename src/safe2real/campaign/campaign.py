"""A real system, over days, losing nothing: ask what to run, run it, tell what happened.

A campaign is a record of events and a learner computed from them. `ask` records a deployment before it hands it out; `tell`
has recorded the episode when it returns. Any process on any machine that reaches the database may ask and tell; a process
that dies takes nothing with it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.campaign import events as kinds
from safe2real.campaign.checker import Discrepancy
from safe2real.campaign.claims import forced_by, recorded_of
from safe2real.campaign.deployment import Deployment, Receipt, Withdrawal, id_of, in_the_field
from safe2real.campaign.episodes import Seen, check_actions, episode_from_json, seen_from
from safe2real.campaign.events import AskBody, Draft, Event, ImportBody
from safe2real.campaign.imports import Overlap, choose, parts_of, read_log
from safe2real.campaign.journal.sql import Storage, Transaction
from safe2real.campaign.journal.sqlite import Disturbed
from safe2real.campaign.journal.tables import FORMAT
from safe2real.campaign.leases import EXPIRED, Lease, lease_in, overdue
from safe2real.campaign.ledger import Ledger, check_record
from safe2real.campaign.replay import Held, Replay
from safe2real.campaign.revisions import bounds_of
from safe2real.campaign.signing import keys_from_environment, signatures_checked, who_calls
from safe2real.campaign.snapshot import is_due, replay_from, snapshot_of
from safe2real.campaign.status import CampaignStatus, Forecast, forecast_of, status_of
from safe2real.errors import Conflict, Halted, InvalidInput, Safe2RealError, Stopped, StorageFailure
from safe2real.evidence.mismatch_map import MismatchMap, map_mismatch
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.learner import Proposal, Reason, coin_of, drawn
from safe2real.exploration.plan import Plan
from safe2real.exploration.problem import Problem
from safe2real.model.checks import positive_integer, shown
from safe2real.model.encoding import digest_of, finite_or_none, from_text, policy_from_bytes, policy_to_bytes, to_text
from safe2real.model.limits import DEPLOYMENTS, ask_limit
from safe2real.model.policy import MarkovPolicy, Mixture, check_policy
from safe2real.model.trajectory import Trajectory
from safe2real.standing import Standing
from safe2real.version import __version__

_HALTED = (
    "the data refute the margin of the baseline, so nothing is handed out any more, the baseline included: STOP THE "
    "MACHINE. What is out can still be told. To go on, make a new campaign with a smaller margin that is there, and import "
    "the episodes of this one into it"
)
_READS = 2  # of a file that others begin to write to meanwhile, before the last


class Campaign:
    """Ask and tell around a `Learner`, durable. Make one with `create`, come back to it with `open`.

    Guarantee: that of the learner (Theorem 1), with `FIELD_ASSUMPTIONS`. One object for each process; do not share it
    between threads.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.by = who_calls(storage.keys)  # named in everything that this object records
        header = storage.header()
        self.name, self.format = header.name, header.format
        try:
            self.specification = Problem.from_text(header.specification)
        except InvalidInput as error:
            raise StorageFailure(
                f"{storage.place}: the stored specification was changed after it was recorded ({error}); restore a copy"
            ) from error
        self._specification_digest = digest_of(header.specification.encode())
        self._replay = Replay(self.specification)
        self._covered = 0  # by the newest snapshot that is known
        self._policies: dict[str, MarkovPolicy] = {}
        self._baseline_content: bytes | None = None

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        specification: Problem,
        *,
        trust_margin: bool = False,
        lease: float | None = None,
        withdraw_overdue: bool = False,
    ) -> Campaign:
        """Begin a campaign at `url`: a file name (SQLite) or postgresql://... . An existing one is never overwritten.

        A baseline that misses its stated margin already on the simulator is refused, unless you say with `trust_margin` that
        the real system is better than the simulator there. With a `lease`, in seconds, `status` names deployments that are
        out for longer; with `withdraw_overdue` the next `ask` takes them back. Whether an episode outlasts its lease must
        not depend on what happens in it: give many times the length of one.
        """
        if withdraw_overdue and lease is None:
            raise InvalidInput("withdraw_overdue is set without a lease; give the seconds that a deployment may be out")
        stated = None if lease is None else Lease.of(lease, withdraw_overdue)
        if not isinstance(specification, Problem):
            raise InvalidInput(f"specification is a {type(specification).__name__}; give a Problem")
        specification.learner(trust_margin=trust_margin)  # refuse before anything is written
        text = specification.to_text()
        Problem.from_text(text)
        storage, name = Storage(url, new=True, keys=keys_from_environment()), secrets.token_hex(4)
        body: dict[str, Any] = {
            "campaign": name,
            "specification": digest_of(text.encode()),
            "version": __version__,
            "method": specification.settings.algorithm.value,
            "bounds": bounds_of(specification.settings),
        }
        with _closed_on_failure(storage):
            body |= {"trust_margin": True} if trust_margin else {}
            storage.create(name, text, body | ({} if stated is None else {"lease": stated.to_json()}))
            return cls(storage)

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> Campaign:
        """Come back to a campaign. The events are read when they are first needed."""
        storage = Storage(url, keys=keys_from_environment())
        with _closed_on_failure(storage):
            return cls(storage)

    def close(self) -> None:
        self._storage.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking

    def ask(self, *, worker: str, n: int = 1) -> list[Deployment]:
        """`n` deployments for `worker` to run, recorded before they are returned.

        Until they are told or abandoned, the same worker is given the same ones again, also after a crash and from another
        process; unless the data have refuted an assumption since. Then what rests on it is withdrawn, for good, and the
        baseline alone is handed out instead: `withdrawn` of every deployment says which must not be run any more.

        Raises `Stopped` when the model is accurate enough and the worker holds nothing, and `Halted` when the data refute
        the margin of the baseline itself: all that the worker holds is withdrawn then, and the machine should be stopped.
        """
        worker = _text("worker", worker, 200)
        n = positive_integer("n", n)
        if n > ask_limit():
            raise InvalidInput(
                f"n is {shown(n)}; one call hands out at most {ask_limit()} deployments: ask again for more, or set "
                f"{DEPLOYMENTS} if that is meant"
            )
        self._catch_up()
        self._replay.learner.propose()  # planned before others are kept waiting; usually nothing has changed below
        while True:
            fresh: list[Event] = []
            with self._storage.writing() as transaction:
                self._catch_up(transaction)
                withdrawn = self._refuted_of(worker)
                withdrawn += self._expired({draft.deployment for draft in withdrawn})
                if withdrawn:
                    fresh = transaction.append(withdrawn)
                else:
                    held = self._replay.held_by(worker)[:n]
                    if len(held) < n:
                        fresh = self._hand_out(transaction, worker, n - len(held), nothing_held=not held)
                    bodies = [AskBody.read(event) for event in (*(one.event for one in held), *fresh)]
                    named = {digest for body in bodies for digest in body.policies}
                    policies = {digest: self._load(transaction, digest) for digest in named}
            for event in fresh:
                self._replay.apply(event)
            if not withdrawn:  # else what was waiting behind the withdrawn ones counts now: look again
                self._keep_snapshot()
                return [self._deployment(one, policies) for one in self._replay.held_by(worker)[:n]]

    def _refuted_of(self, worker: str) -> list[Draft]:
        """The withdrawals of what a worker holds and must not run any more."""
        learner = self._replay.learner
        if learner.standing is not Standing.REFUTED:
            return []
        halted = learner.propose().reason is Reason.HALT
        body = {
            "cause": kinds.HALTED if halted else kinds.REFUTED,
            "reason": "; ".join(str(doubt) for doubt in learner.doubts() if doubt.standing is Standing.REFUTED),
        }
        return [
            Draft(kinds.WITHDRAW, body, held.number, worker)
            for held in self._replay.held_by(worker)
            if halted or AskBody.read(held.event).reason != Reason.BASELINE.name
        ]

    def _expired(self, taken: set[int | None]) -> list[Draft]:
        """The withdrawals of what anybody holds for longer than the lease; a machine that is gone asks no more."""
        lease = self._replay.lease
        if lease is None or not lease.withdraws:
            return []
        body = {"cause": EXPIRED, "reason": EXPIRED}
        late = overdue(lease, self._replay.held.values(), kinds.now())
        return [Draft(kinds.WITHDRAW, body, one.number, one.worker) for one in late if one.number not in taken]

    def _hand_out(self, transaction: Transaction, worker: str, n: int, *, nothing_held: bool) -> list[Event]:
        proposal = self._replay.learner.propose()
        if proposal.reason is Reason.HALT:
            gone = ", ".join(one.id for one in self._withdrawals(worker))
            taken = f". Do not run {gone}: withdrawn; tell what has run of it" if gone else ""
            doubts = "; ".join(map(str, self._replay.learner.doubts()))
            raise Halted(f"{_HALTED} ({doubts}){taken}")
        if proposal.reason is Reason.STOP:
            if nothing_held:
                raise Stopped(
                    f"nothing is left to deploy: the certificate {proposal.uncertainty:.4g} has reached the tolerance "
                    f"{self.specification.settings.tolerance:.4g}; call plan(reward)"
                )
            return []
        return self._record(transaction, proposal, worker, n)

    def _record(self, transaction: Transaction, proposal: Proposal, worker: str, n: int) -> list[Event]:
        learner, mixture, certificate = self._replay.learner, proposal.mixture, proposal.certificate
        if mixture is None or certificate is None or not certificate.reaches:
            raise StorageFailure("a proposal without a certificate that holds was stopped at the door; please report this")
        digests = transaction.add_policies([self._encoded(policy) for policy in mixture.policies])
        drafts = []
        for number in range(self._replay.deployments + 1, self._replay.deployments + 1 + n):
            body = AskBody(
                reason=proposal.reason.name,
                weights=mixture.weights.tolist(),
                policies=digests,
                candidates=len(digests) - (mixture.policies[-1] is learner.baseline),
                drawn=drawn(mixture.weights, coin_of(learner.settings.seed, number)),
                exploration_weight=proposal.exploration_weight,
                uncertainty=finite_or_none(proposal.uncertainty),
                lower_bounds=certificate.lower_bounds.tolist(),
                certified=certificate.certified,
                episodes_counted=learner.hybrid.counts.episodes,
                bounds=bounds_of(learner.settings),
                by=self.by,
            )
            drafts.append(Draft(kinds.ASK, asdict(body), number, worker))
        return transaction.append(drafts)

    # Telling

    def tell(
        self,
        id: str,
        trajectory: Trajectory | tuple[ArrayLike, ArrayLike],
        *,
        partial: bool = False,
        left_model: bool = False,
        worker: str | None = None,
        force: str | None = None,
    ) -> Receipt:
        """Record what happened in a deployment; durable when it returns, and exactly once.

        The same episode told again changes nothing; another one for the same deployment is a `Conflict`. With `partial`
        the episode may have been cut short: give all transitions that were seen. With `left_model` the system then went
        where the model has no state: give (states, actions), as many actions as states, the last of which led there; both
        empty if the episode began there. An episode that begins where the model's never do is the same. It refutes the
        model for good: nothing is certified any more. An episode whose deployment was abandoned or withdrawn is still taken.
        `worker` says whose episode it is: it must be the one that holds the deployment, unless `force` says why another one
        tells it, which is recorded.
        """
        model = self.specification.simulator
        if not isinstance(trajectory, Trajectory) and not (
            left_model and isinstance(trajectory, tuple) and len(trajectory) == 2
        ):
            wanted = "(states, actions)" if left_model else "Trajectory.of(model, states, actions)"
            raise InvalidInput(f"an episode is a {type(trajectory).__name__}; give {wanted}")
        seen = seen_from(model, trajectory, "the episode", partial=partial, left_model=left_model)
        return self._tell(id, seen, worker, force)

    def tell_json(
        self,
        id: str,
        episode: Any,
        *,
        partial: bool = False,
        left_model: bool = False,
        worker: str | None = None,
        force: str | None = None,
    ) -> Receipt:
        """`tell` for an object {"states": [...], "actions": [...]} from another language, with "left_model": true if so."""
        if not isinstance(episode, dict):  # say what an object is, not what a trajectory is
            episode_from_json(self.specification.simulator, episode, "the episode", partial=partial)
        model = self.specification.simulator
        seen = seen_from(model, episode, "the episode", partial=partial, left_model=left_model)
        return self._tell(id, seen, worker, force)

    def _tell(self, id: str, seen: Seen, worker: str | None, force: str | None) -> Receipt:
        content = seen.to_json()
        self._catch_up()  # before others are kept waiting
        with self._storage.writing() as transaction:
            known = self._recorded_of(transaction, id)
            if kinds.TELL in known:
                if known[kinds.TELL].body != to_text(content):
                    raise Conflict(
                        f"deployment {id} was told already, with another episode, at {known[kinds.TELL].at}; it stays. "
                        "Was the id mixed up? Every episode is told with the id it was asked with"
                    )
                return Receipt(known[kinds.TELL].sequence, False, seen.transitions)
            forced = self._forced(known[kinds.ASK], worker, force)
            body = AskBody.read(known[kinds.ASK])
            policy = self._load(transaction, body.policies[body.drawn])
            check_actions(policy, seen.path, f"deployment {id}")
            told = Draft(kinds.TELL, content, known[kinds.ASK].deployment, self.by)
            *_, event = transaction.append([*forced, told])
        return Receipt(event.sequence, True, seen.transitions)

    def abandon(self, id: str, reason: str, *, worker: str | None = None, force: str | None = None) -> Receipt:
        """Give up on a deployment: its worker will be asked no more. Told later, its episode is still taken.

        The guarantee assumes that the reason had nothing to do with what happened in the episode. `worker` and `force` are
        those of `tell`.
        """
        reason = _text("reason", reason, 10_000)
        self._catch_up()
        with self._storage.writing() as transaction:
            known = self._recorded_of(transaction, id)
            if kinds.TELL in known:
                raise Conflict(f"deployment {id} was told at {known[kinds.TELL].at}; what was told stays")
            for kind in (kinds.ABANDON, kinds.WITHDRAW):
                if kind in known:
                    return Receipt(known[kind].sequence, False, 0)
            forced = self._forced(known[kinds.ASK], worker, force)
            given_up = Draft(kinds.ABANDON, {"reason": reason}, known[kinds.ASK].deployment, self.by)
            *_, event = transaction.append([*forced, given_up])
        return Receipt(event.sequence, True, 0)

    def branch(self, reason: str) -> Receipt:
        """Say that the record was restored from a copy and goes on from here; what had come after is lost.

        The guarantee assumes that the restore had nothing to do with what happened in the lost episodes.
        """
        reason = _text("reason", reason, 10_000)
        self._catch_up()
        with self._storage.writing() as transaction:
            self._catch_up(transaction)
            (event,) = transaction.append([Draft(kinds.BRANCH, {"reason": reason}, worker=self.by)])
        return Receipt(event.sequence, True, 0)

    def _recorded_of(self, transaction: Transaction, id: str) -> dict[str, Event]:
        self._catch_up(transaction)
        return recorded_of(transaction, self._replay, self.name, id)

    def _forced(self, asked: Event, worker: str | None, force: str | None) -> list[Draft]:
        worker = None if worker is None else _text("worker", worker, 200)
        return forced_by(self.by, asked, worker, None if force is None else _text("force", force, 10_000))

    def abandon_all(self, worker: str, reason: str) -> list[str]:
        """Give up on everything that `worker` holds, in one transaction: a machine that is gone. Returns the ids.

        As with `abandon`, the guarantee assumes that the reason had nothing to do with what happened in the episodes.
        """
        worker, reason = _text("worker", worker, 200), _text("reason", reason, 10_000)
        self._catch_up()
        with self._storage.writing() as transaction:
            self._catch_up(transaction)
            held = self._replay.held_by(worker)
            transaction.append([Draft(kinds.ABANDON, {"reason": reason}, one.number, self.by) for one in held])
        return [id_of(self.name, one.event) for one in held]

    def import_log(
        self,
        source: str,
        policy: MarkovPolicy,
        episodes: Iterable[Trajectory | Any],
        *,
        partial: bool = False,
        overlap: Overlap | str = Overlap.REFUSE,
    ) -> Receipt:
        """Add episodes that were collected earlier by a known Markov policy, all or none.

        `episodes` are trajectories or objects {"states": ..., "actions": ...}, which may say "left_model": true (see `tell`)
        and have an "id", any text that names the episode in every log. `source` names the log: the same log imported again
        changes nothing, another one under the same name is a `Conflict`. So are episodes that the record has already, by
        their id or by their content, unless `overlap` says that they are the same ones ("skip" leaves them out) or others
        that happen to look alike ("count"); both are recorded as assumptions.

        The log is counted as a whole, after the deployments that are out now. The guarantee assumes that it is complete: no
        episode was left out because of what happened in it.
        """
        source = _text("source", source, 200)
        if not isinstance(policy, MarkovPolicy):
            raise InvalidInput(f"policy is a {type(policy).__name__}; give the Markov policy that collected the log")
        if overlap not in list(Overlap):
            raise InvalidInput(f"overlap is {overlap!r}; give one of {', '.join(Overlap)}")
        check_policy(policy, self.specification.simulator)
        log = read_log(self.specification.simulator, policy, episodes, partial=partial)
        samples = sum(seen.transitions for seen in log)
        encoded = policy_to_bytes(policy)
        whole = digest_of(to_text([seen.to_json() for seen in log]).encode())
        with self._storage.writing() as transaction:
            earlier = transaction.imports_from(source)
            if earlier:
                first = ImportBody.read(earlier[0])
                if first.log != whole:
                    raise Conflict(
                        f"another log was imported as {source!r} at {earlier[0].at}; give this one a name of its own"
                    )
                return Receipt(earlier[-1].sequence, False, samples, first.skipped)
            twin = transaction.import_of(whole)
            if twin is not None and overlap == Overlap.REFUSE:
                raise Conflict(f"the same log was imported as {twin.worker!r} at {twin.at}; it counts once, under one name")
            chosen = choose(log, Overlap(overlap), self.name, digest_of(encoded), transaction.events())
            if not chosen.episodes:
                return Receipt(transaction.last()[0], False, 0, chosen.skipped)
            (digest,) = transaction.add_policies([encoded])
            parts = parts_of(chosen, policy=digest, log=whole, after=transaction.last_deployment(), size=kinds.IMPORT_SIZE)
            added = transaction.append(
                [Draft(kinds.IMPORT, asdict(replace(body, by=self.by)), worker=source) for body in parts]
            )
        return Receipt(added[-1].sequence, True, sum(seen.transitions for seen in chosen.episodes), chosen.skipped)

    def migrate(self) -> bool:
        """Bring the record to the format of this release, so that older programs refuse it; False if it has it already.

        No event is changed. A campaign of an older format works here as it is; but a program of the older release would go
        on in it without knowing of withdrawals and halts.
        """
        with self._storage.writing() as transaction:
            found = transaction.header().format
            if found == FORMAT:
                return False
            transaction.append([Draft(kinds.MIGRATE, {"from": found, "to": FORMAT, "version": __version__})])
            transaction.set_format(FORMAT)
        self.format = FORMAT
        return True

    # Looking

    def status(self, *, forecast: bool = True) -> CampaignStatus:
        """Where the campaign stands; `forecast` rehearses the rest of it on the learnt model."""
        self._catch_up()
        return status_of(
            self.name, self._replay, forecast_of(self.specification, self._replay.learner) if forecast else None
        )

    def forecast(self) -> Forecast:
        """Rounds and samples until the stop, by a rehearsal on the learnt model."""
        self._catch_up()
        return forecast_of(self.specification, self._replay.learner)

    def assurance(self) -> Certificate:
        """What everything that is handed out now is worth: the certificate of the baseline, with all it rests on."""
        self._catch_up()
        learner, logs = self._replay.learner, self._replay.said_of_logs
        return in_the_field(learner.certify(learner.trusted, learner.simulator.thresholds), logs)

    def plan(self, reward: ArrayLike) -> Plan:
        """A policy for any reward in [0, 1], certified feasible, with a bound on what it may miss (see `Learner.plan`)."""
        self._catch_up()
        plan = self._replay.learner.plan(reward)
        return replace(plan, certificate=in_the_field(plan.certificate, self._replay.said_of_logs))

    def mismatch_map(self) -> MismatchMap:
        """For every row how far it is from the simulator, and what is known about it."""
        self._catch_up()
        return map_mismatch(self._replay.learner.hybrid)

    def proposal(self) -> Proposal:
        """What the next deployment would be made from; nothing is recorded."""
        self._catch_up()
        proposal = self._replay.learner.propose()
        certificate = proposal.certificate
        if certificate is None:
            return proposal
        return replace(proposal, certificate=in_the_field(certificate, self._replay.said_of_logs))

    def verify(self, *, head: str | None = None, progress: Callable[[int, int], None] | None = None) -> Ledger:
        """Compute every deployment's certificate again from the events alone, and report any that does not hold.

        `head` is a digest noted earlier (from `status`): the record must still contain it, so events cannot have been cut
        off. `progress(events checked, events in all)` is called as it goes.
        """
        for _ in range(_READS):
            with suppress(Disturbed):
                return self._verify(head, progress)
        return self._verify(head, progress)

    def _verify(self, head: str | None, progress: Callable[[int, int], None] | None) -> Ledger:
        problems: list[Discrepancy] = []
        with self._storage.reading(as_it_is=True) as transaction:  # what was seen before is compared by `head`
            end = transaction.last()  # first of all: every event up to it is to be accounted for
            events = transaction.events(until=end[0])
            if self._storage.keys is not None:
                events = signatures_checked(
                    events,
                    transaction.signatures(),
                    self._storage.keys,
                    lambda event, what: problems.append(Discrepancy(event.sequence, event.deployment, what)),
                )
            ledger = check_record(
                self.name,
                self.specification,
                self._specification_digest,
                events,
                transaction.policy,
                head=head,
                end=end,
                progress=None if progress is None else lambda done: progress(done, end[0]),
            )
            damage = [Discrepancy(0, None, f"the database is damaged: {what}") for what in transaction.damage()]
        return replace(ledger, problems=(*ledger.problems, *problems, *damage))

    def events(self) -> Sequence[Event]:
        """The whole record, oldest first."""
        with self._storage.reading() as transaction:
            return list(transaction.events())

    def stored_policies(self) -> dict[str, MarkovPolicy]:
        """Every policy that the record names, by digest."""
        with self._storage.reading() as transaction:
            return {digest: policy_from_bytes(content) for digest, content in transaction.policies()}

    # Inside

    def _catch_up(self, transaction: Transaction | None = None) -> None:
        """Take in what others have recorded."""
        if transaction is None:
            with self._storage.reading() as own:
                return self._catch_up(own)
        if self._replay.sequence == 0:
            self._resume(transaction)
        for event in transaction.events(self._replay.sequence):
            if event.kind == kinds.CREATE and not self._began(event):
                raise StorageFailure(
                    "the campaign's name or its specification was changed after it was created, so nothing is handed out; "
                    "run verify, or restore a copy"
                )
            self._replay.apply(event)
        if self._replay.sequence == 0:
            raise StorageFailure(
                f"{self._storage.place}: the campaign's events are gone, even the first; nothing is handed out, for numbers "
                "would be given twice: restore a copy"
            )
        self._storage.remember(self._replay.sequence, self._replay.digest)
        return None

    def _resume(self, transaction: Transaction) -> None:
        """Begin from a snapshot, where there is one that can be used."""
        found, first = transaction.snapshot(), next(transaction.events(until=1), None)
        if found is None or first is None or not self._began(first):
            return
        sequence, digest, content = found
        keys = self._storage.keys
        replay = replay_from(content, (sequence, digest), self.specification, self._specification_digest, keys)
        if replay is not None:
            replay.lease = lease_in(from_text(first.body, "the first event"))
            self._replay, self._covered = replay, sequence

    def _keep_snapshot(self) -> None:
        """Save the next process the reading; nobody depends on it, so whoever may not write it goes without."""
        replay = self._replay
        if not is_due(replay.sequence, self._covered):
            return
        self._covered = replay.sequence  # also when it fails: the next attempt is as far away
        content = snapshot_of(replay, self._specification_digest, self._storage.keys)
        with suppress(StorageFailure), self._storage.writing() as transaction:
            there = transaction.snapshot()
            if there is None or is_due(replay.sequence, there[0]):
                transaction.keep_snapshot(replay.sequence, replay.digest, content)

    def _began(self, event: Event) -> bool:
        """Whether the first event speaks of this campaign."""
        body = from_text(event.body, "the first event")
        spoken = (body.get("campaign"), body.get("specification")) if isinstance(body, dict) else None
        return spoken == (self.name, self._specification_digest)

    def _encoded(self, policy: MarkovPolicy) -> bytes:
        if self._baseline_content is None:  # in every mixture, and often the largest of its policies
            self._baseline_content = policy_to_bytes(self._replay.learner.baseline)
        return self._baseline_content if policy is self._replay.learner.baseline else policy_to_bytes(policy)

    def _load(self, transaction: Transaction, digest: str) -> MarkovPolicy:
        if digest in self._policies:
            return self._policies[digest]
        content = transaction.policy(digest)
        if content is None or digest_of(content) != digest:
            raise StorageFailure(
                f"policy {digest[:12]} is missing or was changed after it was recorded, so it is not handed out; run verify"
            )
        policy = policy_from_bytes(content)
        if len(self._policies) > 1000:  # enough for a fleet; they can be read again
            self._policies.clear()
        self._policies[digest] = policy
        return policy

    def _deployment(self, held: Held, policies: dict[str, MarkovPolicy]) -> Deployment:
        body, learner = AskBody.read(held.event), self._replay.learner
        mixture = Mixture.of(body.weights, [policies[digest] for digest in body.policies])
        bounds = np.array(body.lower_bounds, dtype=np.float64)
        return Deployment(
            id=id_of(self.name, held.event),
            number=held.number,
            worker=held.worker,
            at=held.at,
            policy=mixture.policies[body.drawn],
            mixture=mixture,
            drawn=body.drawn,
            reason=Reason[body.reason],
            exploration_weight=body.exploration_weight,
            uncertainty=np.inf if body.uncertainty is None else body.uncertainty,
            certificate=in_the_field(learner.certify(bounds, learner.simulator.thresholds), self._replay.said_of_logs),
            withdrawn=self._withdrawals(held.worker),
        )

    def _withdrawals(self, worker: str) -> tuple[Withdrawal, ...]:
        found = self._replay.withdrawn_from(worker)
        return tuple(Withdrawal(id_of(self.name, one.held.event), one.at, one.reason) for one in found)


@contextmanager
def _closed_on_failure(storage: Storage) -> Iterator[None]:
    try:
        yield
    except Safe2RealError:
        storage.close()
        raise


def _text(name: str, value: Any, longest: int) -> str:
    printable = isinstance(value, str) and value.replace("\n", " ").replace("\t", " ").isprintable()
    if not printable or not value.strip() or len(value) > longest:
        raise InvalidInput(f"{name} is {str(value)[:60]!r}; give a text of 1 to {longest} printable characters")
    return str(value)
