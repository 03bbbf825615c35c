"""Episodes as JSON, checked against the system and against the policy that was run."""

from __future__ import annotations

from typing import Any

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.model.checks import shown
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import Trajectory


def episode_to_json(trajectory: Trajectory) -> dict[str, list[int]]:
    return {"states": trajectory.states.tolist(), "actions": trajectory.actions.tolist()}


def episode_from_json(model: CMDP, value: Any, where: str, *, partial: bool) -> Trajectory:
    """An object {"states": [...], "actions": [...]} as a trajectory of `model`."""
    if not isinstance(value, dict) or set(value) != {"states", "actions"}:
        found = f"an object with the keys {shown(list(value))}" if isinstance(value, dict) else shown(value)
        raise InvalidInput(f'{where} is {found}; give {{"states": [...], "actions": [...]}}')
    for name in ("states", "actions"):
        entries = value[name]
        if not isinstance(entries, list):
            raise InvalidInput(f"{where}.{name} is {shown(entries)}; give a list of whole numbers, one for each step")
        wrong = next((index for index, entry in enumerate(entries) if type(entry) is not int), None)
        if wrong is not None:
            raise InvalidInput(f"{where}.{name}[{wrong}] is {shown(entries[wrong])}; give a whole number")
    try:
        return Trajectory.of(model, value["states"], value["actions"], partial=partial)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def check_actions(policy: MarkovPolicy, trajectory: Trajectory, where: str) -> None:
    """Refuse an episode in which the policy would not have acted so: it comes from another deployment."""
    steps, states, actions = np.arange(trajectory.length), trajectory.states[:-1], trajectory.actions
    if policy.actions is not None:
        possible = policy.actions[steps, states] == actions
    else:
        possible = policy.probabilities[steps, states, actions] > 0.0
    if not possible.all():
        h = int(np.argmin(possible))
        raise InvalidInput(
            f"{where}: actions[{h}] is {actions[h]} in state {states[h]}, which its policy never does there; "
            "was the episode told for another deployment, or did the machine not follow the policy?"
        )
