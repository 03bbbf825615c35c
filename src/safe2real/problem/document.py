"""A problem as one JSON document, and back: readable in any language, exact to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP, AtLeast, AtMost, Constraint, without_steps
from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.names import legend_from_json
from safe2real.model.serialization import (
    FINGERPRINTS,
    Extensions,
    array_to_json,
    check_keys,
    check_unpacked,
    named_from_json,
    named_to_json,
    numbers_from_json,
    policy_from_json,
    policy_to_json,
    within,
)
from safe2real.model.validation import (
    AS_NUMBER,
    boolean,
    check_bytes,
    finite_number,
    frozen,
    positive_integer,
    shown,
    whole_numbers,
)
from safe2real.problem.problem import Problem, RowAccuracy
from safe2real.problem.settings import Settings
from safe2real.problem.ties import ties_from_json, ties_to_json
from safe2real.radii import ALL, Radius
from safe2real.refinements import ALL as ALL_REFINEMENTS
from safe2real.refinements import Refinement

REQUIRED = ("horizon", "simulator", "baseline", "settings")
OPTIONAL = ("start", "constraints", "known", "support", "estimated", "within", "ties", "copies", "legend", "counts_end")
_REQUIRED_SETTINGS = ("margin", "calibrated_gap", "mismatch_gap", "tolerance")
_OPTIONAL_SETTINGS = tuple(field.name for field in fields(Settings) if field.name not in _REQUIRED_SETTINGS)
_NUMBERS = ("calibrated_gap", "mismatch_gap", "tolerance", "delta", "bonus_scale", "replan_growth")
METHOD = "algorithm"  # the method stands in the same document; `methods.document` reads it
_TRANSITIONS = ("states", "actions", "successors", "probabilities")


def to_document(problem: Problem) -> dict[str, Any]:
    """Plain JSON values; large arrays are packed."""
    model = problem.simulator
    document: dict[str, Any] = {
        "horizon": model.steps,
        "simulator": _kernel_to_json(model.kernel),
        "start": array_to_json(model.start),
        "constraints": [
            {
                "name": model.names[k],
                "utility": array_to_json(without_steps(model.utilities[k])),
                "threshold": float(model.thresholds[k]),
                **({"is_cost": True} if model.costs[k] else {}),
            }
            for k in range(model.num_constraints)
        ],
        "baseline": policy_to_json(problem.baseline),
        "settings": settings_to_json(problem.settings),
    }
    if model.counts_end:
        document["counts_end"] = True
    if model.legend:
        document["legend"] = model.legend.to_json()
    declared = {name: (write, getattr(problem, name)) for name, (write, _) in _DECLARED.items()}
    return document | {name: write(value) for name, (write, value) in declared.items() if value is not None}


def settings_to_json(settings: Settings) -> dict[str, Any]:
    """The settings as plain JSON values."""
    return {
        "margin": np.asarray(settings.margin, dtype=float).tolist(),
        **({} if settings.seed is None else {"seed": int(settings.seed)}),
        "radius": named_to_json(settings.radius),
        "span_bonus": settings.span_bonus,
        "robust_safety": settings.robust_safety,
        "refinements": [named_to_json(one) for one in settings.refinements],
        **{name: float(getattr(settings, name)) for name in _NUMBERS},
    }


def without_words(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without names and wordings of constraints, which do not affect any computed number."""
    listed = [{key: one for key, one in each.items() if key != "is_cost"} for each in document.get("constraints", [])]
    return {key: value for key, value in document.items() if key not in ("legend", "constraints")} | {"constraints": listed}


def from_document(document: Any, extensions: Extensions = ()) -> Problem:
    """Read a document written by `to_document` or by hand; the result is a valid problem."""
    check_no_method(document)
    given = check_keys(document, "the specification", required=REQUIRED, optional=OPTIONAL)
    check_unpacked(given, "the specification")
    return problem_of(model_of(given), given, extensions)


