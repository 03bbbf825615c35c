"""What a specification file says about its rehearsal: the tables [guess] and [run]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.serialization import check_keys, numbers_from_json
from safe2real.model.validation import Floats, positive_integer, seed_number, shown, whole_numbers
from safe2real.preflight.array_files import ArrayFiles
from safe2real.preflight.guess import Guess, Towards
from safe2real.preflight.spec_gymnasium import Environment
from safe2real.problem.document import METHOD


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
