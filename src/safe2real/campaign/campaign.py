"""A real system, over days, losing nothing: ask what to run, run it, tell what happened.

A campaign is a record of events and a learner computed from them. `ask` records a deployment before it hands it out; `tell`
has recorded the episode when it returns. Any process on any machine that reaches the journal may ask and tell; a process
that dies takes nothing with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from safe2real.campaign import events as kinds
from safe2real.campaign.ask import hand_out
from safe2real.campaign.deployment import Deployment, Receipt, id_of, read_id
from safe2real.campaign.events import (
    AskBody,
    Draft,
    Event,
    checked_name,
    checked_text,
)  # fmt: skip
from safe2real.campaign.import_log import Overlap, import_logs
from safe2real.campaign.journal import Journal, Transaction, journal_at
from safe2real.campaign.record import Record, create_record, first_event_of
from safe2real.campaign.status import CampaignStatus, status_of
from safe2real.campaign.verify import Ledger, verify_record
from safe2real.errors import Conflict, InvalidInput, Safe2RealError, StorageFailure
from safe2real.evidence.mismatch_map import MismatchMap, map_mismatch
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.episode_log import check_told, pairs_of, seen_from
from safe2real.exploration.forecast import Forecast
from safe2real.exploration.forecast import forecast as rehearsed
from safe2real.exploration.learner import Learner
from safe2real.exploration.plan import Plan
from safe2real.exploration.proposal import Proposal
from safe2real.methods.base import Method
from safe2real.methods.document import extensions_of
from safe2real.methods.for_rewards import redeclared
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import Extensions, named_to_json, policy_from_bytes, to_text
from safe2real.model.trajectory import Trajectory, check_actions
from safe2real.problem.problem import Problem

Place = str | os.PathLike[str] | Journal


class Campaign:
    """An ask-and-tell interface around a `Learner`, with a durable record; begin it with `create`, continue it with `open`.

    Guarantee: that of the learner (Theorem 1), with `FIELD_ASSUMPTIONS`. One object for each process; do not share it
    between threads.
    """

    def __init__(self, journal: Journal, extensions: Extensions = ()) -> None:
        self.journal = journal
        self._record = Record(journal, extensions)
        self.name, self.problem = self._record.name, self._record.problem

    @classmethod
    def create(
        cls,
        place: Place,
        problem: Problem,
        *,
        method: Method | None = None,
        trust_margin: bool = False,
        lease: float | None = None,
        withdraw_overdue: bool = False,
        exist_ok: bool = False,
        extensions: Extensions = (),
    ) -> Campaign:
        """Begin a campaign. An existing one is never overwritten.

        A baseline that misses its stated margin already on the simulator is refused, unless you say with `trust_margin` that
        the real system is better than the simulator there. With a `lease`, in seconds, `status` names deployments that are
        out for longer; with `withdraw_overdue` the next `ask` takes them back. Whether an episode outlasts its lease must
        not depend on what happens in it: give many times the length of one.

        Args:
            place: A file name (SQLite), postgresql://..., or a `Journal`.
            problem: What is given and assumed; stored, and the same from now on.
            method: What decides what is handed out; `methods.SimToReal()` unless another is given.
            trust_margin: Whether the baseline's margin stands though the simulator does not show it.
            lease: Seconds that a deployment may be out.
            withdraw_overdue: Whether it is taken back then.
            exist_ok: Whether to open the campaign that is there, if it is about the same problem.
            extensions: Classes of radii and methods from elsewhere that the problem and the method are made of.

        Returns:
            The open campaign.

        Raises:
            Conflict: There is a campaign already; with `exist_ok`, one about another problem, or with another lease.
            InvalidInput: The problem cannot be what it says.
        """
        method = SimToReal() if method is None else method
        extensions = (*extensions, *extensions_of(problem, method))
        text, body = first_event_of(
            problem, method, trust_margin=trust_margin, lease=lease, withdraw_overdue=withdraw_overdue
        )
        journal = journal_at(place, new=True)
        with _closed_on_failure(journal):
            create_record(journal, text, body, exist_ok=exist_ok)
            return cls(journal, extensions)

    @classmethod
    def open(cls, place: Place, *, extensions: Extensions = ()) -> Campaign:
        """Open an existing campaign. Its events are read when they are first needed.

        Args:
            place: A file name (SQLite), postgresql://..., or a `Journal`, as given to `create`.
            extensions: Classes of radii and methods from elsewhere that the record names; those of installed packages are
                found by their entry points.

        Returns:
            The open campaign.

        Raises:
            InvalidInput: There is no campaign at the place.
            StorageFailure: The record is damaged, or cannot be read.
        """
        journal = journal_at(place)
        with _closed_on_failure(journal):
            return cls(journal, extensions)

    def fresh_learner(self) -> Learner:
        """Return a learner of this problem and method without any data, to compute the record anew.

        Returns:
            A learner at round 1.
        """
        return self._record.fresh_learner()

    def close(self) -> None:
        """Close the journal; everything acknowledged is kept."""
        self.journal.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Campaign {self.name} at {self.journal.place}"

    @property
    def method(self) -> Method:
        """The method, with the rewards declared so far, as of the events read."""
        return self._record.replay.method

    @property
    def record(self) -> Record:
        """The journal with the state that its events lead to: for functions that extend a campaign, as `carry_over` does."""
        return self._record

    @property
    def by(self) -> str:
        """The name of the caller, which every event of this object carries."""
        return self._record.by

    def acting_as(self, principal: str) -> AbstractContextManager[None]:
        """Record calls within the context under the name `principal`, as a service does for its clients.

        Args:
            principal: The name that events of these calls carry.

        Returns:
            A context manager.

        Raises:
            InvalidInput: The record is signed, and this process has no key of that name.
        """
        return self._record.acting_as(checked_name("principal", principal))

    @property
    def format(self) -> int:
        """The version of the record's format."""
        return self._record.format

    # Asking

    def ask(self, *, worker: str) -> Deployment:
        """Return the deployment that `worker` runs next, recorded before it is returned.

        Args:
            worker: The name of the machine that asks; the same name is given its open deployment again.

        Returns:
            A deployment with its policy, the id to tell it by, and its certificate.

        Raises:
            Stopped: As `ask_batch`.
            Halted: As `ask_batch`.
        """
        return self.ask_batch(1, worker=worker)[0]

    def ask_batch(self, n: int, *, worker: str) -> list[Deployment]:
        """Return `n` deployments for `worker` to run, recorded before they are returned.

        Until they are told or abandoned, the same worker is given the same ones again, also after a crash and from another
        process; unless the data have refuted an assumption since. Then what rests on it is withdrawn, for good, and the
        baseline alone is handed out instead: `withdrawn` of every deployment says which must not be run any more.

        Args:
            n: How many; at least 1.
            worker: The name of the machine that asks.

        Returns:
            As many as were asked for; fewer where the model is accurate enough and the worker still holds some.

        Raises:
            Stopped: The model is accurate enough and the worker holds nothing.
            Halted: The data refute the margin of the baseline itself: all that the worker holds is withdrawn, and the
                machine should be stopped.
        """
        return hand_out(self._record, checked_name("worker", worker), n)

    # Telling

    def tell(
        self,
        id: str,
        trajectory: Trajectory | tuple[ArrayLike, ArrayLike] | dict[str, Any],
        *,
        partial: bool = False,
        left_model: bool = False,
        worker: str | None = None,
        force: str | None = None,
    ) -> Receipt:
        """Record what happened in a deployment; durable when it returns, and exactly once.

        The same episode told again changes nothing. An episode whose deployment was abandoned or withdrawn is still counted.

        Args:
            id: Of the deployment.
            trajectory: A `Trajectory`, a pair (states [n + 1], actions [n]) in the model's numbers, or an object {"states":
                [...], "actions": [...]} from another language, with "left_model": true if the system left the model.
            partial: Whether the episode may have been cut short; give all transitions that were seen.
            left_model: Whether the system went where the model has no state. Give (states [n], actions [n]) then; the last
                action led there, and both are empty if the episode began there. It refutes the model for good: nothing is
                certified any more. An episode that begins where the model's never do is treated alike.
            worker: Whose episode it is. It must be the worker that holds the deployment.
            force: Why another worker tells it; recorded.

        Returns:
            What was recorded.

        Raises:
            Conflict: Another episode was told for this deployment, or another worker holds it.
            InvalidInput: No deployment has this id, or the episode is not one of this system and policy.
        """
        check_told(trajectory)
        seen = seen_from(self.problem.simulator, trajectory, "the episode", partial=partial, left_model=left_model)
        content, record = seen.to_json(), self._record
        with record.writing() as transaction:
            known = _recorded_of(record, transaction, id)
            forced = _forced_by(record.by, known[kinds.ASK], worker, force)
            if kinds.TELL in known:
                if known[kinds.TELL].body != to_text(content):
                    raise Conflict(
                        f"deployment {id} was told already, with another episode, at {known[kinds.TELL].at}; it stays. "
                        "Was the id mixed up? Every episode is told with the id it was asked with"
                    )
                return Receipt(known[kinds.TELL].sequence, False, seen.transitions)
            body = AskBody.read(known[kinds.ASK])
            check_actions(record.policy(transaction, body.policies[body.drawn]), seen.path, f"deployment {id}")
            added = transaction.append([*forced, Draft(kinds.TELL, content, known[kinds.ASK].deployment, record.by)])
        record.take(added)
        return Receipt(added[-1].sequence, True, seen.transitions)

    def abandon(self, id: str, reason: str, *, worker: str | None = None, force: str | None = None) -> Receipt:
        """Give up on a deployment, so that its worker gets another one. An episode told later is still counted.

        The guarantee assumes that the reason had nothing to do with what happened in the episode.

        Args:
            id: Of the deployment.
            reason: Recorded, and listed with the assumptions.
            worker: As for `tell`.
            force: As for `tell`.

        Returns:
            What was recorded.

        Raises:
            Conflict: An episode was told for it, or another worker holds it.
            InvalidInput: No deployment has this id.
        """
        given_up, record = {"reason": checked_text("reason", reason, 10_000)}, self._record
        with record.writing() as transaction:
            known = _recorded_of(record, transaction, id)
            forced = _forced_by(record.by, known[kinds.ASK], worker, force)
            if kinds.TELL in known:
                raise Conflict(f"deployment {id} was told at {known[kinds.TELL].at}; what was told stays")
            for kind in (kinds.ABANDON, kinds.WITHDRAW):
                if kind in known:
                    return Receipt(known[kind].sequence, False, 0)
            *_, event = transaction.append([*forced, Draft(kinds.ABANDON, given_up, known[kinds.ASK].deployment, record.by)])
        return Receipt(event.sequence, True, 0)

    def abandon_all(self, worker: str, reason: str) -> list[str]:
        """Give up on all deployments of a worker in one transaction, for a machine that is gone.

        The guarantee assumes that the reason had nothing to do with what happened in the episodes.

        Args:
            worker: Its name.
            reason: Recorded, and listed with the assumptions.

        Returns:
            The ids of the deployments given up.
        """
        worker, given_up = checked_text("worker", worker, 200), {"reason": checked_text("reason", reason, 10_000)}
        with self._record.writing() as transaction:
            held = self._record.replay.held_by(worker)
            transaction.append([Draft(kinds.ABANDON, given_up, one.number, self.by) for one in held])
        return [id_of(self.name, one.event) for one in held]

    def branch(self, reason: str) -> Receipt:
        """Record that the campaign continues from a restored copy, without the events after it.

        The guarantee assumes that the restore had nothing to do with what happened in the lost episodes.

        Args:
            reason: Recorded, and listed with the assumptions.

        Returns:
            What was recorded.
        """
        body = {"reason": checked_text("reason", reason, 10_000)}
        with self._record.writing() as transaction:
            (event,) = transaction.append([Draft(kinds.BRANCH, body, worker=self.by)])
        return Receipt(event.sequence, True, 0)

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

        The log is counted as a whole, after the deployments that are out now. The guarantee assumes that it is complete: no
        episode was left out because of what happened in it. It assumes also that logs come in the order in which they were
        collected; `import_logs` takes several in one step, whatever their order.

        Args:
            source: Names the log. The same log imported again changes nothing.
            policy: The Markov policy that acted.
            episodes: Trajectories, or objects {"states": ..., "actions": ...}, which may say "left_model": true (see `tell`)
                and have an "id", any text that names the episode in every log.
            partial: Whether episodes may have been cut short.
            overlap: What to do with episodes that the record has already, by their id or by their content. "refuse"; "skip"
                leaves them out, since they are the same; "count" counts them, since they are others that look alike. The
                last two are recorded as assumptions. "count" also admits episodes that look like ones that the simulator
                was estimated from.

        Returns:
            What was recorded.

        Raises:
            Conflict: Another log has this name, or the record or the simulator has episodes of it.
            InvalidInput: An episode is not of this system, or not of its policy.
        """
        return self.import_logs(source, [(policy, episodes)], partial=partial, overlap=overlap)

    def import_logs(
        self,
        source: str,
        logs: Iterable[tuple[MarkovPolicy, Iterable[Trajectory | Any]]],
        *,
        partial: bool = False,
        overlap: Overlap | str = Overlap.REFUSE,
    ) -> Receipt:
        """Add the logs of several policies in one step, all or none; see `import_log`.

        Nothing is concluded before all of them are counted. So it does not matter in which order they were collected, nor
        whether a policy was chosen by what the logs of others showed.

        Args:
            source: names all of them together.
            logs: (policy, episodes) pairs.
            partial: whether episodes may have been cut short.
            overlap: as in `import_log`; logs of one call are compared with each other, too.

        Returns:
            What was recorded.

        Raises:
            Conflict: as in `import_log`.
            InvalidInput: an episode is not of this system, or not of its policy.
        """
        given = [(policy, episodes, overlap) for policy, episodes in pairs_of(logs)]
        return import_logs(self._record, checked_name("source", source), given, partial=partial)

    # Looking

    def status(self, *, forecast: bool = True) -> CampaignStatus:
        """Return where the campaign stands.

        Args:
            forecast: Whether to rehearse the rest of the campaign on the learnt model, which takes a moment.

        Returns:
            Counts, standing, doubts, open deployments and, if asked for, the forecast.
        """
        replay = self._record.catch_up()
        return status_of(self.name, replay, rehearsed(replay.learner) if forecast else None)

    def forecast(self) -> Forecast:
        """Forecast rounds and samples until the stop, by a rehearsal on the learnt model.

        Returns:
            An estimate on which nothing rests.
        """
        return rehearsed(self._record.catch_up().learner)

    def assurance(self) -> Certificate:
        """Return the baseline's certificate, whose assumptions and doubts all present deployments share.

        Returns:
            The certificate.
        """
        replay = self._record.catch_up()
        learner = replay.learner
        return replay.in_the_field(learner.certify(learner.evidence.trusted))

    def plan(self, reward: ArrayLike) -> Plan:
        """Plan for a reward: a certified feasible policy with bounds on its value (see `Learner.plan`).

        Args:
            reward: [S, A] or [H, S, A] in [0, 1].

        Returns:
            The plan, with its certificate.

        Raises:
            InvalidInput: The reward has another shape, or values outside [0, 1].
        """
        replay = self._record.catch_up()
        plan = replay.learner.plan(reward)
        return replace(plan, certificate=replay.in_the_field(plan.certificate))

    def floors(self) -> dict[str, float]:
        """Return certified bounds for the method's candidate alone (see `Learner.floors`); only a trial has them.

        Returns:
            Bounds by the names of constraints and rewards; empty for other methods.
        """
        return self._record.catch_up().learner.floors()

    def mismatch_map(self) -> MismatchMap:
        """Return each row's distance to the simulator, with its interval and verdict.

        Returns:
            The mismatch map.
        """
        return map_mismatch(self._record.catch_up().learner.evidence)

    def proposal(self) -> Proposal:
        """Return what the next deployment would be made from; nothing is recorded.

        Returns:
            The mixture, its parts and its certificate.
        """
        replay = self._record.catch_up()
        proposal = replay.learner.propose()
        if proposal.certificate is None:
            return proposal
        return replace(proposal, certificate=replay.in_the_field(proposal.certificate))

    def verify(self, *, head: str | None = None, progress: Callable[[int, int], None] | None = None) -> Ledger:
        """Recompute every deployment's certificate from the events alone.

        Args:
            head: A digest noted earlier, from `status`. The record must still contain it, or events have been cut off.
            progress: Called with (events checked, events in all).

        Returns:
            The ledger: `holds`, and every problem that was found.
        """
        return verify_record(self._record, head, progress)

    def events(self) -> Sequence[Event]:
        """Return the whole record.

        Returns:
            All events, oldest first.
        """
        with self.journal.reading() as transaction:
            return list(transaction.events())

    def stored_policies(self) -> dict[str, MarkovPolicy]:
        """Return all policies that the record names.

        Returns:
            Policies by their digests.
        """
        with self.journal.reading() as transaction:
            return {digest: policy_from_bytes(content) for digest, content in transaction.policies()}

    # Directing: what an operator changes on the way

    def declare(self, rewards: Mapping[str, ArrayLike] | None = None, *, drop: Iterable[str] = ()) -> Receipt:
        """Add rewards to those that the campaign explores for, or drop some; only with `methods.ForRewards`.

        All changes are recorded, or none. Evidence and open deployments stay: certificates do not depend on rewards. From
        the event on, proposals and the stop are those of the declared rewards, also in other processes and in `verify`.
        After a stop the campaign goes on if a reward is not accurate yet.

        Args:
            rewards: [S, A] or [H, S, A] in [0, 1], by name.
            drop: Names of rewards to drop.

        Returns:
            What was recorded.

        Raises:
            InvalidInput: The method has no declared rewards, a name is unknown, or a reward is not one of this system.
        """
        with self._record.writing() as transaction:
            learner = self._record.replay.learner
            method = redeclared(learner.method, rewards, drop)
            method.check(learner.problem)
            (event,) = transaction.append([Draft(kinds.DECLARE, {"method": named_to_json(method)}, worker=self.by)])
        return Receipt(event.sequence, True, 0)


@contextmanager
def _closed_on_failure(journal: Journal) -> Iterator[None]:
    try:
        yield
    except Safe2RealError:
        journal.close()
        raise


def _recorded_of(record: Record, transaction: Transaction, id: Any) -> dict[str, Event]:
    """Return the recorded events of a deployment by kind; refuse an id that this record did not hand out.

    The database finds these events through an index, which can be damaged without a sign, and an episode would be taken
    twice. So its answer has to agree with the replay, which has read every event.
    """
    number, tag = read_id(record.name, id)
    known, replay = transaction.events_of(number), record.replay
    if (kinds.ASK in known, kinds.TELL in known) != (number <= replay.deployments, replay.was_told(number)):
        raise StorageFailure(
            f"the index of the record does not agree with its events about deployment {number}: the database is damaged, "
            "and nothing was recorded. Run verify; then restore a copy, or `safe2real campaign export` and `load`"
        )
    if kinds.ASK not in known:
        raise InvalidInput(
            f"deployment {id} was never handed out; ask first, and tell with the id of the answer. If it was handed out "
            "before this record was restored from a copy, it belongs to a branch that is lost; import can keep its episode"
        )
    if not known[kinds.ASK].digest.startswith(tag):
        raise InvalidInput(
            f"deployment {id} belongs to a branch of the record that was lost by a restore; this record has handed out "
            f"another deployment {number} since. Its episode cannot be told; it can be kept with import, by its policy"
        )
    return known


def _forced_by(by: str, asked: Event, worker: str | None, force: str | None) -> list[Draft]:
    """Return the event that says why another than the holder acts on a deployment; none where the holder does."""
    worker = None if worker is None else checked_text("worker", worker, 200)
    if force is not None:
        reason = checked_text("force", force, 10_000)
        return [Draft(kinds.FORCE, {"deployment": asked.deployment, "holder": asked.worker, "reason": reason}, worker=by)]
    if worker is not None and worker != asked.worker:
        raise Conflict(
            f"deployment {asked.deployment} is held by {asked.worker!r}, not by {worker!r}; was the id mixed up? To act for "
            "the other one, say why with force, which is recorded"
        )
    return []
