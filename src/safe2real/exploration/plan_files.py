"""A plan in one file: policy, value, bounds, certificate with all its codes, reward, settings, names, version.

Everything is kept bit for bit but `solution`, the planner's own working, and `model`, a guess to draw it on, which a loaded
plan does not have. What a plan is worth is kept as data: one of a heuristic or a refuted run is as heuristic or refuted
when it is loaded.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.plan import Origin, Plan
from safe2real.model.archive import Archive
from safe2real.model.constraint_text import Wording
from safe2real.model.names import legend_from_json
from safe2real.model.serialization import check_keys
from safe2real.model.validation import frozen
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode

KIND, _FORMAT = "plan", 1


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> Path:
    """Write a plan to `path`, over an older file; see `load_plan`.

    Raises:
        StorageFailure: it cannot be written.
    """
    archive = Archive(KIND)
    put_plan(archive, plan, "plan")
    return archive.save(path, format=_FORMAT)


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """The plan that `Plan.save` wrote, bit for bit, with the standing that it had.

    Args:
        path: of the file. Reading it runs no code, whatever it says; but a file is not signed, so the certificate is worth
            what its source is.

    Returns:
        The plan; `solution` and `model` are None.

    Raises:
        InvalidInput: the file is damaged, was changed, is of another kind, or of a newer release.

    Example:
        >>> plan = s2r.load_plan("pick.npz")
        >>> agent = plan.policy.agent(seed=0, system=system)
    """
    archive = Archive.load(path, KIND, format=_FORMAT)
    return take_plan(archive, "plan")


def put_plan(archive: Archive, plan: Plan, name: str) -> None:
    """Keep a plan under a name in an archive."""
    certificate, origin = plan.certificate, plan.origin
    archive.put_mixture(f"{name}.policy", plan.policy)
    archive.put(f"{name}.numbers", np.array([plan.value, plan.bound, plan.suboptimality]))
    archive.put(f"{name}.lower_bounds", np.asarray(certificate.lower_bounds, dtype=np.float64))
    archive.put(f"{name}.thresholds", np.asarray(certificate.thresholds, dtype=np.float64))
    document: dict[str, Any] = {
        "assumptions": [asdict(one) for one in certificate.assumptions],
        "doubts": [asdict(one) for one in certificate.doubts],
        "wordings": [asdict(one) for one in certificate.wordings],
    }
    if origin is not None:
        archive.put(f"{name}.reward", origin.reward)
        document["legend"] = origin.legend.to_json()
        document["settings"] = dict(origin.settings)
        document["samples"] = origin.samples
        document["made_by"] = origin.version
    archive.document[name] = document


def take_plan(archive: Archive, name: str) -> Plan:
    """What `put_plan` kept, checked."""
    made = ("legend", "settings", "samples", "made_by")
    document = check_keys(
        archive.entry(name, dict), f"{archive.name}, {name}", required=("assumptions", "doubts", "wordings"), optional=made
    )
    policy = archive.mixture(f"{name}.policy")
    thresholds = archive.array(f"{name}.thresholds", np.float64, (None,))
    try:
        certificate = Certificate(
            lower_bounds=archive.array(f"{name}.lower_bounds", np.float64, thresholds.shape),
            thresholds=thresholds,
            assumptions=tuple(_assumption(one) for one in document["assumptions"]),
            doubts=tuple(_doubt(one) for one in document["doubts"]),
            wordings=tuple(_wording(one) for one in document["wordings"]),
        )
        legend = legend_from_json(document.get("legend", {}))
        legend.check_size(*policy.shape[1:])
    except InvalidInput:
        raise
    except (TypeError, ValueError, KeyError) as error:  # codes that are none, lists that are no lists
        raise archive.wrong(f"{name} has a certificate that cannot be read ({error})") from error
    value, bound, suboptimality = archive.array(f"{name}.numbers", np.float64, (3,)).tolist()
    origin = None
    if archive.has(f"{name}.reward"):
        horizon, states, actions = policy.shape
        reward = archive.array(f"{name}.reward", np.float64, (None, states, actions))
        settings, samples, version = (document.get(key) for key in made[1:])
        if len(reward) not in (1, horizon, horizon + 1) or not isinstance(settings, dict) or type(samples) is not int:
            raise archive.wrong(f"{name} has a reward, settings or samples that cannot be")
        origin = Origin(frozen(reward), legend, settings, samples, str(version))
    return Plan(None, policy, value, bound, suboptimality, certificate, origin)


def _assumption(value: Any) -> Assumption:
    return Assumption(AssumptionCode(value["code"]), str(value["text"]), str(value["subject"]))


def _doubt(value: Any) -> Doubt:
    return Doubt(DoubtCode(value["code"]), str(value["text"]), str(value["subject"]))


def _wording(value: Any) -> Wording:
    return Wording(str(value["label"]), int(value["horizon"]), bool(value["is_cost"]))
