"""A whole study in one file: SPEC.toml or SPEC.json holds what a `Problem` does, and what to rehearse it on.

Both forms have the same keys; the JSON document of campaigns is one of them. Any array may be nested lists, a packed array,
"file.npy" or "file.npz:name", relative to the file. What is read here is shaped and ranged by `Problem`; whether a
guarantee can hold is the business of `check_problem` and of `Problem.learner`.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real.campaign.episodes import episode_from_json
from safe2real.errors import InvalidInput
from safe2real.methods.base import Method
from safe2real.methods.for_rewards import ForRewards
from safe2real.methods.named import method_in
from safe2real.model.archive import names_in, read_npy, read_npz
from safe2real.model.cmdp import CMDP
from safe2real.model.input_size import check_bytes
from safe2real.model.kernel import Kernel
from safe2real.model.names import Legend
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import bounded, check_keys, check_unpacked, from_text, numbers_from_json, within
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import Floats, boolean, finite_number, positive_integer, seed_number, shown, whole_numbers
from safe2real.preflight.hypothetical_reality import Guess, Towards
from safe2real.problem.document import METHOD, OPTIONAL, REQUIRED, check_no_method, check_size, kernel_from_json
from safe2real.problem.problem import Problem
from safe2real.problem.ties import Ties, ties_from_json
from safe2real.refinements import DEFAULT
from safe2real.systems.arrival_costs import ENDED, ArrivalCost
from safe2real.systems.finite import FiniteSystem, from_gymnasium
from safe2real.systems.finite_env import check_spaces
from safe2real.systems.measure import clone_baseline


@dataclass(frozen=True, eq=False, slots=True)
class RunOptions:
    """The table [run]: how `safe2real run` rehearses."""

    max_rounds: int = 5_000
    growth: float = 0.02  # of the deployments handed out so far, in one batch of one proposal
    seed: int = 1  # of reality
    plans: int = 3  # random rewards to plan for, where `rewards` names none
    rewards: tuple[Floats, ...] = ()  # each [S, A] or [H, S, A]
    out: Path | None = None


def per_pair(array: NDArray[Any], num_states: int, num_actions: int) -> NDArray[Any]:
    """[S] as [S, A]; any other shape as it is, for its user to check."""
    return np.repeat(array[:, None], num_actions, axis=1) if array.shape == (num_states,) else array


def guess_of(value: Any, kernel: Kernel, files: ArrayFiles, environment: Environment | None) -> Guess:
    """The table [guess]."""
    given = check_keys(value, "guess", required=(), optional=("rows", "pairs", "states", "gap", "towards", "seed"))
    listed = [key for key in ("rows", "pairs", "states") if key in given]
    if len(listed) > 1:
        raise InvalidInput(f"guess has {' and '.join(listed)}; keep one of them")
    towards = given.get("towards", Towards.NEAREST.value)
    if towards not in list(Towards):
        raise InvalidInput(f"guess.towards is {shown(towards)}; give one of {', '.join(Towards)}")
    rows = files.maybe(given.get("rows"), "guess.rows")
    if "states" in given or "pairs" in given:
        rows = _marked(given, kernel, environment)
    elif rows is not None and not (isinstance(rows, int) and not isinstance(rows, bool)):
        rows = numbers_from_json(rows, "guess.rows")
    return Guess(rows=rows, gap=given.get("gap"), towards=Towards(towards), seed=seed_number("seed", given.get("seed", 0)))


def _marked(given: dict[str, Any], kernel: Kernel, environment: Environment | None) -> NDArray[np.bool_]:
    """[S, A], true for the listed states, or pairs of a state and an action."""
    origin = np.arange(kernel.num_states) if environment is None else environment.system.origin
    below = kernel.num_states if environment is None else environment.num_states
    if "states" in given:
        states = whole_numbers("guess.states", given["states"], below=below, what="states")
        return np.repeat(np.isin(origin, states)[:, None], kernel.num_actions, axis=1)
    pairs = numbers_from_json(given["pairs"], "guess.pairs")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInput(f"guess.pairs is {shown(given['pairs'])}; list pairs like [[3, 0], [7, 2]]: state, action")
    states = whole_numbers("guess.pairs[:, 0]", pairs[:, 0], below=below, what="states")
    actions = whole_numbers("guess.pairs[:, 1]", pairs[:, 1], below=kernel.num_actions, what="actions")
    marked = np.zeros((kernel.num_states, kernel.num_actions), dtype=np.bool_)
    for state, action in zip(states, actions, strict=True):
        marked[origin == state, action] = True
    return marked


def options_of(value: Any, model: CMDP, files: ArrayFiles, environment: Environment | None) -> RunOptions:
    """The table [run]."""
    given = check_keys(value, "run", required=(), optional=("max_rounds", "growth", "seed", "plans", "rewards", "out"))
    for key in ("max_rounds", "plans"):
        if key in given:
            positive_integer(f"run.{key}", given[key])
    if "seed" in given:
        seed_number("run.seed", given["seed"])
    growth = given.get("growth", 0.0)
    if isinstance(growth, bool) or not isinstance(growth, (int, float)) or not 0.0 <= growth <= 1.0:
        raise InvalidInput(f"run.growth is {shown(growth)}; give a fraction from 0 (one deployment at a time) to 1")
    if "out" in given:
        if not isinstance(given["out"], str) or not given["out"]:
            raise InvalidInput(f"run.out is {shown(given['out'])}; give the name of a folder")
        given["out"] = files.place(given["out"], "run.out")
    if "rewards" in given:
        listed = given["rewards"]
        states = model.num_states if environment is None else environment.num_states
        single = _is_one_reward(listed, (model.steps, states, model.num_actions))
        named = [("run.rewards", listed)] if single else [(f"run.rewards[{i}]", one) for i, one in enumerate(listed)]
        given["rewards"] = tuple(_reward(one, name, model, files, environment) for name, one in named)
    return RunOptions(**given)


def with_rewards(given: dict[str, Any], model: CMDP, files: ArrayFiles, environment: Environment | None) -> dict[str, Any]:
    """The specification with the arrays of the rewards that settings.algorithm declares, read like those of [run]."""
    settings = given["settings"]
    method = settings.get(METHOD) if isinstance(settings, dict) else None
    if not isinstance(method, dict) or method.get("kind") != ForRewards.name:
        return given
    rewards = method.get("rewards")
    if not isinstance(rewards, dict):
        return given  # which the method itself refuses
    place = f"settings.{METHOD}.rewards"
    read = {name: _reward(one, f"{place}.{name}", model, files, environment) for name, one in rewards.items()}
    return {**given, "settings": {**settings, METHOD: {**method, "rewards": read}}}


def _is_one_reward(value: Any, sizes: tuple[int, int, int]) -> bool:
    """Whether this is one reward, not a list of them; one, where it could be either. `sizes` are (H, S, A)."""
    if not isinstance(value, list):
        return True
    try:
        array = np.asarray(value)
    except ValueError:  # ragged: arrays of different shapes
        return False
    if array.dtype.kind not in "iufb" or not array.size:
        return False
    shapes = (sizes[1:2], sizes[1:], sizes)
    return array.shape in shapes or array.shape[1:] not in shapes


def _reward(value: Any, name: str, model: CMDP, files: ArrayFiles, environment: Environment | None) -> Floats:
    if environment is not None and value == "environment":
        return environment.system.unit_reward
    array = numbers_from_json(files.maybe(value, name), name)
    if environment is not None:
        array = environment.over_states(array, 1 if array.ndim == 1 else 2, name)
    array = per_pair(array, model.num_states, model.num_actions)
    shapes = ((model.num_states, model.num_actions), (model.steps, model.num_states, model.num_actions))
    if array.shape not in shapes or not ((array >= 0.0) & (array <= 1.0)).all():
        raise InvalidInput(
            f"{name} has shape {array.shape} and entries from {array.min(initial=0.0):g} to {array.max(initial=0.0):g}; "
            f"give numbers from 0 to 1 of shape (S,) = {shapes[0][:1]}, (S, A) = {shapes[0]} or (H, S, A) = {shapes[1]}"
        )
    return array.astype(np.float64)


_SUFFIXES = (".npy", ".npz")
_LISTED = 12  # names in a message


@dataclass(slots=True)
class ArrayFiles:
    """Reads the files that a specification names; their names are relative to its folder.

    A specification may come from elsewhere: unless `anywhere` is set, it reads nothing outside its own folder, links
    followed. What it makes us read, one file as often as it is named, is weighed together against one limit.
    """

    folder: Path
    anywhere: bool = False
    _taken: int = field(default=0, init=False)  # bytes, of all arrays read so far

    def maybe(self, value: Any, key: str) -> Any:
        """The array of a file where `value` names one; else `value` as it is."""
        return self.array(value, key) if isinstance(value, str) else value

    def array(self, named: str, key: str) -> NDArray[Any]:
        """The array behind "file.npy", "file.npz:name", or "file.npz" with one array in it; `key` is where it was named."""
        file, _, name = named.partition(".npz:")
        if name:
            arrays = self._read(f"{file}.npz", key, only=name)
            if name not in arrays:
                held = _some(self._names(f"{file}.npz", key))
                raise InvalidInput(f"{key} is {named!r}, but that file has no array {name!r}; it has {held}")
            return arrays[name]
        names = self._names(named, key)
        if len(names) != 1:
            raise InvalidInput(
                f"{key} is {named!r}, which holds {_some(names)}; say which one, like "
                f"{named + ':' + next(iter(names), 'name')!r}"
            )
        return next(iter(self._read(named, key).values()))

    def arrays(self, named: str, key: str, *, among: set[str]) -> dict[str, NDArray[Any]]:
        """Every array of an .npz file by its name, if all the names are `among` these, else none of them.

        The one of an .npy file is called "transition", as a kernel's is.
        """
        return self._read(named, key) if set(self._names(named, key)) <= among else {}

    def text(self, named: str, key: str) -> str:
        """A text file, such as episodes as JSON Lines."""
        path = self.place(named, key)
        self._must_exist(path, named, key)
        try:
            with path.open("rb") as file:
                return bounded(file, f"{key}, the file {named!r},").decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{key} is {named!r}, which cannot be read ({error}); give UTF-8 text") from error

    def place(self, named: str, key: str) -> Path:
        """Where a name leads; not out of the specification's folder unless that is allowed."""
        if "\0" in named or not named:
            raise InvalidInput(
                f"{key} is {named!r}, which names no file; give a name relative to the specification's folder"
            )
        path = self.folder / named
        try:
            inside = self.anywhere or path.resolve().is_relative_to(self.folder.resolve())
        except (OSError, RuntimeError) as error:  # links that lead in a circle, a name that is too long
            raise InvalidInput(f"{key} is {named[:100]!r}, which leads nowhere ({error}); mend the name") from error
        if not inside:
            raise InvalidInput(
                f"{key} is {named!r}, which leads out of the folder of the specification; put the file there, or, if you "
                "trust the specification, allow files anywhere: --files-anywhere, or files_anywhere=True"
            )
        return path

    def _names(self, named: str, key: str) -> list[str]:
        path = self._checked(named, key)
        if path.suffix == ".npy":
            return ["transition"]
        with within(f"{key} is {named!r}"), _readable():
            return names_in(path)

    def _read(self, named: str, key: str, only: str | None = None) -> dict[str, NDArray[Any]]:
        path = self._checked(named, key)
        with within(f"{key} is {named!r}"), _readable():
            if path.suffix == ".npy":
                return {"transition": read_npy(path, self._weigh)}
            return read_npz(path, self._weigh, only)

    def _weigh(self, what: str, size: int) -> None:
        check_bytes(f"{what} with what was read before it" if self._taken else what, self._taken + size)
        self._taken += size

    def _checked(self, named: str, key: str) -> Path:
        path = self.place(named, key)
        if path.suffix not in _SUFFIXES:
            raise InvalidInput(
                f"{key} is {named!r}; arrays are in .npy files (numpy.save) or .npz files (numpy.savez): "
                "save it as one, or write the numbers here as nested lists"
            )
        self._must_exist(path, named, key)
        return path

    def _must_exist(self, path: Path, named: str, key: str) -> None:
        if path.is_file():
            return
        beside = sorted(file for file in path.parent.iterdir() if file.is_file()) if path.parent.is_dir() else []
        # Endings are alike anyway: only the names before them tell what is meant.
        by_stem = {file.stem: file.name for file in beside}
        near = difflib.get_close_matches(path.stem, by_stem, 1, cutoff=0.7)
        hint = f" (did you mean {by_stem[near[0]]!r}?)" if near else ""
        raise InvalidInput(
            f"{key} is {named!r}, a file that is not there{hint}; looked for {path}. Put it there, or mend the name: names "
            "are relative to the specification's folder"
        )


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"the file cannot be read ({error.strerror}); check the permissions") from error


