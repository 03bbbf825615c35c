"""A whole study in one file: SPEC.toml or SPEC.json holds a `Problem`, the method, and a reality to rehearse on.

Both forms have the same keys; the JSON document of campaigns is one of them. Any array may be nested lists, a packed array,
"file.npy" or "file.npz:name", relative to the file: `_ARRAYS` lists the places, and one pass puts the arrays there.
`Problem` checks shapes and ranges; `check_problem` checks whether a guarantee can hold.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.exploration.episode_log import episode_from_json
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.methods.document import document_of, method_in
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.names import Legend
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import (
    bounded,
    check_keys,
    check_unpacked,
    from_text,
    numbers_from_json,
    to_text,
    within,
)
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import (
    Floats,
    boolean,
    finite_number,
    is_whole,
    positive_integer,
    seed_number,
    shown,
    whole_numbers,
)
from safe2real.preflight.array_files import ArrayFiles
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.problem.document import (
    METHOD,
    OPTIONAL,
    REQUIRED,
    check_no_method,
    check_size,
    kernel_from_json,
    model_of,
    problem_of,
)
from safe2real.problem.problem import Problem
from safe2real.problem.ties import ties_from_json
from safe2real.refinements import DEFAULT
from safe2real.systems.finite import FiniteSystem, SystemDescription, from_gymnasium
from safe2real.systems.finite_env import check_spaces
from safe2real.systems.outcomes import ENDED, ArrivalCost

_ENVIRONMENT = "environment"  # a reward: the environment's own, scaled to [0, 1]
_SIMULATOR = "simulator"  # a support: the simulator's successors
_NAMES = ("state_names", "action_names", "positions")
_BEFORE_TABLES = ("horizon", "counts_end", "start", "known", "within", "copies", *_NAMES)
# Not with an environment, which numbers its states itself:
_OWN_NUMBERING = ("constraints", "known", "estimated", "copies", "within", "legend", "counts_end")
_COSTS = ("cost", "unsafe", "unsafe_reward")
_DESCRIBED = ("limit", "ended", "name", "drop_unreachable")  # of [simulator] gymnasium, as in a `SystemDescription`
_LISTS = ("transition", "states", "actions", "successors", "probabilities", "steps", "fitted_to")
_SIZES = ("num_states", "num_actions", "num_steps")
_KERNELS = ("simulator", "real", "support")
_LISTED = ("constraints", "run.rewards")  # lists whose entries hold arrays
_ARRAYS = frozenset(
    {"start", "known", "within", "copies", "positions", "simulator.cost", "simulator.ended"}
    | {f"{name}.{part}" for name in _KERNELS for part in _LISTS}
    | {"constraints[].utility", "constraints[].cost", "baseline.actions", "baseline.probabilities"}
    | {"estimated.accuracy", "estimated.visits", "ties.classes", "ties.successors", "ties.laws"}
    | {"guess.rows", "run.rewards", "run.rewards[]", f"settings.{METHOD}.rewards.*"}
)


@dataclass(frozen=True, eq=False, slots=True)
class RunOptions:
    """The table [run]: how `safe2real run` rehearses."""

    max_rounds: int = 5_000
    growth: float = 0.02  # of the deployments handed out so far, in one batch of one proposal
    seed: int = 1  # of reality
    plans: int = 3  # random rewards to plan for, where `rewards` names none
    rewards: tuple[Floats, ...] = ()  # each [S, A] or [H, S, A]
    out: Path | None = None

    def __post_init__(self) -> None:
        for name in ("max_rounds", "plans"):
            positive_integer(f"run.{name}", getattr(self, name))
        seed_number("run.seed", self.seed)
        if not 0.0 <= finite_number("run.growth", self.growth) <= 1.0:
            raise InvalidInput(f"run.growth is {self.growth:g}; give a fraction from 0 (one deployment at a time) to 1")


@dataclass(frozen=True, eq=False, slots=True)
class SpecFile:
    """The content of a specification file."""

    path: Path
    problem: Problem
    method: Method
    system: FiniteSystem | None = None  # of [simulator] gymnasium: the environment's states by number
    reality: Kernel | None = None  # [real]
    guess: Guess | None = None  # [guess]
    options: RunOptions = field(default_factory=RunOptions)

    def learner(self) -> Learner:
        """Return a learner of the problem, with the method that the file names.

        Returns:
            A learner without data.
        """
        return Learner(self.problem, self.method)

    def to_text(self) -> str:
        """Return problem and method as one JSON document, which `safe2real campaign init` reads.

        Returns:
            JSON.
        """
        return to_text(document_of(self.problem, self.method))

    def to_toml(self) -> str:
        """Return problem and method as one TOML document.

        Returns:
            TOML, with the same content as `to_text`.
        """
        document = document_of(self.problem, self.method)
        tables = [key for key, value in document.items() if isinstance(value, dict) and not _is_array(value)]
        lines = [f"{key} = {_in_toml(value)}" for key, value in document.items() if key not in tables]
        for key in tables:  # a key belongs to the table above it
            lines += ["", f"[{key}]", *(f"{_toml_key(name)} = {_in_toml(value)}" for name, value in document[key].items())]
        return "\n".join(lines) + "\n"


def read_spec_file(path: str | os.PathLike[str], *, allow_code: bool = True, files_anywhere: bool = False) -> SpecFile:
    """Read SPEC.toml or SPEC.json, with every file it names.

    A file from elsewhere can do two things that numbers cannot. An environment is code: `module:id` imports the module, and
    any id runs what is registered under it, with arguments from the file. And names of files can lead anywhere.

    Args:
        path: of the specification.
        allow_code: False refuses environments.
        files_anywhere: True reads files outside the specification's own folder, too.

    Returns:
        The problem, the method that its settings name, and the reality to rehearse on.

    Raises:
        InvalidInput: with the place of the mistake in the file, the value and the fix.
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
        given = _filled(given, files)
        horizon = positive_integer("horizon", given["horizon"])
        names = {key: given[key] for key in _NAMES if key in given}
        states = _states_of(given, horizon, names)
        check_size(horizon, states.kernel)
        if states.system is None:
            model = _model_of_arrays(given, names, states.kernel)
            parts = {key: given[key] for key in ("known", "within", "copies", "estimated", "ties") if key in given}
        else:
            model, parts = states.system.model, _parts_of_environment(given, states.system)
        if "support" in given:
            parts["support"] = states.kernel if given["support"] == _SIMULATOR else states.rows(given["support"], "support")
        parts["baseline"] = _baseline(given["baseline"], model, states, files)
        settings = given["settings"]
        if isinstance(settings, dict):  # a file is written by people: without a list, the refinements of today are meant
            settings = {"refinements": DEFAULT, **settings}
        return SpecFile(
            path=file,
            problem=problem_of(model, {**parts, "settings": settings}),
            method=method_in({"settings": _with_rewards(settings, states)}),
            system=states.system,
            reality=_reality(given["real"], states) if "real" in given else None,
            guess=_guess(given["guess"], states) if "guess" in given else None,
            options=_options(given.get("run", {}), states, files),
        )


