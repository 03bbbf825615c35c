"""A running environment whose observations are states of s' = f(s, a, w), in numbers; reported noise is held against f."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import gymnasium
import numpy as np

from safe2real.errors import InvalidInput, OutsideModel
from safe2real.model.cmdp import CMDP
from safe2real.model.validation import shown
from safe2real.problem.ties import Ties

NOISE = "noise"
"""Where an environment's `info` says which noise was drawn."""


class DynamicsEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment seen in the numbers of `Dynamics`: Discrete spaces, episodes of exactly H steps."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        model: CMDP,
        ties: Ties,
        *,
        states: Sequence[Hashable],
        actions: Sequence[Hashable],
        noise: Sequence[Hashable],
    ) -> None:
        if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
            raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment, e.g. gymnasium.make(...)")
        super().__init__(env)
        self.model, self.ties = model, ties
        self.observation_space = gymnasium.spaces.Discrete(model.num_states)
        self.action_space = gymnasium.spaces.Discrete(model.num_actions)
        self._states = {state: number for number, state in enumerate(states)}
        self._labels = {label: number for number, label in enumerate(noise)}
        self._actions = tuple(actions)
        self._state = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        observed, info = self.env.reset(seed=seed, options=options)
        self._state, self._step = self._number(observed), 0
        return self._state, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        observed, reward, terminated, truncated, info = self.env.step(self._actions[action])
        self._step += 1
        last = self._step >= self.model.steps
        if (terminated or truncated) and not last:
            raise InvalidInput(
                f"the environment ended the episode after {self._step} steps, before the horizon of {self.model.steps}; "
                "let it go on in an absorbing state, or make it with max_episode_steps of at least the horizon"
            )
        before, self._state = self._state, self._number(observed)
        if NOISE in info:
            info = {**info, NOISE: self._label(info[NOISE], before, int(action))}
        return self._state, float(reward), False, last, info

    def _number(self, observation: Any) -> int:
        key = key_of(observation)
        if not isinstance(key, Hashable) or key not in self._states:
            raise OutsideModel(f"an observation is {shown(observation)}, which is none of the {len(self._states)} states")
        return self._states[key]

    def _label(self, given: Any, state: int, action: int) -> int:
        """The number of the label that was reported for a step from `state`, which f must lead to where it led."""
        key = key_of(given)
        if not isinstance(key, Hashable) or key not in self._labels:
            raise InvalidInput(
                f"info[{NOISE!r}] is {shown(given)}, which is none of the {len(self._labels)} values of noise; report the "
                "one that was drawn, or nothing"
            )
        label = self._labels[key]
        after = np.asarray(self.ties.successors)[..., state, action, label].reshape(-1)[0]
        if after != self._state:
            leads = "which cannot happen there" if after < 0 else f"which leads to state {after}"
            raise OutsideModel(
                f"from state {state} with action {action} the environment went to state {self._state} and reported the "
                f"noise {given!r}, {leads}; the step that was declared is not the system's"
            )
        return label


def key_of(value: Any) -> Any:
    """What a state, an action or a label is known by: plain numbers for NumPy's, tuples for lists and arrays."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, list)):
        return tuple(key_of(one) for one in value) if np.ndim(value) else key_of(np.asarray(value)[()])
    return value