def _some(names: Any) -> str:
    listed = sorted(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "") if listed else "no array at all"


_ARRAYS = ("classes", "successors", "laws")


def ties_of(given: dict[str, Any], files: ArrayFiles) -> Ties | None:
    """[ties], its arrays read from files; None where the file has none."""
    value = given.get("ties")
    if isinstance(value, dict):
        value = {key: files.maybe(one, f"ties.{key}") if key in _ARRAYS else one for key, one in value.items()}
    return ties_from_json(value) if "ties" in given else None


_PAID = ("state", "arrival")
_COSTS = ("cost", "unsafe", "unsafe_reward")


@dataclass(frozen=True, eq=False, slots=True)
class Environment:
    """The simulator's environment as a finite system; arrays of the file are over the environment's own states."""

    system: FiniteSystem
    num_states: int  # of the environment
    pools_copies: bool = False  # whether what is seen in one copy of a state counts for all

    def over_states(self, array: NDArray[Any], axes: int, name: str) -> NDArray[Any]:
        """[S] (`axes` 1) or [S, A] (2) over the environment's states, or with steps before it, as one over the model's."""
        axis = array.ndim - axes
        if axis not in (0, 1) or array.shape[axis] != self.num_states:
            raise InvalidInput(
                f"{name} has shape {array.shape}; give one entry for each of the environment's {self.num_states} states"
            )
        return np.moveaxis(self.system.per_state(np.moveaxis(array, axis, 0)), 0, axis)

    def reality(self, value: Any, name: str = "real") -> Kernel:
        """The rows of the environment that [real], or another table of that `name`, names."""
        given = check_keys(value, name, required=("gymnasium",), optional=("arguments",))
        with within(name):
            return self.system.kernel_of(_made(given, name))