def read_rollouts(model: CMDP, text: str, what: str) -> list[Trajectory]:
    """Read JSON Lines, one {"states": [...], "actions": [...]} a line, as whole episodes of `model`."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    episodes = []
    for number, line in lines:
        place = f"line {number} of {what}"
        episodes.append(episode_from_json(model, from_text(line, place), place, partial=False))
    if not episodes:
        raise InvalidInput(f"{what} holds no episode; give one JSON object with states and actions a line")
    return episodes


def numbering_of(system: FiniteSystem) -> list[dict[str, Any]]:
    """Return the environment's state behind each state of the model, in order; a controller needs it to tell episodes.

    After the end of an episode `environment_state` is None, and `cost` is the cost of every step there.
    """
    ways = sorted(system.arrivals.items(), key=lambda item: item[1])
    return [
        {
            "state": index,
            "name": system.model.legend.state(index),
            "environment_state": None if state == ENDED else state,
            "cost_on_arrival": cost,
            "ended": ended,
        }
        for (state, cost, ended), index in ways
    ]


def _is_array(value: dict[str, Any]) -> bool:
    """Whether a JSON object is a packed array."""
    return "dtype" in value


def _in_toml(value: Any) -> str:
    """Return a JSON value as TOML; texts are written alike, and tables inline."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml_key(key)} = {_in_toml(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_in_toml, value))}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _toml_key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else json.dumps(key, ensure_ascii=False)


