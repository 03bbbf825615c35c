"""A campaign that a service keeps, with the interface of `Campaign`: a worker's code is the same for both."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Deployment, Receipt
from safe2real.campaign.events import Event
from safe2real.campaign.status import CampaignStatus
from safe2real.campaign.verify import Ledger
from safe2real.client import decode
from safe2real.client.transport import Address, Transport
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.evidence.mismatch_map import MismatchMap
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.episode_log import check_told, is_pair
from safe2real.exploration.forecast import Forecast
from safe2real.exploration.learner import Learner
from safe2real.exploration.plan import Plan
from safe2real.exploration.proposal import Proposal
from safe2real.methods.base import Method
from safe2real.methods.document import document_of, problem_and_method
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.environment_seeds import refuse_repeated
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import array_to_json, policy_from_bytes, policy_to_json, to_text
from safe2real.model.trajectory import Trajectory
from safe2real.problem.problem import Problem

_SPOOL = 8 << 20  # bytes of a log that stay in memory
_LONG = 600.0  # seconds for long requests: imports, plans, maps, forecasts, whole records
_FIRST_LOOK, _LAST_LOOK = 0.05, 1.0  # seconds between two polls of a verification
# All of `Campaign` that a remote one does not have, and why; a test compares the two.
LEFT_OUT = MappingProxyType(
    {
        "journal": "the record stays with the service; `events`, `stored_policies` and `verify` read it",
        "record": "the same: the replayed state stays with the service",
        "acting_as": "a token acts for the one whose name it has; a worker's tells are for itself",
        "extensions": "classes from elsewhere are found by the service's own process, by their entry points",
        "import_logs": "a request holds one log; `carry_over` and `import_logs` run beside the record",
        "solution": "of a plan: the planner's tables stay with the service, as do its `origin` and `model`",
    }
)


class RemoteCampaign:
    """A campaign on a service, over HTTP. Use one object for each thread.

    A request whose answer was lost is retried for `patience` seconds: asks, tells, abandonments and imports are never
    recorded twice. Requests that are not safe to repeat (`declare`, trials, `branch`, `create`) are retried only if the
    service says that nothing was done.

    Args:
        url: https://host:port/campaigns/NAME, the address of the campaign's page.
        token: of `safe2real serve token add`; the environment's SAFE2REAL_TOKEN where it is left out.
        timeout: seconds until an answer begins.
        patience: seconds for which a call is tried again.
        plain_http: whether a token may travel over http to another machine.

    Example:
        >>> with RemoteCampaign("https://fleet.example/campaigns/arm") as campaign:
        ...     deployment = campaign.ask()
        ...     campaign.tell(deployment.id, run(deployment.policy))
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 120.0,
        plain_http: bool = False,
    ) -> None:
        address = Address.of(url, plain_http=plain_http)
        self._transport = Transport(address, token, timeout=timeout, patience=patience)
        self._problem: Problem | None = None  # read once, when it is first asked for

    @classmethod
    def create(
        cls,
        url: str,
        problem: Problem,
        token: str | None = None,
        *,
        method: Method | None = None,
        trust_margin: bool = False,
        lease: float | None = None,
        withdraw_overdue: bool = False,
        exist_ok: bool = False,
        **how: Any,
    ) -> RemoteCampaign:
        """Create a campaign on the service, under the name at the end of `url`; see `Campaign.create`.

        Args:
            url: https://host:port/campaigns/NAME; NAME is the new campaign's.
            problem: simulator, baseline, settings and assumptions.
            token: of an operator, as for `RemoteCampaign`.
            method: chooses the deployments; `methods.SimToReal()` by default.
            trust_margin: accept a baseline whose stated margin the simulator does not show.
            lease: seconds after which a deployment is overdue; None for no limit.
            withdraw_overdue: let the next `ask` withdraw overdue deployments.
            exist_ok: open an existing campaign, if problem, method and lease are the same.
            how: `timeout`, `patience` and `plain_http` of `RemoteCampaign`.

        Returns:
            The campaign.

        Raises:
            Conflict: the campaign exists; with `exist_ok`, with another problem, method or lease.
            InvalidInput: the problem contradicts itself, or the service refuses the token.
            StorageFailure: the service does not answer.
        """
        made = cls(url, token, **how)
        flags = {"trust_margin": trust_margin, "withdraw_overdue": withdraw_overdue, "exist_ok": exist_ok}
        stated = document_of(problem, SimToReal() if method is None else method)
        body = {"name": made._transport.address.name, "problem": stated, "lease": lease, **flags}
        made._transport.send("POST", "/campaigns", body, again=exist_ok)
        return made

    @classmethod
    def open(cls, url: str, token: str | None = None, **how: Any) -> RemoteCampaign:
        """Open an existing campaign: the same as `RemoteCampaign(url, token)`.

        Args:
            url: https://host:port/campaigns/NAME.
            token: as for `RemoteCampaign`.
            how: `timeout`, `patience` and `plain_http` of `RemoteCampaign`.

        Returns:
            The campaign; the service is asked at the first call.

        Raises:
            InvalidInput: `url` is not the address of a campaign, or the token has characters that no token has.
        """
        return cls(url, token, **how)

    @property
    def by(self) -> str:
        """Name of the token's owner, recorded with every event."""
        return str(self._transport.send("GET", "/whoami")["name"])

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._transport.close()

    def __enter__(self) -> RemoteCampaign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteCampaign at {self._transport.address}"

    # Asking and telling

    def ask(self, *, worker: str | None = None) -> Deployment:
        """Return the next deployment to run, recorded before it is returned; see `ask_batch`.

        Args:
            worker: the machine that runs it; a worker's token implies its own name.

        Returns:
            A deployment.

        Raises:
            Stopped: the model is accurate enough and the worker holds nothing.
            Halted: the data refute the baseline's margin.
        """
        return self.ask_batch(1, worker=worker)[0]

    def ask_batch(self, n: int, *, worker: str | None = None) -> list[Deployment]:
        """Return `n` deployments to run, recorded before they are returned; see `Campaign.ask_batch`.

        Args:
            n: how many; a worker that already holds deployments receives these again first.
            worker: the machine that runs them; a worker's token implies its own name.

        Returns:
            At most `n` deployments.

        Raises:
            Stopped: the model is accurate enough and the worker holds nothing.
            Halted: the data refute the baseline's margin.
        """
        body = {"n": n, "mixture": True, "packed": True, **_given(worker=worker)}
        answer = self._transport.campaign("POST", "/ask", body)
        return [decode.deployment_from(one, answer["withdrawn"]) for one in answer["deployments"]]

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
        """Record the episode of a deployment, durably and exactly once; see `Campaign.tell`.

        Args:
            id: of the deployment.
            trajectory: (states [n + 1], actions [n]), a `Trajectory`, or an object with lists of both; with `left_model` as
                many actions as states.
            partial: whether the episode was cut short.
            left_model: whether the last action led to a state that the model does not have.
            worker: the machine that ran it; a worker's token implies its own name.
            force: why another worker than the holder reports it; recorded.

        Returns:
            The event's number, whether the episode is new, and its transitions.

        Raises:
            Conflict: another episode was told for this deployment, or another worker holds it.
            InvalidInput: the episode is not one of this system and policy.
        """
        check_told(trajectory)  # so that no key of the episode becomes another key of the request
        said = {"left_model": True} if left_model else {}
        body = {**_episode(trajectory), **said, "partial": partial, **_given(worker=worker, force=force)}
        return decode.receipt_from(self._transport.campaign("POST", f"/deployments/{_segment(id)}/tell", body))

    def abandon(self, id: str, reason: str, *, worker: str | None = None, force: str | None = None) -> Receipt:
        """Abandon a deployment, so that its worker no longer holds it; see `Campaign.abandon`.

        Args:
            id: of the deployment.
            reason: must not depend on the episode's content; recorded.
            worker: the machine that holds it; a worker's token implies its own name.
            force: why another worker than the holder abandons it; recorded.

        Returns:
            The event's number, and whether it is new.

        Raises:
            Conflict: the deployment was told, or another worker holds it.
        """
        body = {"reason": reason, **_given(worker=worker, force=force)}
        return decode.receipt_from(self._transport.campaign("POST", f"/deployments/{_segment(id)}/abandon", body))

    def abandon_all(self, worker: str, reason: str) -> list[str]:
        """Abandon every deployment that `worker` holds.

        Args:
            worker: the machine, for example one that is out of service.
            reason: must not depend on the episodes' content; recorded.

        Returns:
            The ids of the abandoned deployments.
        """
        return list(self._transport.campaign("POST", "/abandon", {"worker": worker, "reason": reason})["ids"])

    def branch(self, reason: str) -> Receipt:
        """Record that the journal was restored from a copy and continues from here; see `Campaign.branch`.

        Args:
            reason: must not depend on the lost episodes; recorded.

        Returns:
            The event's number.
        """
        return decode.receipt_from(self._transport.campaign("POST", "/branch", {"reason": reason}, again=False))

    def import_log(
        self,
        source: str,
        policy: MarkovPolicy,
        episodes: Iterable[Trajectory | Any],
        *,
        partial: bool = False,
        overlap: str = "refuse",
    ) -> Receipt:
        """Add episodes that a known policy collected earlier, all or none; see `Campaign.import_log`.

        Args:
            source: the log's name, unique in the campaign.
            policy: Markov policy of the episodes.
            episodes: trajectories, (states, actions) pairs or objects {"states": [...], "actions": [...]}.
            partial: whether episodes may have been cut short.
            overlap: treatment of episodes that the record has already: "refuse", "skip" or "count".

        Returns:
            The event's number, whether the log is new, its transitions, and the episodes that were skipped.

        Raises:
            Conflict: another log has this name, or episodes are recorded already or have one environment seed.
            InvalidInput: an episode is not one of this system and policy.
        """
        head = {"source": source, "policy": policy_to_json(policy), "partial": partial, "overlap": str(overlap)}
        with tempfile.SpooledTemporaryFile(_SPOOL) as spool:
            with gzip.GzipFile(fileobj=spool, mode="wb", compresslevel=3) as packed:
                packed.write(to_text(head).encode() + b"\n")
                for episode in _of_different_seeds(episodes):
                    packed.write(to_text(_episode(episode)).encode() + b"\n")
            log: IO[bytes] = spool
            return decode.receipt_from(self._transport.campaign("POST", "/import", log=log, timeout=_LONG))

    # Directing

    def declare(self, rewards: Mapping[str, ArrayLike] | None = None, *, drop: Iterable[str] = ()) -> Receipt:
        """Add declared rewards, or drop some; only with `methods.ForRewards`. See `Campaign.declare`.

        Args:
            rewards: arrays [S, A] or [H, S, A] in [0, 1] by name.
            drop: names of declared rewards.

        Returns:
            The event's number.

        Raises:
            InvalidInput: the method has no declared rewards, or a reward is not one of this system.
        """
        arrays = None if rewards is None else {name: _array(values) for name, values in rewards.items()}
        body = {"rewards": arrays, "drop": list(drop)}
        return decode.receipt_from(self._transport.campaign("POST", "/declare", body, again=False))

    # Reading: nothing below changes the campaign

    @property
    def problem(self) -> Problem:
        """Simulator, baseline, settings and assumptions; read once."""
        if self._problem is None:
            self._problem = self._stated()[0]
        return self._problem

    @property
    def method(self) -> Method:
        """The present method, with the rewards declared so far."""
        return self._stated()[1]

    def _stated(self) -> tuple[Problem, Method]:
        return problem_and_method(to_text(self._transport.campaign("GET", "/problem", timeout=_LONG)))

    @property
    def name(self) -> str:
        """The campaign's own name, with which ids begin; not the one in the address."""
        return str(self._status(False)["campaign"])

    @property
    def format(self) -> int:
        """Format of the record."""
        return int(self._status(False)["format"])

    def status(self, *, forecast: bool = True) -> CampaignStatus:
        """Return a summary of the campaign: standing, counts, deployments that are out, uncertainty.

        Args:
            forecast: also forecast the samples to the stop, by a rehearsal on the learnt model.

        Returns:
            The status; its `forecast` is None without one.
        """
        return decode.status_from(self._status(forecast))

    def forecast(self) -> Forecast:
        """Forecast rounds and samples to the stop, by a rehearsal on the learnt model.

        Returns:
            An estimate, not a bound.
        """
        return decode.forecast_from(self._status(True)["forecast"])

    def assurance(self) -> Certificate:
        """Return the baseline's certificate on all counted data: the standing of every deployment.

        Returns:
            Lower bounds [K] on V_c, with assumptions and doubts.
        """
        return decode.certificate_from(self._status(False)["assurance"])

    def _status(self, forecast: bool) -> Any:
        query = {"forecast": "true" if forecast else "false"}
        return self._transport.campaign("GET", "/status", query=query, timeout=_LONG)

    def plan(self, reward: ArrayLike) -> Plan:
        """Return a certified policy for any reward, with a bound on its suboptimality; see `Campaign.plan`.

        Args:
            reward: [S, A] or [H, S, A] in [0, 1].

        Returns:
            The plan, without `solution`, `origin` and `model`, which stay with the service.

        Raises:
            InvalidInput: the reward is not of this system, or not in [0, 1].
        """
        return decode.plan_from(self._transport.campaign("POST", "/plan", {"reward": _array(reward)}, timeout=_LONG))

    def floors(self) -> dict[str, float]:
        """Return certified bounds for the method's candidate alone; only `methods.Trial` has them.

        Returns:
            By name a lower bound on an expected utility or reward, or an upper bound on an expected cost.
        """
        return dict(self._transport.campaign("GET", "/floors", timeout=_LONG)["floors"])

    def proposal(self) -> Proposal:
        """Return the proposal that the next deployment would be made from; nothing is recorded.

        Returns:
            The mixture with its certificate, or a stop or halt.
        """
        return decode.proposal_from(self._transport.campaign("GET", "/proposal", timeout=_LONG))

    def mismatch_map(self) -> MismatchMap:
        """Return, for every row, bounds on its distance from the simulator.

        Returns:
            Arrays [S, A], or [H, S, A] where dynamics change with the step.
        """
        return decode.map_from(self._transport.campaign("GET", "/map", timeout=_LONG))

    def verify(self, *, head: str | None = None, progress: Callable[[int, int], None] | None = None) -> Ledger:
        """Recompute every certificate from the record, on the service; see `Campaign.verify`.

        Args:
            head: digest noted earlier from `status`; the record must still contain its event.
            progress: called with (events checked, events in all).

        Returns:
            What was checked, and every discrepancy.

        Raises:
            StorageFailure: the service could not read the record.
        """
        job, wait = self._transport.campaign("POST", "/verify", {"head": head}), _FIRST_LOOK
        while job["state"] == "running":
            time.sleep(wait)
            wait = min(2.0 * wait, _LAST_LOOK)
            last = self._transport.campaign("GET", "/verify")
            if last["job"] != job["job"]:  # the service was started anew, or another check began since
                last = self._transport.campaign("POST", "/verify", {"head": head})
            job = last
            if progress is not None and job["total"]:
                progress(job["done"], job["total"])
        if job["ledger"] is None:
            raise StorageFailure(str(job["problem"]))
        return decode.ledger_from(job["ledger"])

    def events(self) -> Sequence[Event]:
        """Return all events of the record, oldest first.

        Returns:
            The events.
        """
        names = [field.name for field in fields(Event)]
        return [Event(**{name: one[name] for name in names}) for one in self._exported()["events"]]

    def stored_policies(self) -> dict[str, MarkovPolicy]:
        """Return every policy that the record names.

        Returns:
            Markov policies by digest.
        """
        return {digest: policy_from_bytes(text.encode()) for digest, text in self._exported()["policies"].items()}

    def fresh_learner(self) -> Learner:
        """Return a learner of this problem and method without data, to recompute the record locally.

        Returns:
            The learner.
        """
        problem, method = problem_and_method(to_text(self._exported()["specification"]))
        return Learner(problem, method, warm_start=False, trust_margin=True)  # `create` asked

    def _exported(self) -> Any:
        return self._transport.campaign("GET", "/export", query={"format": "json"}, timeout=_LONG)