def environment_of(
    value: Any, horizon: int, start: Any, files: ArrayFiles, ties: Ties | None = None, names: Mapping[str, Any] | None = None
) -> Environment | None:
    """The system of [simulator] where that names an environment; None where it holds arrays."""
    if not isinstance(value, dict) or "gymnasium" not in value:
        return None
    given = check_keys(
        value,
        "simulator",
        required=("gymnasium",),
        optional=("arguments", *_COSTS, "paid", "limit", "ended", "name", "drop_unreachable", "pool_copies"),
    )
    stated = [key for key in _COSTS if key in given]
    if len(stated) > 1:
        raise InvalidInput(f"simulator has {' and '.join(stated)}; keep one of them")
    env = _made(given, "simulator")
    num_states = int(env.observation_space.n)
    cost = _cost(given, num_states, files)
    paid = given.get("paid", "state")
    if paid not in _PAID:
        raise InvalidInput(f"simulator.paid is {shown(paid)}; give one of {', '.join(_PAID)}")
    if paid == "arrival" and isinstance(cost, np.ndarray):
        cost = _on_arrival(cost, num_states)
    ended = files.maybe(given.get("ended"), "simulator.ended")
    with within("simulator"):
        system = from_gymnasium(
            env,
            horizon,
            cost=cost,
            limit=given.get("limit"),
            ended=ended,
            start=start,
            drop_unreachable=boolean("simulator.drop_unreachable", given.get("drop_unreachable", False)),
            name=str(given.get("name", "cost")),
            ties=ties,
            **(names or {}),
        )
    return Environment(system, num_states, boolean("simulator.pool_copies", given.get("pool_copies", False)))