# The file


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
    for key in _KERNELS:
        if not allowed and isinstance(given.get(key), dict) and "gymnasium" in given[key]:
            raise InvalidInput(
                f"{key}.gymnasium is {shown(given[key]['gymnasium'])}: an environment is code, and running code was not "
                "allowed here; give the rows as arrays, or read the file where you trust it"
            )


def _check_not_swallowed(document: Any) -> None:
    """Refuse top-level keys inside a table: in TOML a key belongs to the table above it."""
    for name, value in document.items() if isinstance(document, dict) else ():
        if name == "legend":  # which has `positions` of its own
            continue
        tables = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, table in tables:
            for key in _BEFORE_TABLES:
                if isinstance(table, dict) and key in table:
                    place = name if index is None else f"{name}[{index}]"
                    raise InvalidInput(
                        f"{place} has the key {key!r}, which belongs to the whole specification; write it at the top, "
                        "before the first [table]: a key below a [table] is part of it"
                    )


def _filled(value: Any, files: ArrayFiles, place: str = "", pattern: str = "") -> Any:
    """The specification with the arrays of files in the places that `_ARRAYS` lists."""
    if isinstance(value, str):
        return files.array(value, place) if pattern in _ARRAYS and value != _ENVIRONMENT else value
    if isinstance(value, list) and pattern in _LISTED:
        return [_filled(one, files, f"{place}[{i}]", f"{pattern}[]") for i, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if pattern in _KERNELS and "file" in value:
        named = check_keys(value, place, required=("file",))["file"]
        if not isinstance(named, str):
            raise InvalidInput(f"{place}.file is {shown(named)}; give the name of an .npz or .npy file")
        arrays = files.arrays(named, f"{place}.file", among=(*_LISTS, *_SIZES))
        return {key: int(one) if key in _SIZES and one.size == 1 else one for key, one in arrays.items()}
    dot, every = "." if place else "", pattern == f"settings.{METHOD}.rewards"
    return {
        key: _filled(one, files, f"{place}{dot}{key}", f"{pattern}{dot}{'*' if every else key}")
        for key, one in value.items()
    }


# States: those of the arrays, or those of an environment, over which the file's arrays are then


@dataclass(frozen=True, eq=False, slots=True)
class _States:
    """The states that the arrays of a file are over, and the simulator over the model's states."""

    kernel: Kernel
    steps: int  # of an episode
    count: int  # of the states of the arrays
    system: FiniteSystem | None = None

    def over_states(self, array: NDArray[Any], axes: int, name: str) -> NDArray[Any]:
        """Return an array [S] (`axes` 1) or [S, A] (2), steps first, over the file's states as one over the model's."""
        if self.system is None:
            return array
        axis = array.ndim - axes
        if axis not in (0, 1) or array.shape[axis] != self.count:
            raise InvalidInput(
                f"{name} has shape {array.shape}; give one entry for each of the environment's {self.count} states"
            )
        return np.moveaxis(self.system.per_state(np.moveaxis(array, axis, 0)), 0, axis)

    def rows(self, value: Any, name: str) -> Kernel:
        """Read the rows of another system of the same shape: [real] or [support]."""
        if self.system is None:
            return kernel_from_json(value, name)
        given = check_keys(value, name, required=("gymnasium",), optional=("arguments",))
        with within(name):
            return self.system.kernel_of(make_environment(given, name))

    def reward(self, value: Any, name: str) -> Floats:
        """Read a reward [S], [S, A] or [H, S, A] over the file's states as [S, A] or [H, S, A] over the model's."""
        if self.system is not None and isinstance(value, str) and value == _ENVIRONMENT:
            return self.system.unit_reward
        array = numbers_from_json(value, name)
        array = _per_pair(self.over_states(array, 1 if array.ndim == 1 else 2, name), self.kernel)
        pairs = self.kernel.num_states, self.kernel.num_actions
        if array.shape not in (pairs, (self.steps, *pairs)) or not ((array >= 0.0) & (array <= 1.0)).all():
            raise InvalidInput(
                f"{name} has shape {array.shape} and entries from {array.min(initial=0.0):g} to {array.max(initial=0.0):g}; "
                f"give numbers from 0 to 1 of shape (S,) = {pairs[:1]}, (S, A) = {pairs} or (H, S, A) = {self.steps, *pairs}"
            )
        return array.astype(np.float64)


def _per_pair(array: NDArray[Any], kernel: Kernel) -> NDArray[Any]:
    """Return [S] as [S, A], and an array of any other shape unchanged."""
    return np.repeat(array[:, None], kernel.num_actions, axis=1) if array.shape == (kernel.num_states,) else array


def _states_of(given: dict[str, Any], horizon: int, names: dict[str, Any]) -> _States:
    value = given["simulator"]
    if not isinstance(value, dict) or "gymnasium" not in value:
        kernel = kernel_from_json(value, "simulator")
        return _States(kernel, horizon, kernel.num_states)
    optional = ("arguments", *_COSTS, "paid", *_DESCRIBED, "pool_copies")
    value = check_keys(value, "simulator", required=("gymnasium",), optional=optional)
    env = make_environment(value, "simulator")
    num_states = int(env.observation_space.n)
    ties = ties_from_json(given["ties"]) if "ties" in given else None
    with within("simulator"):
        stated = {key: value[key] for key in _DESCRIBED if key in value}
        description = SystemDescription(cost=_cost(value, num_states), start=given.get("start"), **stated, **names)
        system = from_gymnasium(env, horizon, description, ties=ties)
    return _States(system.model.kernel, horizon, num_states, system)


def _cost(given: dict[str, Any], num_states: int) -> NDArray[Any] | ArrivalCost | None:
    """Return the costs of an environment, as [simulator] states them."""
    stated = [key for key in _COSTS if key in given]
    if len(stated) > 1:
        raise InvalidInput(f"simulator has {' and '.join(stated)}; keep one of them")
    paid = given.get("paid", "state")
    if paid not in ("state", "arrival"):
        raise InvalidInput(f"simulator.paid is {shown(paid)}; give one of state, arrival")
    if "unsafe_reward" in given:
        worst = finite_number("simulator.unsafe_reward", given["unsafe_reward"])
        return lambda state, action, next_state, reward, terminated: float(reward <= worst)
    if not stated:
        return None
    if "unsafe" in given:
        cost = _unsafe(given["unsafe"], "simulator.unsafe", num_states)
    else:
        cost = numbers_from_json(given["cost"], "simulator.cost")
    if paid == "state":
        return cost
    if cost.shape != (num_states,):
        raise InvalidInput(
            f"simulator.cost has shape {cost.shape}; a cost paid on arrival is one number for each of the {num_states} "
            "states, or leave out paid"
        )
    # Staying in a state is no arrival.
    return lambda state, action, next_state, reward, terminated: (
        float(cost[next_state]) if next_state != state or terminated else 0.0
    )


def _unsafe(states: Any, name: str, num_states: int) -> Floats:
    """[S] 1 for the listed states."""
    return np.isin(np.arange(num_states), whole_numbers(name, states, below=num_states, what="states")).astype(np.float64)


def make_environment(given: dict[str, Any], name: str) -> Any:
    """Make the environment that the table `name` names by `gymnasium` and `arguments`; it must have a transition table."""
    id, arguments = given["gymnasium"], given.get("arguments", {})
    if not isinstance(id, str) or not isinstance(arguments, dict):
        raise InvalidInput(
            f'{name}.gymnasium is {shown(id)} with arguments {shown(arguments)}; give an id like "FrozenLake-v1" and '
            "arguments = {map_name = ...}"
        )
    try:
        env: Any = gymnasium.make(id, **arguments)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError, KeyError, AssertionError) as error:
        raise InvalidInput(
            f"{name}.gymnasium is {id!r}, which could not be made ({error}); check the id and the arguments, and install "
            "the package that registers it. With module:id the module is imported first and must be importable: for one "
            "beside the file, go to its folder and set PYTHONPATH=."
        ) from error
    with within(f"{name}.gymnasium is {id!r}"):
        check_spaces(env)
        if getattr(env.unwrapped, "P", None) is None:
            raise InvalidInput(
                "the environment has no transition table (env.unwrapped.P), and a file can only name one that has; in "
                "Python, count episodes of it: estimate_by_running(env, ...)"
            )
    return env


