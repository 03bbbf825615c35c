"""A plan in one file: policy, value, bounds, certificate with all its codes, reward, settings, names, version.

Everything is kept bit for bit but `solution`, the planner's own working, and `model`, a guess to draw it on, which a loaded
plan does not have. What a plan is worth is kept as data: one of a heuristic or a refuted run is as heuristic or refuted
when it is loaded.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.plan import Origin, Plan
from safe2real.model.archive import Archive, complete_file
from safe2real.model.constraint_text import Wording
from safe2real.model.names import Legend, legend_from_json
from safe2real.model.serialization import check_keys, finite_or_none, mixture_to_json
from safe2real.model.validation import frozen
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode
from safe2real.version import __version__

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


# A plan as tables for other languages: plan.json with everything, policy.csv to look actions up in.
#
# Steps, states and actions count from 0. One policy of the mixture is drawn with its weight BEFORE an episode and followed
# to its end; then (step, state) gives the action, or the probability of each. docs/running-plans.md has the format and
# examples.

FORMAT = 1
_FORMULAS = ("=", "+", "-", "@", "\t")  # what a spreadsheet would compute


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Everything about a plan in plain values; what is not finite is null."""
    certificate, origin = plan.certificate, plan.origin
    horizon, states, actions = plan.policy.shape
    words = certificate.wordings
    bounds = zip(certificate.lower_bounds.tolist(), certificate.thresholds.tolist(), strict=False)
    document: dict[str, Any] = {
        "safe2real": "plan",
        "format": FORMAT,
        "version": __version__,
        "horizon": horizon,
        "num_states": states,
        "num_actions": actions,
        "value": finite_or_none(plan.value),
        "bound": finite_or_none(plan.bound),
        "suboptimality": finite_or_none(plan.suboptimality),
        "certificate": {
            "standing": certificate.standing.value,
            "certified": certificate.certified,
            "holds": certificate.holds,
            "statement": certificate.describe(),
            "constraints": [
                {
                    "name": words[k].label if k < len(words) else "constraint",
                    "relation": words[k].relation if k < len(words) else ">=",
                    "asked": finite_or_none(words[k].number(asked) if k < len(words) else asked),
                    "proved": finite_or_none(words[k].number(low) if k < len(words) else low),
                }
                for k, (low, asked) in enumerate(bounds)
            ],
            "assumptions": [asdict(one) for one in certificate.assumptions],
            "doubts": [asdict(one) for one in certificate.doubts],
        },
        "policy": mixture_to_json(plan.policy),
    }
    if origin is not None:
        document["settings"] = dict(origin.settings)
        document["samples"] = origin.samples
        if origin.legend:
            document["state_names"], document["action_names"] = list(origin.legend.states), list(origin.legend.actions)
    return document


def policy_rows(plan: Plan) -> Iterator[list[Any]]:
    """The rows of policy.csv, its header first: every action that is taken with positive probability."""
    legend = Legend() if plan.origin is None else plan.origin.legend
    named = bool(legend.states or legend.actions)
    yield ["policy", "weight", "step", "state", "action", "probability", *(("state_name", "action_name") if named else ())]
    for number, (weight, policy) in enumerate(zip(plan.policy.weights.tolist(), plan.policy.policies, strict=True)):
        table = policy.probabilities
        for step, state, action in np.argwhere(table > 0.0).tolist():
            row = [number, weight, step, state, action, float(table[step, state, action])]
            yield [*row, legend.state(state), legend.action(action)] if named else row


def state_rows(system: Any) -> Iterator[list[Any]]:
    """The rows of states.csv: the environment's state behind each of the model's, and how it was entered.

    After the end of an episode the environment's state is empty. Observations of the environment begin at `first_state`.
    """
    finite = getattr(system, "system", system)
    listed = getattr(system, "states", None)
    if not hasattr(finite, "arrivals"):
        raise InvalidInput(
            f"system is a {type(system).__name__}; give what from_gymnasium, from_dynamics or estimate_model made"
        )
    yield ["state", "environment_state", "cost_on_arrival", "ended"]
    for (state, cost, ended), number in sorted(finite.arrivals.items(), key=lambda item: item[1]):
        shown = state + finite.first_state if listed is None else listed[state]
        yield [number, "" if state < 0 else shown, cost, int(ended)]


def export_plan(plan: Plan, folder: Path, *, system: Any = None) -> list[Path]:
    """Write plan.json and policy.csv, and states.csv where a `system` is given; files of that name are replaced.

    Raises:
        InvalidInput: the folder cannot be one, or the system is none.
        StorageFailure: a file cannot be written.
    """
    states = None if system is None else list(state_rows(system))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be a folder ({error}); give another place for the tables") from error
    written = [folder / "plan.json", folder / "policy.csv"]
    with complete_file(written[0]) as file:
        json.dump(plan_to_json(plan), file, allow_nan=False)
    _write_csv(written[1], policy_rows(plan))
    if states is not None:
        written.append(folder / "states.csv")
        _write_csv(written[-1], states)
    return written


def _write_csv(path: Path, rows: Any) -> None:
    with complete_file(path) as file:
        csv.writer(file).writerows([_harmless(cell) for cell in row] for row in rows)


def _harmless(cell: Any) -> Any:
    """A text that a spreadsheet would compute has an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell
