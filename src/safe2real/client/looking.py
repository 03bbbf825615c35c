"""What is read of a remote campaign: where it stands, its plans, its map, its record, and the check of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.campaign.events import Event
from safe2real.campaign.status import CampaignStatus
from safe2real.campaign.verify import Ledger
from safe2real.client import decode as reading
from safe2real.client.transport import Refusal, Transport
from safe2real.errors import StorageFailure
from safe2real.evidence.mismatch_map import MismatchMap
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.forecast import Forecast
from safe2real.exploration.learner import Learner
from safe2real.exploration.plan import Plan
from safe2real.exploration.proposal import Proposal
from safe2real.methods.base import Method
from safe2real.methods.named import problem_and_method
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import array_to_json, policy_from_bytes, to_text
from safe2real.problem.problem import Problem

LONG = 600.0  # seconds for what may take long: imports, plans, maps, forecasts, whole records
_FIRST_LOOK, _LAST_LOOK = 0.05, 1.0  # seconds between two looks at a check


class Looking:
    """Nothing here records anything. None of it is for a worker's token."""

    _transport: Transport
    _problem: Problem | None = None

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
        return problem_and_method(to_text(self._transport.campaign("GET", "/problem", timeout=LONG)))

    @property
    def name(self) -> str:
        """The campaign's own name, which ids begin with; not the one in the address."""
        return str(self._status(False)["campaign"])

    @property
    def format(self) -> int:
        """Of the record; see `migrate`."""
        return int(self._status(False)["format"])

    def status(self, *, forecast: bool = True) -> CampaignStatus:
        """Where the campaign stands; `forecast` rehearses the rest of it."""
        return reading.status_from(self._status(forecast))

    def forecast(self) -> Forecast:
        """Rounds and samples until the stop, by a rehearsal on the learnt model."""
        return reading.forecast_from(self._status(True)["forecast"])

    def assurance(self) -> Certificate:
        """What everything that is handed out now is worth, with all it rests on."""
        return reading.certificate_from(self._status(False)["assurance"])

    def _status(self, forecast: bool) -> Any:
        query = {"forecast": "true" if forecast else "false"}
        return self._transport.campaign("GET", "/status", query=query, timeout=LONG)

    def plan(self, reward: ArrayLike) -> Plan:
        """A policy for any reward in [0, 1]; see `Campaign.plan`."""
        body = {"reward": array_to_json(np.asarray(reward, dtype=np.float64))}
        return reading.plan_from(self._transport.campaign("POST", "/plan", body, timeout=LONG))

    def floors(self) -> dict[str, float]:
        """What is certain of the method's candidate alone, by name; a trial has such floors."""
        return dict(self._transport.campaign("GET", "/floors", timeout=LONG)["floors"])

    def proposal(self) -> Proposal:
        """What the next deployment would be made from; nothing is recorded."""
        return reading.proposal_from(self._transport.campaign("GET", "/proposal", timeout=LONG))

    def mismatch_map(self) -> MismatchMap:
        """For every row how far it is from the simulator, and what is known about it."""
        return reading.map_from(self._transport.campaign("GET", "/map", query={"form": "arrays"}, timeout=LONG))

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
        return reading.ledger_from(job["ledger"])

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
        return self._transport.campaign("GET", "/export", query={"format": "json"}, timeout=LONG)