# The problem


def _model_of_arrays(given: dict[str, Any], names: dict[str, Any], kernel: Kernel) -> CMDP:
    listed = given.get("constraints", [])
    if not isinstance(listed, list):
        raise InvalidInput(f"constraints is {shown(listed)}; write each one as [[constraints]]")
    constraints = [_constraint(one, f"constraints[{k}]", kernel) for k, one in enumerate(listed)]
    if names and "legend" in given:
        raise InvalidInput(f"the specification has `legend` beside {' and '.join(names)}, which say the same; keep one")
    legend = Legend.of(*map(names.get, _NAMES)) if names else given.get("legend", {})
    return model_of({**given, "simulator": kernel, "constraints": constraints, "legend": legend})


def _constraint(value: Any, name: str, kernel: Kernel) -> Any:
    """Return a constraint as the JSON document has it, from two more forms: `unsafe` states, or one number per state."""
    if not isinstance(value, dict):
        return value
    given = check_keys(
        value, name, required=(), optional=("unsafe", "cost", "limit", "utility", "threshold", "name", "is_cost")
    )
    if "unsafe" in given:
        given = check_keys(given, name, required=("unsafe", "limit"), optional=("name",))
        given["cost"] = _unsafe(given.pop("unsafe"), f"{name}.unsafe", kernel.num_states)
    arrays = {key: numbers_from_json(given[key], f"{name}.{key}") for key in ("utility", "cost") if key in given}
    return given | {key: _per_pair(array, kernel) for key, array in arrays.items()}


