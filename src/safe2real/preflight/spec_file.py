"""A whole study in one file: SPEC.toml or SPEC.json holds what a `Problem` does, and what to rehearse it on.

Both forms have the same keys; the JSON document of campaigns is one of them. Any array may be nested lists, a packed array,
"file.npy" or "file.npz:name", relative to the file. What is read here is shaped and ranged by `Problem`; whether a
guarantee can hold is the business of `check_problem` and of `Problem.learner`.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.campaign.episodes import episode_from_json
from safe2real.errors import InvalidInput
from safe2real.methods.base import Method
from safe2real.methods.named import method_in
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.names import Legend
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import bounded, check_keys, check_unpacked, from_text, numbers_from_json, within
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import boolean, positive_integer, shown, whole_numbers
from safe2real.preflight.array_files import ArrayFiles
from safe2real.preflight.guess import Guess
from safe2real.preflight.spec_gymnasium import Environment, environment_of
from safe2real.preflight.spec_rehearsal import RunOptions, guess_of, options_of, per_pair, with_rewards
from safe2real.preflight.spec_structure import alternatives_of, ties_of
from safe2real.problem.document import OPTIONAL, REQUIRED, check_no_method, check_size, kernel_from_json
from safe2real.problem.problem import Problem
from safe2real.refinements import DEFAULT
from safe2real.systems.finite import FiniteSystem
from safe2real.systems.measure import clone_baseline

# Not with an environment, which numbers its states itself:
_OWN_NUMBERING = ("constraints", "known", "support", "estimated", "copies", "within", "legend", "counts_end")
_NAMES = ("state_names", "action_names", "positions")
_BEFORE_TABLES = ("horizon", "counts_end", "start", "known", "within", "copies", *_NAMES)
_LISTS = ("transition", "states", "actions", "successors", "probabilities", "steps", "fitted_to")
_SIZES = ("num_states", "num_actions", "num_steps")
_CONSTRAINT = ("unsafe", "cost", "limit", "utility", "threshold", "name")


@dataclass(frozen=True, eq=False, slots=True)
class SpecFile:
    """What a specification file holds."""

    path: Path
    problem: Problem
    method: Method
    system: FiniteSystem | None = None  # of [simulator] gymnasium: which state is what
    reality: Kernel | None = None  # [real]
    guess: Guess | None = None  # [guess]
    options: RunOptions = field(default_factory=RunOptions)


def read_spec_file(path: str | os.PathLike[str], *, allow_code: bool = True, files_anywhere: bool = False) -> SpecFile:
    """Read SPEC.toml or SPEC.json, with every file it names; a mistake is said with its place and its cure.

    A file from elsewhere can do two things that numbers cannot. An environment is code: `module:id` imports the module, and
    any id runs what is registered under it, with arguments from the file; `allow_code=False` refuses environments. And
    names of files can lead anywhere: outside the specification's own folder they are refused unless `files_anywhere`.
    """
    file = Path(path)
    document = _document(file)
    with within(file.name):
        _check_not_swallowed(document)
        check_no_method(document)
        optional = (*OPTIONAL, *_NAMES, "real", "guess", "run")
        given = check_keys(document, "the specification", required=REQUIRED, optional=optional)
        if "real" in given and "guess" in given:
            raise InvalidInput("the specification has both `real` and `guess`; keep the one to rehearse on")
        _check_code(given, allow_code)
        check_unpacked(given, "the specification")
        files = ArrayFiles(file.parent, files_anywhere)
        horizon = positive_integer("horizon", given["horizon"])
        start = files.maybe(given.get("start"), "start")
        ties = ties_of(given, files)
        names = {key: files.maybe(given[key], key) if key == "positions" else given[key] for key in _NAMES if key in given}
        environment = environment_of(given["simulator"], horizon, start, files, ties, names)
        plain = _of_arrays(given, start, files, names) if environment is None else _of_environment(given, environment)
        kernel = plain["simulator"]
        check_size(horizon, kernel)
        read = (lambda value, name: _kernel(value, name, files)) if environment is None else environment.reality
        tied = ties if environment is None else environment.system.ties
        structure = {"ties": tied, "alternatives": alternatives_of(given, read)}
        plain |= {name: stated for name, stated in structure.items() if stated is not None}
        model = CMDP.of(kernel, horizon, plain["start"], counts_end=plain.get("counts_end", False))
        plain["baseline"] = _baseline(given["baseline"], model, files, environment)
        problem = Problem.from_document({"horizon": horizon, **plain, "settings": _refined(given["settings"])})
        return SpecFile(
            path=file,
            problem=problem,
            method=method_in(with_rewards(given, model, files, environment)),
            system=None if environment is None else environment.system,
            reality=_reality(given["real"], kernel, files, environment) if "real" in given else None,
            guess=guess_of(given["guess"], kernel, files, environment) if "guess" in given else None,
            options=options_of(given.get("run", {}), model, files, environment),
        )


def _refined(settings: Any) -> Any:
    """With the refinements of today where the file lists none: it is written by people, and no record of what was used."""
    missing = isinstance(settings, dict) and "refinements" not in settings
    return {**settings, "refinements": DEFAULT} if missing else settings


def read_rollouts(model: CMDP, text: str, what: str) -> list[Trajectory]:
    """JSON Lines, one {"states": [...], "actions": [...]} a line, as whole episodes of `model`."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    episodes = []
    for number, line in lines:
        place = f"line {number} of {what}"
        episodes.append(episode_from_json(model, from_text(line, place), place, partial=False))
    if not episodes:
        raise InvalidInput(f"{what} holds no episode; give one JSON object with states and actions a line")
    return episodes