def model_of(given: dict[str, Any]) -> CMDP:
    """Read horizon, simulator, start, constraints and names of a document whose keys are checked."""
    listed = given.get("constraints", [])
    if not isinstance(listed, list):
        raise InvalidInput(
            f"constraints is {shown(listed)}; give a list of objects with utility and threshold, or cost and limit"
        )
    kernel = kernel_from_json(given["simulator"], "simulator")
    horizon = positive_integer("horizon", given["horizon"])
    check_size(horizon, kernel, len(listed))
    start = numbers_from_json(given.get("start", 0), "start")
    constraints = [_constraint_from_json(value, f"constraints[{k}]") for k, value in enumerate(listed)]
    counts_end = boolean("counts_end", given.get("counts_end", False))
    model = CMDP.of(kernel, horizon, start, constraints, counts_end=counts_end)
    written = tuple(_is_cost(value, f"constraints[{k}]") for k, value in enumerate(listed))
    return replace(model, costs=written).with_legend(legend_from_json(given.get("legend", {})))


def problem_of(model: CMDP, given: dict[str, Any], extensions: Extensions = ()) -> Problem:
    """Read baseline, settings and what is assumed besides, of a document whose keys are checked."""
    return Problem(
        simulator=model,
        baseline=policy_from_json(given["baseline"], "baseline", horizon=model.horizon, num_states=model.num_states),
        settings=_settings_from_json(given["settings"], extensions),
        **{name: read(given[name], name) for name, (_, read) in _DECLARED.items() if name in given},
    )


def check_no_method(document: Any) -> None:
    """Refuse a method outside the settings, and say where it belongs."""
    for key in ("method", METHOD):
        if isinstance(document, dict) and key in document:
            raise InvalidInput(
                f"the specification has an unknown key {key!r}; the method stands in the settings, as settings.{METHOD}: "
                'its name, or {"kind": name} with its parameters'
            )


def check_size(horizon: int, kernel: Kernel, constraints: int = 0) -> None:
    """Refuse sizes with which a policy or the constraints would exceed the byte limit, before one is written out."""
    tables = max(1, constraints)
    check_bytes(
        f"horizon is {shown(horizon)}: with {kernel.num_states} states, {kernel.num_actions} actions and {constraints} "
        "constraints, a table for every step",
        tables * horizon * kernel.num_states * kernel.num_actions * AS_NUMBER,
        "merge states or shorten the horizon",
    )


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    rows, successors, probabilities = kernel.transitions()
    steps, states, actions = np.unravel_index(rows, (kernel.horizon or 1, kernel.num_states, kernel.num_actions))
    document: dict[str, Any] = {
        "num_states": kernel.num_states,
        "num_actions": kernel.num_actions,
        "states": array_to_json(states.astype(np.uint32)),
        "actions": array_to_json(actions.astype(np.uint32)),
        "successors": array_to_json(successors.astype(np.uint32)),
        "probabilities": array_to_json(probabilities),
    }
    if kernel.horizon is not None:
        document["steps"] = array_to_json(steps.astype(np.uint32))
        document["num_steps"] = kernel.horizon
    if kernel.fitted_to is not None:
        document["fitted_to"] = array_to_json(kernel.fitted_to)
    return document


