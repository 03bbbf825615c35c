"""A campaign that a service keeps, with the interface of `Campaign`: a worker's code is the same for both."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from safe2real.client.transport import Address, Refusal, Transport
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
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import array_to_json, check_keys, policy_from_bytes, policy_to_json, to_text
from safe2real.model.trajectory import Trajectory
from safe2real.problem.problem import Problem

_SPOOL = 8 << 20  # bytes of a log that stay in memory
_LONG = 600.0  # seconds for what may take long: imports, plans, maps, forecasts, whole records
_FIRST_LOOK, _LAST_LOOK = 0.05, 1.0  # seconds between two looks at a check
# All of `Campaign` that a remote one does not have, and why; a test compares the two.
LEFT_OUT = MappingProxyType(
    {
        "journal": "the record stays with the service; `events`, `stored_policies` and `verify` read it",
        "record": "the same: what was read of it stays with the service",
        "acting_as": "a token acts for the one whose name it has; a worker's tells are for itself",
        "extensions": "classes from elsewhere are found by the service's own process, by their entry points",
        "import_logs": "a request holds one log; `carry_over` and `import_logs` run beside the record",
        "solution": "of a plan: the planner's tables stay with the service, as do its `origin` and `model`",
    }
)


class RemoteCampaign:
    """Ask and tell over HTTP. One object for each thread.

    A request whose answer was lost is sent again for `patience` seconds: asks, tells, abandonments and imports are never
    recorded twice. What is not safe to repeat (`declare`, trials, `branch`, `create`) is repeated only where the service
    says that nothing was done.

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
        """Begin a campaign on the service, under the name at the end of `url`; see `Campaign.create`."""
        made = cls(url, token, **how)
        flags = {"trust_margin": trust_margin, "withdraw_overdue": withdraw_overdue, "exist_ok": exist_ok}
        stated = document_of(problem, SimToReal() if method is None else method)
        body = {"name": made._transport.address.name, "problem": stated, "lease": lease, **flags}
        made._transport.send("POST", "/campaigns", body, again=exist_ok)
        return made

    @classmethod
    def open(cls, url: str, token: str | None = None, **how: Any) -> RemoteCampaign:
        """Come back to a campaign: the same as `RemoteCampaign(url, token)`."""
        return cls(url, token, **how)

    @property
    def by(self) -> str:
        """Whose token this is: named in everything that is recorded through it."""
        return str(self._transport.send("GET", "/whoami")["name"])

    def close(self) -> None:
        """Let go of the connection."""
        self._transport.close()

    def __enter__(self) -> RemoteCampaign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteCampaign at {self._transport.address}"

    # Asking and telling

    def ask(self, *, worker: str | None = None) -> Deployment:
        """What to run next; a worker's token asks for itself, so that `worker` may be left out."""
        return self.ask_batch(1, worker=worker)[0]

    def ask_batch(self, n: int, *, worker: str | None = None) -> list[Deployment]:
        """`n` deployments to run; see `Campaign.ask_batch`."""
        body = {"n": n, "mixture": True, "packed": True, **_given(worker=worker)}
        answer = self._transport.campaign("POST", "/ask", body)
        return [decode.deployment_from(one, answer["withdrawn"]) for one in answer["deployments"]]

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
        """Record what happened in a deployment, (states, actions) or a `Trajectory`; see `Campaign.tell`."""
        check_told(trajectory)
        return self.tell_json(id, _episode(trajectory), partial=partial, left_model=left_model, worker=worker, force=force)

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
        """`tell` for an object {"states": [...], "actions": [...]}, with "left_model": true if so."""
        if not isinstance(episode, Mapping):
            raise InvalidInput(f"the episode is a {type(episode).__name__}; give an object with states and actions")
        # What an episode is must not become what is done with it.
        check_keys(episode, "the episode", required=("states", "actions"), optional=("left_model",))
        said = {"left_model": True} if left_model else {}
        body = {**episode, **said, "partial": partial, **_given(worker=worker, force=force)}
        return decode.receipt_from(self._transport.campaign("POST", f"/deployments/{_segment(id)}/tell", body))

    def abandon(self, id: str, reason: str, *, worker: str | None = None, force: str | None = None) -> Receipt:
        """Give up on a deployment; see `Campaign.abandon`."""
        body = {"reason": reason, **_given(worker=worker, force=force)}
        return decode.receipt_from(self._transport.campaign("POST", f"/deployments/{_segment(id)}/abandon", body))

    def abandon_all(self, worker: str, reason: str) -> list[str]:
        """Give up on everything that `worker` holds; returns the ids."""
        return list(self._transport.campaign("POST", "/abandon", {"worker": worker, "reason": reason})["ids"])

    def branch(self, reason: str) -> Receipt:
        """Say that the record was restored from a copy and goes on from here; see `Campaign.branch`."""
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
        """Add episodes that were collected earlier, all or none; see `Campaign.import_log`."""
        head = {"source": source, "policy": policy_to_json(policy), "partial": partial, "overlap": str(overlap)}
        with tempfile.SpooledTemporaryFile(_SPOOL) as spool:
            with gzip.GzipFile(fileobj=spool, mode="wb", compresslevel=3) as packed:
                for document in (head, *(_episode(one) for one in episodes)):
                    packed.write(to_text(document).encode() + b"\n")
            log: IO[bytes] = spool
            return decode.receipt_from(self._transport.campaign("POST", "/import", log=log, timeout=_LONG))

    # Directing

    def declare(self, rewards: Mapping[str, ArrayLike] | None = None, *, drop: Iterable[str] = ()) -> Receipt:
        """Add rewards to those that are explored for, or drop some; see `Campaign.declare`."""
        arrays = None if rewards is None else {name: _array(values) for name, values in rewards.items()}
        body = {"rewards": arrays, "drop": list(drop)}
        return decode.receipt_from(self._transport.campaign("POST", "/declare", body, again=False))

    # Reading: nothing below changes the campaign

    @property
    def problem(self) -> Problem:
        """What the campaign is about; read once."""
        if self._problem is None:
            self._problem = self._stated()[0]
        return self._problem

    @property
    def method(self) -> Method:
        """What decides now: the method it began with, with the rewards declared since."""
        return self._stated()[1]

    def _stated(self) -> tuple[Problem, Method]:
        return problem_and_method(to_text(self._transport.campaign("GET", "/problem", timeout=_LONG)))

    @property
    def name(self) -> str:
        """The campaign's own name, which ids begin with; not the one in the address."""
        return str(self._status(False)["campaign"])

    @property
    def format(self) -> int:
        """Of the record."""
        return int(self._status(False)["format"])

    def status(self, *, forecast: bool = True) -> CampaignStatus:
        """Where the campaign stands; `forecast` rehearses the rest of it."""
        return decode.status_from(self._status(forecast))

    def forecast(self) -> Forecast:
        """Rounds and samples until the stop, by a rehearsal on the learnt model."""
        return decode.forecast_from(self._status(True)["forecast"])

    def assurance(self) -> Certificate:
        """What everything that is handed out now is worth, with all it rests on."""
        return decode.certificate_from(self._status(False)["assurance"])

    def _status(self, forecast: bool) -> Any:
        query = {"forecast": "true" if forecast else "false"}
        return self._transport.campaign("GET", "/status", query=query, timeout=_LONG)

    def plan(self, reward: ArrayLike) -> Plan:
        """A policy for any reward in [0, 1]; see `Campaign.plan`."""
        return decode.plan_from(self._transport.campaign("POST", "/plan", {"reward": _array(reward)}, timeout=_LONG))

    def floors(self) -> dict[str, float]:
        """What is certain of the method's candidate alone, by name; a trial has such floors."""
        return dict(self._transport.campaign("GET", "/floors", timeout=_LONG)["floors"])

    def proposal(self) -> Proposal:
        """What the next deployment would be made from; nothing is recorded."""
        return decode.proposal_from(self._transport.campaign("GET", "/proposal", timeout=_LONG))

    def mismatch_map(self) -> MismatchMap:
        """For every row how far it is from the simulator, and what is known about it."""
        return decode.map_from(self._transport.campaign("GET", "/map", query={"form": "arrays"}, timeout=_LONG))

    def verify(self, *, head: str | None = None, progress: Callable[[int, int], None] | None = None) -> Ledger:
        """Have every certificate computed again from the record, by the service; see `Campaign.verify`."""
        job, wait = self._transport.campaign("POST", "/verify", {"head": head}), _FIRST_LOOK
        while job["state"] == "running":
            time.sleep(wait)
            wait = min(2.0 * wait, _LAST_LOOK)
            try:
                job = self._transport.campaign("GET", f"/verify/{job['job']}")
            except Refusal as error:
                if error.refused != "not-found":
                    raise
                job = self._transport.campaign("POST", "/verify", {"head": head})  # the service was started anew
            if progress is not None and job["total"]:
                progress(job["done"], job["total"])
        if job["ledger"] is None:
            raise StorageFailure(str(job["problem"]))
        return decode.ledger_from(job["ledger"])

    def events(self) -> Sequence[Event]:
        """The whole record, oldest first."""
        names = [field.name for field in fields(Event)]
        return [Event(**{name: one[name] for name in names}) for one in self._exported()["events"]]

    def stored_policies(self) -> dict[str, MarkovPolicy]:
        """Every policy that the record names, by digest."""
        return {digest: policy_from_bytes(text.encode()) for digest, text in self._exported()["policies"].items()}

    def fresh_learner(self) -> Learner:
        """A learner of this problem and method that has counted nothing: to compute the record anew, here."""
        problem, method = problem_and_method(to_text(self._exported()["specification"]))
        return Learner(problem, method, warm_start=False, trust_margin=True)  # `create` asked

    def _exported(self) -> Any:
        return self._transport.campaign("GET", "/export", query={"format": "json"}, timeout=_LONG)


def _given(**named: Any) -> dict[str, Any]:
    return {key: value for key, value in named.items() if value is not None}


def _segment(id: Any) -> str:
    """An id as a segment of an address; other texts are refused, so that they reach no other address."""
    if not isinstance(id, str) or not id or not id.replace("-", "").isalnum() or not id.isascii():
        raise InvalidInput(f"the deployment's id is {str(id)[:60]!r}; give the id of the answer to ask")
    return id


def _episode(episode: Any) -> Any:
    """An episode as an object; the service refuses what is no episode."""
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