def _document(file: Path) -> Any:
    if file.suffix not in (".toml", ".json"):
        raise InvalidInput(f"{file} is no .toml or .json file; a specification is one of them: give it that name")
    try:
        with file.open("rb") as opened:
            text = bounded(opened, str(file)).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); check the name and the permissions") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text (byte {error.start}: {error.reason}); save it as UTF-8") from error
    if file.suffix == ".json":
        return from_text(text, file.name)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise InvalidInput(f"{file.name} is not TOML: {error}; mend it there") from error


def _check_code(given: dict[str, Any], allowed: bool) -> None:
    for key in ("simulator", "real"):
        if not allowed and isinstance(given.get(key), dict) and "gymnasium" in given[key]:
            raise InvalidInput(
                f"{key}.gymnasium is {shown(given[key]['gymnasium'])}: an environment is code, and running code was not "
                "allowed here; give the rows as arrays, or read the file where you trust it"
            )


def _check_not_swallowed(document: Any) -> None:
    """In TOML a key belongs to the table above it: what was meant for the whole is easily written too low."""
    if not isinstance(document, dict):
        return
    for name, value in document.items():
        tables = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, table in tables:
            for key in _BEFORE_TABLES:
                if isinstance(table, dict) and key in table:
                    place = name if index is None else f"{name}[{index}]"
                    raise InvalidInput(
                        f"{place} has the key {key!r}, which belongs to the whole specification; write it at the top, "
                        "before the first [table]: what stands below a [table] is part of it"
                    )


# The parts of a specification of arrays


def _of_arrays(given: dict[str, Any], start: Any, files: ArrayFiles, names: dict[str, Any]) -> dict[str, Any]:
    kernel = _kernel(given["simulator"], "simulator", files)
    plain: dict[str, Any] = {"simulator": kernel, "start": 0 if start is None else numbers_from_json(start, "start")}
    if "constraints" in given:
        listed = given["constraints"]
        if not isinstance(listed, list):
            raise InvalidInput(f"constraints is {shown(listed)}; write each one as [[constraints]]")
        plain["constraints"] = [_constraint(one, f"constraints[{k}]", kernel, files) for k, one in enumerate(listed)]
    if names and "legend" in given:
        raise InvalidInput(f"the specification has `legend` beside {' and '.join(names)}, which say the same; keep one")
    plain["legend"] = Legend.of(*map(names.get, _NAMES)) if names else given.get("legend", {})
    if "counts_end" in given:
        plain["counts_end"] = boolean("counts_end", given["counts_end"])
    for key in ("known", "within", "copies"):
        if key in given:
            plain[key] = files.maybe(given[key], key)
    if "support" in given:
        plain["support"] = _kernel(given["support"], "support", files)
    if "estimated" in given:
        value = given["estimated"]
        arrays = ("accuracy", "visits")
        plain["estimated"] = (
            {key: files.maybe(one, f"estimated.{key}") if key in arrays else one for key, one in value.items()}
            if isinstance(value, dict)
            else value
        )
    return plain


def _kernel(value: Any, name: str, files: ArrayFiles) -> Kernel:
    if isinstance(value, dict) and "file" in value:
        named = check_keys(value, name, required=("file",))["file"]
        if not isinstance(named, str):
            raise InvalidInput(f"{name}.file is {shown(named)}; give the name of an .npz or .npy file")
        value = {} if ".npz:" in named else files.arrays(named, f"{name}.file", among={*_LISTS, *_SIZES})
        if not value:  # an array of the user's naming
            value = {"transition": files.array(named, f"{name}.file")}
        value = {key: int(one) if key in _SIZES and one.size == 1 else one for key, one in value.items()}
        with within(f"{name}.file is {named!r}"):
            return kernel_from_json(value, name)
    if isinstance(value, dict):
        value = {key: files.maybe(one, f"{name}.{key}") if key in _LISTS else one for key, one in value.items()}
    return kernel_from_json(value, name)