def _given(**named: Any) -> dict[str, Any]:
    return {key: value for key, value in named.items() if value is not None}


def _segment(id: Any) -> str:
    """Return an id as a segment of an address; refuse other texts, which could reach another address."""
    if not isinstance(id, str) or not id or not id.replace("-", "").isalnum() or not id.isascii():
        raise InvalidInput(f"the deployment's id is {str(id)[:60]!r}; give the id of the answer to ask")
    return id


def _of_different_seeds(episodes: Iterable[Any]) -> Iterator[Any]:
    """Yield the episodes; refuse trajectories of one environment seed, which the service is not told."""
    seeds = set[int]()
    for episode in episodes:
        if isinstance(episode, Trajectory):
            seeds.update(refuse_repeated([episode.seed], seeds))
        yield episode


def _episode(episode: Any) -> Any:
    """Return an episode as an object; the service validates it."""
    if isinstance(episode, Trajectory):
        episode = (episode.states, episode.actions)
    if is_pair(episode):
        try:
            return {"states": np.asarray(episode[0]).tolist(), "actions": np.asarray(episode[1]).tolist()}
        except ValueError as error:  # lists of different lengths within one
            raise InvalidInput(
                f"states or actions are not one row of whole numbers ({error}); give one for each step"
            ) from error
    return episode


def _array(values: ArrayLike) -> Any:
    return array_to_json(np.asarray(values, dtype=np.float64))
