"""A running environment, usually the real one, seen as a finite system."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import gymnasium

from safe2real.errors import InvalidInput, StepLimit
from safe2real.model.validation import shown
from safe2real.systems.arrival_costs import cost_on_arrival
from safe2real.systems.enumerated import WHOLE

if TYPE_CHECKING:
    from safe2real.systems.finite import FiniteSystem


class FiniteEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment seen as a `FiniteSystem`: Discrete spaces, and episodes of exactly H steps.

    After the end of the environment's episode the wrapper goes on alone, in the absorbing state.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], system: FiniteSystem) -> None:
        check_spaces(env)
        super().__init__(env)
        self.system = system
        self.observation_space = gymnasium.spaces.Discrete(system.model.num_states)
        self.action_space = gymnasium.spaces.Discrete(system.model.num_actions)
        sizes = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
        if sizes != (system.ended.size, system.model.num_actions):
            raise InvalidInput(
                f"the environment has {sizes[0]} states and {sizes[1]} actions; this system was made for "
                f"{system.ended.size} and {system.model.num_actions}: give the environment that it was made for, or, where "
                "the sizes were read off a log, num_states= and num_actions= to estimate_model"
            )
        self._first_action = first_of(env.action_space)
        self._state = self._seen = self._step = 0  # the environment's state, the system's, and steps done
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        state, info = self.env.reset(seed=seed, options=options)
        self._state, self._step, self._over = self._number(state), 0, False
        self._seen = self.system.state_of(self._state)
        return self._seen, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._step += 1
        last = self._step >= self.system.model.steps
        if self._over:
            self._seen = self.system.after_end_of(self._seen)
            return self._seen, 0.0, False, last, {}
        observed, reward, terminated, truncated, info = self.env.step(action + self._first_action)
        if truncated and not terminated and not last:
            raise StepLimit(
                f"the environment cut the episode off after {self._step} steps, before the horizon of "
                f"{self.system.model.steps}; make it with max_episode_steps={self.system.model.steps} or more"
            )
        state, given = self._number(observed), self.system.arrival_cost
        cost = 0.0 if given is None else cost_on_arrival(given, self._state, int(action), state, float(reward), terminated)
        self._state, self._over = state, bool(terminated)
        self._seen = self.system.state_of(state, cost, self._over)
        return self._seen, float(reward), False, last, info

    def _number(self, observation: Any) -> int:
        return state_number(observation, first_of(self.env.observation_space))


def state_number(observation: Any, first: int) -> int:
    """The state that an observation of a Discrete space shows, counted from 0; `first` is the space's first number."""
    try:
        return index(observation) - first
    except TypeError as error:
        raise InvalidInput(
            f"an observation is {shown(observation)}; a state is a whole number: wrap the environment first, "
            "safe2real.systems.Discretised(env, bins=...)"
        ) from error


def first_of(space: Any) -> int:
    """The number from which a Discrete space counts."""
    return int(getattr(space, "start", 0))


def check_spaces(env: Any) -> None:
    """Refuse what is not an environment with Discrete observations and actions."""
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment, e.g. gymnasium.make(...)")
    for what, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not isinstance(space, gymnasium.spaces.Discrete):
            whole = isinstance(space, (*WHOLE, gymnasium.spaces.Tuple, gymnasium.spaces.Dict))
            how = "Enumerated(env), which numbers them" if whole else "Discretised(env, bins=...)"
            raise InvalidInput(
                f"the {what} space of {name_of(env)} is {shown(space)}, not Discrete; wrap the environment first: "
                f"safe2real.systems.{how}"
            )


def name_of(env: Any) -> str:
    return type(getattr(env, "unwrapped", env)).__name__