def _cost(given: dict[str, Any], num_states: int, files: ArrayFiles) -> NDArray[Any] | ArrivalCost | None:
    if "unsafe_reward" in given:
        worst = finite_number("simulator.unsafe_reward", given["unsafe_reward"])
        return lambda state, action, next_state, reward, terminated: float(reward <= worst)
    if "unsafe" in given:
        unsafe = whole_numbers("simulator.unsafe", given["unsafe"], below=num_states, what="states")
        return np.isin(np.arange(num_states), unsafe).astype(np.float64)
    if "cost" not in given:
        return None
    named = given["cost"]
    array = files.array(named, "simulator.cost") if isinstance(named, str) else named
    return numbers_from_json(array, "simulator.cost")


def _on_arrival(cost: NDArray[Any], num_states: int) -> ArrivalCost:
    """The cost of the next state, paid once when it is entered."""
    if cost.shape != (num_states,):
        raise InvalidInput(
            f"simulator.cost has shape {cost.shape}; what is paid on arrival is one number for each of the {num_states} "
            "states, or leave out paid"
        )

    def paid(state: int, action: int, next_state: int, reward: float, terminated: bool) -> float:
        # To stay where one is, is no arrival.
        return float(cost[next_state]) if next_state != state or terminated else 0.0

    return paid


def _made(given: dict[str, Any], name: str) -> Any:
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
                "Python, sample it with estimate_model(env, ...)"
            )
    return env


def numbering_of(system: FiniteSystem) -> list[dict[str, Any]]:
    """What each state of the model stands for, in order; a controller needs it to tell episodes.

    After the end of an episode `environment_state` is None, and `cost` is what every step there costs.
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
        tied = ties if environment is None else environment.system.ties
        plain |= {} if tied is None else {"ties": tied}
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
