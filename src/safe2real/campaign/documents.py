"""The answers of a campaign as JSON documents. JSON has no infinity and no nan: both are null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import Deployment, Receipt
from safe2real.campaign.journal.url import shown_place
from safe2real.campaign.verify import Ledger
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.plan import Plan
from safe2real.exploration.proposal import Proposal
from safe2real.model.serialization import finite_or_none, mixture_to_json, policy_to_json


def created(campaign: Campaign, url: str) -> dict[str, Any]:
    # Answers end up in logs, where a password must not.
    return {"campaign": campaign.name, "url": shown_place(url), **label_of(campaign)}


def label_of(campaign: Campaign) -> dict[str, Any]:
    """Return the standing of all deployments that this campaign hands out now."""
    assurance = campaign.assurance()
    return {"certified": assurance.certified, "standing": assurance.standing, "statement": assurance.describe(width=None)}


def certificate_document(certificate: Certificate) -> dict[str, Any]:
    return {
        "certified": certificate.certified,
        "holds": certificate.holds,
        "reaches": certificate.reaches,
        "lower_bounds": _finite(certificate.lower_bounds),
        "thresholds": _finite(certificate.thresholds),
        "standing": certificate.standing,
        "assumptions": [asdict(one) for one in certificate.assumptions],
        "doubts": [asdict(one) for one in certificate.doubts],
        "statement": certificate.describe(width=None),
        "constraints": [_in_words(certificate, k) for k in range(len(certificate.thresholds))],
    }


def _in_words(certificate: Certificate, k: int) -> dict[str, Any]:
    """One constraint as the user wrote it: "falls <= limit", and what is proved of it in the same number."""
    words, low, threshold = certificate.words(k), certificate.lower_bounds[k], certificate.thresholds[k]
    return {
        "name": words.label,
        "relation": words.relation,
        words.bound_word: finite_or_none(words.number(threshold)),
        "proved": finite_or_none(words.number(low)),
        "statement": words.proved(low),
    }


def asked_document(deployments: Sequence[Deployment], *, mixture: bool = False, packed: bool = False) -> dict[str, Any]:
    """The answer to ask; `mixture` and `packed` as for `deployment_document`."""
    return {
        "certified": all(one.certificate.certified for one in deployments),
        "deployments": [deployment_document(one, mixture=mixture, packed=packed) for one in deployments],
        "withdrawn": [asdict(one) for one in deployments[0].withdrawn],
    }


def deployment_document(deployment: Deployment, *, mixture: bool = False, packed: bool = False) -> dict[str, Any]:
    """A deployment.

    Args:
        deployment: as `Campaign.ask` returns it.
        mixture: whether all policies of the mixture are in it, of which `drawn` is the one to run.
        packed: whether arrays are packed, for programs; with `mixture` no policy is in it twice.
    """
    plain = not packed
    return {
        "id": deployment.id,
        "number": deployment.number,
        "worker": deployment.worker,
        "at": deployment.at,
        "reason": deployment.reason.name,
        "exploration_weight": deployment.exploration_weight,
        "uncertainty": finite_or_none(deployment.uncertainty),
        "drawn": deployment.drawn,
        **({} if packed and mixture else {"policy": policy_to_json(deployment.policy, plain=plain)}),
        "certificate": certificate_document(deployment.certificate),
        **({"mixture": mixture_to_json(deployment.mixture, plain=plain)} if mixture else {}),
    }


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    return {"sequence": receipt.sequence, "new": receipt.new, "samples": receipt.samples}


def imported_document(source: str, episodes: int, receipt: Receipt) -> dict[str, Any]:
    """The answer to an import of `episodes` from the log `source`."""
    return {"source": source, "episodes": episodes, "skipped": receipt.skipped, **receipt_document(receipt)}


def declared_document(campaign: Campaign, receipt: Receipt) -> dict[str, Any]:
    """The answer to declare, with the names of all rewards that are explored for now."""
    names = [one.name for one in campaign.status(forecast=False).rewards]
    return {"sequence": receipt.sequence, "new": receipt.new, "rewards": names}


def status_document(campaign: Campaign, *, forecast: bool) -> dict[str, Any]:
    """Return the status of a campaign, with the present certificate, its codes and its texts."""
    status, problem = campaign.status(forecast=forecast), campaign.problem
    model = problem.simulator
    return {
        **asdict(status),
        "forecast": None if status.forecast is None else {**asdict(status.forecast), "caution": status.forecast.caution},
        "constraints": [words.requirement(limit) for words, limit in zip(model.wordings, model.thresholds, strict=True)],
        "held": [{"id": id, "worker": worker, "at": at} for id, worker, at in status.held],
        "uncertainty": finite_or_none(status.uncertainty),
        **label_of(campaign),
        "campaign": status.name,
        "delta": problem.settings.delta,
        "method": campaign.method.name,
        "format": campaign.format,
        "horizon": model.steps,
        "states": model.num_states,
        "actions": model.num_actions,
        "assurance": certificate_document(campaign.assurance()),
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "certified": plan.certificate.certified,
        "value": finite_or_none(plan.value),
        "bound": finite_or_none(plan.bound),
        "suboptimality": finite_or_none(plan.suboptimality),
        "certificate": certificate_document(plan.certificate),
        "policy": mixture_to_json(plan.policy),
    }


def proposal_document(proposal: Proposal) -> dict[str, Any]:
    return {
        "round": proposal.round,
        "reason": proposal.reason.name,
        "exploration_weight": proposal.exploration_weight,
        "uncertainty": finite_or_none(proposal.uncertainty),
        "coin": proposal.coin,
        "mixture": None if proposal.mixture is None else mixture_to_json(proposal.mixture),
        "certificate": None if proposal.certificate is None else certificate_document(proposal.certificate),
    }


def map_document(found: MismatchMap) -> dict[str, Any]:
    return {
        "certified": found.certified and not found.count(Verdict.CONTRADICTED),
        "intervals_certified": found.certified,
        "visits": found.visits.tolist(),
        "distance": _finite(found.distance),
        "lower": _finite(found.lower),
        "upper": _finite(found.upper),
        "verdict": _nested(found.verdict.tolist(), lambda value: Verdict(value).name),
        "visits_needed": _finite(found.visits_needed),
        "state_names": list(found.legend.states) or None,
        "action_names": list(found.legend.actions) or None,
    }


def ledger_document(ledger: Ledger) -> dict[str, Any]:
    return {
        "holds": ledger.holds,
        "certified": ledger.certified,
        "standing": ledger.standing,
        "statement": ledger.describe(),
        **asdict(ledger),
        "smallest_margin": finite_or_none(ledger.smallest_margin),
        "problems": [
            # In a record that was tampered with a number can be anything.
            {**asdict(problem), "deployment": problem.deployment if isinstance(problem.deployment, int) else None}
            for problem in ledger.problems
        ],
    }


def _finite(array: NDArray[Any]) -> Any:
    return _nested(array.tolist(), finite_or_none)


def _nested(value: Any, write: Any) -> Any:
    """`write` for every entry of nested lists."""
    return [_nested(entry, write) for entry in value] if isinstance(value, list) else write(value)