def _parts_of_environment(given: dict[str, Any], system: FiniteSystem) -> dict[str, Any]:
    for key in _OWN_NUMBERING:
        if key in given:
            raise InvalidInput(
                f"the specification has `{key}` beside simulator.gymnasium, which makes its own numbering of states; leave "
                "it out: cost and limit stand in [simulator], and rows after the end of an episode are known"
            )
    pooled = boolean("simulator.pool_copies", given["simulator"].get("pool_copies", False))
    tied = {} if system.ties is None else {"ties": system.ties}
    return {"known": system.known, **({"copies": system.copies} if pooled else {}), **tied}


def _baseline(value: Any, model: CMDP, states: _States, files: ArrayFiles) -> Any:
    if not isinstance(value, dict):
        return value
    forms = ("policy", "actions", "probabilities", "kind")
    form = next((key for key in reversed(forms) if key in value), None)
    if form is None:
        check_keys(value, "baseline", required=(), optional=forms)
        raise InvalidInput('baseline is empty; give policy = "uniform", policy = "file.npy", actions or probabilities')
    given = value
    if form == "policy":
        named = check_keys(value, "baseline", required=("policy",))["policy"]
        if not isinstance(named, str):
            raise InvalidInput(
                f'baseline.policy is {shown(named)}; give "uniform" or a file, and numbers as actions or probabilities'
            )
        if named == "uniform":
            uniform = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
            return {"kind": "stochastic", "probabilities": uniform.probabilities}
        array = files.array(named, "baseline.policy")
        form = "actions" if array.dtype.kind in "iu" else "probabilities"  # whole numbers are actions
        given = {form: array}
    if form == "actions":
        given = {"kind": "deterministic", "num_actions": model.num_actions, **given}
    elif form == "probabilities":
        given = {"kind": "stochastic", **given}
    for key, axes in (("actions", 1), ("probabilities", 2)):
        if key in given:
            place = f"baseline.{key}"
            given = given | {key: states.over_states(numbers_from_json(given[key], place), axes, place)}
    return given


