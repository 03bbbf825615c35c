"""A service's answers as the objects that a campaign returns. JSON has no infinity: null stands for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from safe2real.campaign.deployment import Deployment, Receipt, Withdrawal
from safe2real.campaign.status import CampaignStatus, RewardStatus
from safe2real.campaign.verify import Differences, Discrepancy, Ledger
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.forecast import Forecast
from safe2real.exploration.plan import Plan
from safe2real.exploration.proposal import Proposal
from safe2real.methods.base import Reason
from safe2real.model.constraint_text import Wording
from safe2real.model.names import Legend
from safe2real.model.serialization import mixture_from_json
from safe2real.model.validation import Floats
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode, Standing


def receipt_from(document: Any) -> Receipt:
    return Receipt(document["sequence"], document["new"], document.get("samples", 0), document.get("skipped", 0))


def certificate_from(document: Any) -> Certificate:
    thresholds = _floats(document["thresholds"], -np.inf)
    return Certificate(
        lower_bounds=_floats(document["lower_bounds"], -np.inf),
        thresholds=thresholds,
        assumptions=_assumptions(document["assumptions"]),
        doubts=_doubts(document["doubts"]),
        wordings=tuple(_wording(one, float(low)) for one, low in zip(document["constraints"], thresholds, strict=True)),
    )


def _wording(document: Any, threshold: float) -> Wording:
    """Return a constraint's wording: cost <= limit is utility >= H - limit, so limit and threshold add up to H."""
    is_cost = "limit" in document
    horizon = round(document["limit"] + threshold) if is_cost and document["limit"] is not None else 0
    return Wording(document["name"], horizon, is_cost)


def deployment_from(document: Any, withdrawn: Any) -> Deployment:
    mixture = mixture_from_json(document["mixture"], "mixture")
    return Deployment(
        **{key: document[key] for key in ("id", "number", "worker", "at", "drawn", "exploration_weight")},
        policy=mixture.policies[document["drawn"]],
        mixture=mixture,
        reason=Reason[document["reason"]],
        uncertainty=_number(document["uncertainty"], math.inf),
        certificate=certificate_from(document["certificate"]),
        withdrawn=tuple(Withdrawal(**one) for one in withdrawn),
    )


def status_from(document: Any) -> CampaignStatus:
    own = {field.name: document[field.name] for field in fields(CampaignStatus) if field.name in document}
    forecast = document["forecast"]
    return CampaignStatus(
        **{
            **own,
            "name": document["campaign"],
            "standing": Standing(document["standing"]),
            "held": tuple((one["id"], one["worker"], one["at"]) for one in document["held"]),
            "overdue": tuple(document["overdue"]),
            "notices": tuple(document["notices"]),
            "uncertified": tuple(document["uncertified"]),
            "uncertainty": _number(document["uncertainty"], math.inf),
            "forecast": None if forecast is None else forecast_from(forecast),
            "rewards": tuple(RewardStatus(**one) for one in document["rewards"]),
        }
    )


def forecast_from(document: Any) -> Forecast:
    return Forecast(**{key: value for key, value in document.items() if key != "caution"})


def plan_from(document: Any) -> Plan:
    """Return a plan without `solution`, `origin` and `model`, which stay with the service."""
    return Plan(
        solution=None,
        policy=mixture_from_json(document["policy"], "policy"),
        value=_number(document["value"], -math.inf),
        bound=_number(document["bound"], math.inf),
        suboptimality=_number(document["suboptimality"], math.inf),
        certificate=certificate_from(document["certificate"]),
    )


def proposal_from(document: Any) -> Proposal:
    mixture, certificate = document["mixture"], document["certificate"]
    return Proposal(
        **{key: document[key] for key in ("round", "exploration_weight", "coin")},
        reason=Reason[document["reason"]],
        mixture=None if mixture is None else mixture_from_json(mixture, "mixture"),
        uncertainty=_number(document["uncertainty"], math.inf),
        certificate=None if certificate is None else certificate_from(certificate),
    )


def map_from(document: Any) -> MismatchMap:
    return MismatchMap(
        visits=np.array(document["visits"], dtype=np.int64),
        distance=_floats(document["distance"], np.nan),
        lower=_floats(document["lower"], np.nan),
        upper=_floats(document["upper"], np.nan),
        verdict=np.vectorize(lambda name: Verdict[name].value, otypes=[np.uint8])(document["verdict"]),
        visits_needed=_floats(document["visits_needed"], np.inf),
        certified=document["intervals_certified"],
        legend=Legend.of(document["state_names"], document["action_names"]),
    )


def ledger_from(document: Any) -> Ledger:
    own = {field.name: document[field.name] for field in fields(Ledger)}
    return Ledger(
        **{
            **own,
            "smallest_margin": _number(document["smallest_margin"], math.inf),
            "doubts": _doubts(document["doubts"]),
            "problems": tuple(Discrepancy(**one) for one in document["problems"]),
            "differences": Differences(**document["differences"]),
        }
    )


def _assumptions(documents: Sequence[Any]) -> tuple[Assumption, ...]:
    return tuple(Assumption(AssumptionCode(one["code"]), one["text"], one["subject"]) for one in documents)


def _doubts(documents: Sequence[Any]) -> tuple[Doubt, ...]:
    return tuple(Doubt(DoubtCode(one["code"]), one["text"], one["subject"]) for one in documents)


def _number(value: float | None, absent: float) -> float:
    return absent if value is None else float(value)


def _floats(nested: Any, absent: float) -> Floats:
    found: Floats = np.array(nested, dtype=np.float64)  # null becomes nan
    return np.where(np.isnan(found), absent, found)
