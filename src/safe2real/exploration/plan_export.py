"""A plan as tables for other languages: plan.json with everything, policy.csv to look actions up in.

Steps, states and actions count from 0. One policy of the mixture is drawn with its weight BEFORE an episode and followed to
its end; then (step, state) gives the action, or the probability of each. docs/running-plans.md has the format and examples.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safe2real.errors import InvalidInput
from safe2real.model.archive import complete_file
from safe2real.model.serialization import finite_or_none, mixture_to_json
from safe2real.tables import spreadsheet_safe
from safe2real.version import __version__

if TYPE_CHECKING:
    from safe2real.exploration.plan import Plan

FORMAT = 1


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values; null stands for values that are not finite."""
    certificate, origin = plan.certificate, plan.origin
    horizon, states, actions = plan.policy.shape
    bounds = [
        (certificate.words(k), low, asked)
        for k, (low, asked) in enumerate(zip(certificate.lower_bounds, certificate.thresholds, strict=False))
    ]
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
                    "name": words.label,
                    "relation": words.relation,
                    "asked": finite_or_none(words.number(asked)),
                    "proved": finite_or_none(words.number(low)),
                }
                for words, low, asked in bounds
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
    """Yield the rows of policy.csv, its header first: every action that is taken with positive probability."""
    names = ["state_name", "action_name"] if plan.legend.states or plan.legend.actions else []
    yield ["policy", "weight", "step", "state", "action", "probability", *names]
    for row in plan.to_table():
        cells = [row[key] for key in ("policy", "weight", "step", "state_number", "action_number", "probability")]
        yield [*cells, row["state"], row["action"]] if names else cells


def state_rows(system: Any) -> Iterator[list[Any]]:
    """Yield the rows of states.csv: the environment's state behind each of the model's, and how it was entered.

    After the end of an episode the environment's state is empty. Observations of the environment begin at `first_state`.
    """
    finite = getattr(system, "system", system)
    listed = getattr(system, "states", None)
    if not hasattr(finite, "arrivals"):
        raise InvalidInput(
            f"system is a {type(system).__name__}; give what from_gymnasium, from_dynamics or an estimate made"
        )
    yield ["state", "environment_state", "cost_on_arrival", "ended"]
    for (state, cost, ended), number in sorted(finite.arrivals.items(), key=lambda item: item[1]):
        shown = state + finite.first_state if listed is None else listed[state]
        yield [number, "" if state < 0 else shown, cost, int(ended)]


def export_plan(plan: Plan, folder: Path, *, system: Any = None) -> list[Path]:
    """Write plan.json and policy.csv, and states.csv where a `system` is given; see `Plan.export`."""
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
        csv.writer(file).writerows([spreadsheet_safe(cell) for cell in row] for row in rows)