def _with_rewards(settings: Any, states: _States) -> Any:
    """The settings with the rewards that their algorithm declares, read like those of [run]."""
    method = settings.get(METHOD) if isinstance(settings, dict) else None
    if not isinstance(method, dict) or method.get("kind") != ForRewards.name or not isinstance(method.get("rewards"), dict):
        return settings  # the method itself refuses settings that do not fit it
    place = f"settings.{METHOD}.rewards"
    rewards = {name: states.reward(one, f"{place}.{name}") for name, one in method["rewards"].items()}
    return {**settings, METHOD: {**method, "rewards": rewards}}


# The reality to rehearse on, and the options


def _reality(value: Any, states: _States) -> Kernel:
    real = states.rows(value, "real")
    expected, found = [(one.horizon, one.num_states, one.num_actions) for one in (states.kernel, real)]
    if expected != found:
        raise InvalidInput(
            f"real is for (H, S, A) = {found} and the simulator for {expected} (H is None for rows that do not change with "
            "the step); give both the same shape"
        )
    return real


def _guess(value: Any, states: _States) -> Guess:
    given = check_keys(value, "guess", required=(), optional=("rows", "states", "gap", "seed"))
    if "rows" in given and "states" in given:
        raise InvalidInput("guess has rows and states; keep one of them")
    rows = given.pop("rows", None)
    if "states" in given:
        listed = whole_numbers("guess.states", given.pop("states"), below=states.count, what="states")
        origin = np.arange(states.count) if states.system is None else states.system.origin
        rows = np.repeat(np.isin(origin, listed)[:, None], states.kernel.num_actions, axis=1)
    elif rows is not None and not is_whole(rows):
        rows = numbers_from_json(rows, "guess.rows")
    return Guess(rows=rows, **given)


def _options(value: Any, states: _States, files: ArrayFiles) -> RunOptions:
    given = check_keys(value, "run", required=(), optional=tuple(RunOptions.__dataclass_fields__))
    if "out" in given:
        if not isinstance(given["out"], str) or not given["out"]:
            raise InvalidInput(f"run.out is {shown(given['out'])}; give the name of a folder")
        given["out"] = files.place(given["out"], "run.out")
    if "rewards" in given:
        listed = given["rewards"]
        single = _is_one_reward(listed, (states.steps, states.count, states.kernel.num_actions))
        named = [("run.rewards", listed)] if single else [(f"run.rewards[{i}]", one) for i, one in enumerate(listed)]
        given["rewards"] = tuple(states.reward(one, name) for name, one in named)
    return RunOptions(**given)


def _is_one_reward(value: Any, sizes: tuple[int, int, int]) -> bool:
    """Whether this is one reward, not a list of them; one, where it could be either. `sizes` are (H, S, A)."""
    if not isinstance(value, list):
        return True
    if any(isinstance(one, (str, np.ndarray)) for one in value):  # names of rewards, or files
        return False
    try:
        array = np.asarray(value)
    except ValueError:  # ragged: arrays of different shapes
        return False
    numbers = array.dtype.kind in "iufb" and array.size > 0
    return numbers and (array.ndim == 1 or array.shape in (sizes[1:], sizes))