def kernel_from_json(value: Any, name: str) -> Kernel:
    """Rows from {"transition": ...} or from parallel lists of transitions; a kernel is itself."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, dict) and "transition" in value:
        check_keys(value, name, required=("transition",))
        dense = numbers_from_json(value["transition"], f"{name}.transition")
        stored = int(np.count_nonzero(dense))
        what = f"{name}.transition, kept as its {count(stored, 'transition')},"
        check_bytes(what, stored * len(_TRANSITIONS) * AS_NUMBER, "merge states")
        with within(name):
            return Kernel.from_dense(dense)
    if isinstance(value, dict) and value.keys().isdisjoint((*_TRANSITIONS, "num_states", "num_actions")):
        raise InvalidInput(
            f'{name} must hold {{"transition": [S][A][S] or [H][S][A][S]}}, or parallel lists of stored transitions: '
            + ", ".join(("num_states", "num_actions", *_TRANSITIONS))
        )
    optional = ("steps", "num_steps", "fitted_to")
    given = check_keys(value, name, required=("num_states", "num_actions", *_TRANSITIONS), optional=optional)
    lists = [numbers_from_json(given[column], f"{name}.{column}") for column in _TRANSITIONS]
    steps = numbers_from_json(given["steps"], f"{name}.steps") if "steps" in given else None
    sizes = {"num_states": given["num_states"], "num_actions": given["num_actions"], "horizon": given.get("num_steps")}
    with within(name):
        kernel = Kernel.from_triples(*lists, steps=steps, **sizes)
    if "fitted_to" not in given:
        return kernel
    fitted_to = numbers_from_json(given["fitted_to"], f"{name}.fitted_to")
    marks = whole_numbers(f"{name}.fitted_to", fitted_to, below=FINGERPRINTS, what="fingerprints of episodes")
    return replace(kernel, fitted_to=frozen(marks.reshape(-1)))


def _constraint_from_json(value: Any, name: str) -> Constraint:
    if isinstance(value, dict) and "cost" in value:
        given = check_keys(value, name, required=("cost", "limit"), optional=("name",))
        cost, label = numbers_from_json(given["cost"], f"{name}.cost"), given.get("name", "constraint")
        return AtMost(cost, given["limit"], label)
    given = check_keys(value, name, required=("utility", "threshold"), optional=("name", "is_cost"))
    utility, label = numbers_from_json(given["utility"], f"{name}.utility"), given.get("name", "constraint")
    return AtLeast(utility, given["threshold"], label)


def _is_cost(value: dict[str, Any], name: str) -> bool:
    """Whether it was written as cost <= limit, which is kept as a utility; so that it is shown as it was written."""
    given = value.get("is_cost", "cost" in value)
    if not isinstance(given, bool):
        raise InvalidInput(f"{name}.is_cost is {shown(given)}; give true for a cost and its limit, else leave it out")
    return given


def _radius_from_json(value: Any, extensions: Extensions) -> Radius:
    radius = named_from_json(value, "settings.radius", Radius, ALL, extensions)
    if radius is None:
        known = ", ".join(kind.name for kind in ALL if kind.certified)
        raise InvalidInput(
            f'settings.radius is {shown(value)}; give {{"kind": one of {known}}}, or '
            '{"kind": "scaled", "scale": 0.4} for a heuristic campaign'
        )
    return radius


def refinements_from_json(value: Any) -> tuple[Refinement, ...]:
    """Read the refinements that a document lists."""
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"settings.refinements is {shown(value)}; give a list, [] for none")
    found = []
    for i, one in enumerate(value):
        refinement = named_from_json(one, f"settings.refinements[{i}]", Refinement, ALL_REFINEMENTS)
        if refinement is None:
            known = ", ".join(kind.name for kind in ALL_REFINEMENTS)
            raise InvalidInput(f'settings.refinements[{i}] is {shown(one)}; give {{"kind": one of {known}}}')
        found.append(refinement)
    return tuple(found)


def _settings_from_json(value: Any, extensions: Extensions) -> Settings:
    given = check_keys(value, "settings", required=_REQUIRED_SETTINGS, optional=(*_OPTIONAL_SETTINGS, METHOD))
    given.pop(METHOD, None)
    if "radius" in given:
        given["radius"] = _radius_from_json(given["radius"], extensions)
    given["refinements"] = refinements_from_json(given.get("refinements", []))
    margin = given["margin"]
    if isinstance(margin, list):
        given["margin"] = tuple(finite_number(f"margin[{k}]", xi) for k, xi in enumerate(margin))
    else:
        given["margin"] = finite_number("margin", margin)
    return Settings(**given)


def _estimated_to_json(rows: RowAccuracy) -> dict[str, Any]:
    return {
        "accuracy": array_to_json(rows.accuracy),
        "visits": array_to_json(rows.visits),
        "delta": rows.delta,
        "certified": rows.certified,
    }


def _estimated_from_json(value: Any, name: str) -> RowAccuracy:
    given = check_keys(value, name, required=("accuracy", "visits", "delta", "certified"))
    arrays = {key: numbers_from_json(given[key], f"{name}.{key}") for key in ("accuracy", "visits")}
    return RowAccuracy(**{**given, **arrays})


_DECLARED: dict[str, tuple[Callable[[Any], Any], Callable[[Any, str], Any]]] = {
    "known": (array_to_json, lambda value, name: None if value is None else numbers_from_json(value, name)),
    "within": (array_to_json, numbers_from_json),
    "support": (_kernel_to_json, kernel_from_json),
    "estimated": (_estimated_to_json, _estimated_from_json),
    "ties": (ties_to_json, ties_from_json),
    "copies": (array_to_json, numbers_from_json),
}
"""What a user may declare of the real system's rows: how each is written, and how it is read."""