def _constraint(value: Any, name: str, kernel: Kernel, files: ArrayFiles) -> Any:
    """As in the JSON document, with two forms more: `unsafe` states that cost 1 each, and one number for each state."""
    if not isinstance(value, dict):
        return value
    given = check_keys(value, name, required=(), optional=_CONSTRAINT)
    if "unsafe" in given:
        given = check_keys(given, name, required=("unsafe", "limit"), optional=("name",))
        states = whole_numbers(f"{name}.unsafe", given.pop("unsafe"), below=kernel.num_states, what="states")
        given["cost"] = np.isin(np.arange(kernel.num_states), states).astype(np.float64)
    for key in ("utility", "cost"):
        if key in given:
            array = numbers_from_json(files.maybe(given[key], f"{name}.{key}"), f"{name}.{key}")
            given[key] = per_pair(array, kernel.num_states, kernel.num_actions)
    return given


def _of_environment(given: dict[str, Any], environment: Environment) -> dict[str, Any]:
    for key in _OWN_NUMBERING:
        if key in given:
            raise InvalidInput(
                f"the specification has `{key}` beside simulator.gymnasium, which makes its own numbering of states; leave "
                "it out: cost and limit stand in [simulator], and rows after the end of an episode are known"
            )
    system = environment.system
    model = system.model
    return {
        **({"copies": system.copies} if environment.pools_copies else {}),
        "simulator": model.kernel,
        "start": model.start,
        "constraints": [
            {
                "name": model.names[k],
                "utility": model.utilities[k][0],
                "threshold": float(model.thresholds[k]),
                "is_cost": model.costs[k],
            }
            for k in range(model.num_constraints)
        ],
        "known": system.known,
        **({"counts_end": True} if model.counts_end else {}),
        "legend": model.legend,
    }


def _baseline(value: Any, model: CMDP, files: ArrayFiles, environment: Environment | None) -> Any:
    if isinstance(value, dict) and "demonstrations" in value:
        return _cloned(value, model, files, environment)
    if value == {"policy": "uniform"}:
        uniform = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
        return {"kind": "stochastic", "probabilities": uniform.probabilities}
    if not isinstance(value, dict) or "kind" in value:
        given = value
    elif "policy" in value:
        given = _policy(check_keys(value, "baseline", required=("policy",))["policy"], model, files)
    elif "actions" in value:
        given = {"kind": "deterministic", "num_actions": model.num_actions, **value}
    elif "probabilities" in value:
        given = {"kind": "stochastic", **value}
    else:
        check_keys(value, "baseline", required=(), optional=("policy", "actions", "probabilities", "demonstrations", "kind"))
        raise InvalidInput(
            'baseline is empty; give policy = "uniform", policy = "file.npy", actions, probabilities or demonstrations'
        )
    if not isinstance(given, dict):
        return given
    for key, axes in (("actions", 1), ("probabilities", 2)):
        if key in given:
            array = numbers_from_json(files.maybe(given[key], f"baseline.{key}"), f"baseline.{key}")
            given = {**given, key: array if environment is None else environment.over_states(array, axes, f"baseline.{key}")}
    return given


def _policy(named: Any, model: CMDP, files: ArrayFiles) -> Any:
    if not isinstance(named, str):
        raise InvalidInput(
            f'baseline.policy is {shown(named)}; give "uniform" or a file, and numbers as actions or probabilities'
        )
    array = files.array(named, "baseline.policy")
    if array.dtype.kind in "iu":  # whole numbers are actions
        return {"kind": "deterministic", "num_actions": model.num_actions, "actions": array}
    return {"kind": "stochastic", "probabilities": array}


def _cloned(value: dict[str, Any], model: CMDP, files: ArrayFiles, environment: Environment | None) -> Any:
    given = check_keys(value, "baseline", required=("demonstrations",), optional=("smoothing", "per_step"))
    named = given.pop("demonstrations")
    if environment is not None or not isinstance(named, str):
        raise InvalidInput(
            f"baseline.demonstrations is {shown(named)}; give a JSON Lines file of episodes of a simulator of arrays, or "
            "policy = a file with actions or probabilities"
        )
    boolean("baseline.per_step", given.get("per_step", False))
    episodes = read_rollouts(model, files.text(named, "baseline.demonstrations"), named)
    with within("baseline"):
        return {"kind": "stochastic", "probabilities": clone_baseline(model, episodes, **given).probabilities}


def _reality(value: Any, kernel: Kernel, files: ArrayFiles, environment: Environment | None) -> Kernel:
    real = _kernel(value, "real", files) if environment is None else environment.reality(value)
    expected, found = [(one.horizon, one.num_states, one.num_actions) for one in (kernel, real)]
    if expected != found:
        raise InvalidInput(
            f"real is for (H, S, A) = {found} and the simulator for {expected} (H is None for rows that do not change with "
            "the step); give both the same shape"
        )
    return real
