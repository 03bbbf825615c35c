"""What was seen of an episode, checked against the system and against the policy that was run; and as JSON.

An episode object is {"states": [...], "actions": [...]} with one state more than actions. Where the real system went where
the model has no state, the last action has no outcome: {"states": ..., "actions": ..., "left_model": true} has as many of
both, and none of either where already the beginning was in no state of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import frozen, shown, whole_numbers

_LEFT = '{"states": [...], "actions": [...], "left_model": true}'
_LONGEST_ID = 200


@dataclass(frozen=True, eq=False, slots=True)
class Seen:
    """One episode as it is recorded."""

    path: Trajectory  # states [n + 1] and actions [n]; with `left_model` as many actions as states, possibly none
    left_model: bool = False  # the last action, or the beginning, led where the model has no state
    id: str | None = None  # what a log calls the episode

    @property
    def transitions(self) -> int:
        return max(0, self.path.states.size - 1)

    def to_json(self) -> dict[str, Any]:
        """What is stored; the same episode always gives the same text."""
        content: dict[str, Any] = {"states": self.path.states.tolist(), "actions": self.path.actions.tolist()}
        if self.left_model:
            content["left_model"] = True
        return content if self.id is None else {**content, "id": self.id}


def is_pair(value: Any) -> bool:
    """Whether it may be (states, actions)."""
    return isinstance(value, tuple) and len(value) == 2


def check_told(value: Any) -> None:
    """Refuse what `tell` cannot record, in words for a worker, which has states and actions and no model.

    Raises:
        InvalidInput: It is neither a pair nor a `Trajectory`.
    """
    if not isinstance(value, Trajectory) and not is_pair(value):
        kind = f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
        raise InvalidInput(
            f"the episode is {kind}; give the pair (states, actions), with one state more than actions, or with as many of "
            "both if it left the model (left_model=True); an object with the keys states and actions is told with tell_json"
        )


def seen_in(model: CMDP, states: ArrayLike, actions: ArrayLike, *, partial: bool, left_model: bool) -> Seen:
    """What was seen, checked against `model`; it may begin anywhere, since what happened is recorded and not argued with."""
    try:
        if left_model:
            return Seen(_before_leaving(model, states, actions), True)
        return Seen(Trajectory.of(model, states, actions, partial=partial, any_start=True))
    except InvalidInput as error:
        if not _goes_outside(model, states):
            raise
        cure = f"give what came before it as {_LEFT}" if not left_model else "leave it out: what is given comes before it"
        raise InvalidInput(f"{error}. If the real system went where the model has no state, {cure}") from error


def seen_from(model: CMDP, value: Any, where: str, *, partial: bool, left_model: bool = False, of_log: bool = False) -> Seen:
    """An episode from a `Trajectory`, a pair (states, actions) or an object; objects `of_log` may have an `id`."""
    if isinstance(value, Trajectory):
        return seen_in(model, value.states, value.actions, partial=partial, left_model=left_model)
    if is_pair(value):
        return seen_in(model, *value, partial=partial, left_model=left_model)
    optional = {"left_model", "id"} if of_log else {"left_model"}
    _check_lists(value, where, optional)
    said, id = value.get("left_model", False), value.get("id")
    if type(said) is not bool:
        raise InvalidInput(f"{where}.left_model is {shown(said)}; give true or false")
    if "id" in value and not (isinstance(id, str) and id.isprintable() and id.strip() and len(id) <= _LONGEST_ID):
        raise InvalidInput(f"{where}.id is {shown(id)}; give a text of 1 to {_LONGEST_ID} printable characters")
    try:
        seen = seen_in(model, value["states"], value["actions"], partial=partial, left_model=said or left_model)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    return Seen(seen.path, seen.left_model, id)


def episode_from_json(model: CMDP, value: Any, where: str, *, partial: bool) -> Trajectory:
    """An object {"states": [...], "actions": [...]} as a trajectory of `model`, which begins where its episodes do."""
    _check_lists(value, where, set())
    try:
        return Trajectory.of(model, value["states"], value["actions"], partial=partial)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def leaves(model: CMDP, content: Any) -> bool:
    """Whether a recorded episode was somewhere that the model does not have, its beginning included."""
    if content.get("left_model", False):
        return True
    first = content["states"][0]
    return not 0 <= first < model.num_states or bool(model.start[first] == 0.0)


def outside_support(support: Kernel, content: Any) -> int:
    """Transitions of a recorded episode that a declared support rules out."""
    states, actions, found = content["states"], content["actions"], 0
    for step, (state, action, following) in enumerate(zip(states, actions, states[1:], strict=False)):
        row = (0 if support.is_stationary else step * support.num_states * support.num_actions) + state * support.num_actions
        if 0 <= row + action < support.num_rows:  # else the record was changed, which is said where it is counted
            found += following not in support.row(row + action)[0]
    return found


def transitions_in(content: Any) -> int:
    """Transitions of a recorded episode."""
    return max(0, len(content["states"]) - 1)


def _before_leaving(model: CMDP, states: ArrayLike, actions: ArrayLike) -> Trajectory:
    visited = whole_numbers("states", states, below=model.num_states, what="states")
    chosen = whole_numbers("actions", actions, below=model.num_actions, what="actions")
    if visited.ndim != 1 or visited.shape != chosen.shape or chosen.size > model.steps:
        raise InvalidInput(
            "an episode that left the model ends with the action whose outcome has no state: as many states as actions, at "
            f"most {model.steps} of each, and none where it began outside; got shapes {visited.shape} and {chosen.shape}"
        )
    return Trajectory(frozen(visited.astype(np.uint32)), frozen(chosen.astype(np.uint32)))


def _goes_outside(model: CMDP, states: Any) -> bool:
    """Whether one of the states is a whole number that the model does not have."""
    entries = states if isinstance(states, list | tuple) else np.asarray(states).reshape(-1).tolist()
    return any(_is_whole(entry) and not 0 <= entry < model.num_states for entry in entries)


def _is_whole(entry: Any) -> bool:
    """Many languages write 1.0 for 1: it is the same number here as in Python."""
    return type(entry) is int or (type(entry) is float and entry.is_integer())


def _check_lists(value: Any, where: str, optional: set[str]) -> None:
    if not isinstance(value, dict) or not {"states", "actions"} <= set(value) <= {"states", "actions"} | optional:
        found = f"an object with the keys {shown(list(value))}" if isinstance(value, dict) else shown(value)
        more = f", with {' and '.join(sorted(optional))} if you like" if optional else ""
        raise InvalidInput(f'{where} is {found}; give {{"states": [...], "actions": [...]}}{more}')
    for name in ("states", "actions"):
        entries = value[name]
        if not isinstance(entries, list):
            raise InvalidInput(f"{where}.{name} is {shown(entries)}; give a list of whole numbers, one for each step")
        wrong = next((index for index, entry in enumerate(entries) if not _is_whole(entry)), None)
        if wrong is not None:
            raise InvalidInput(f"{where}.{name}[{wrong}] is {shown(entries[wrong])}; give a whole number")
