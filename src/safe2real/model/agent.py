"""A policy that acts: one call for each step, in the words of the environment it acts in.

A mixture is drawn once, at the beginning of an episode, and followed to its end: that is what certificates speak of. The
agent counts the steps, and keeps track of the state of the model, which an observation alone need not show. How
observations and actions are states and actions of the model is a `Translation`, which systems have (`system.translation`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from safe2real.errors import InvalidInput, OutOfOrder, OutsideModel
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, Mixture, carried_out, fitted
from safe2real.model.validation import is_whole, seed_number, shown


class Translation(Protocol):
    """How what an environment shows and takes is a state and an action of a model."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A) of the model."""

    def begin(self, observation: Any) -> int:
        """The state in which an episode begins."""

    def follow(self, state: int, action: int, observation: Any, reward: float | None, cost: float | None) -> int:
        """The state that `action` has led to from `state`, where the episode goes on.

        `reward` and `cost` are those of the step, None where nobody says.
        """

    def action_of(self, action: int) -> Any:
        """What the environment is given for an action."""


class OwnNumbers:
    """The model's own numbers: an observation is a state, an action is its number."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape, self._states = shape, shape[1]

    def begin(self, observation: Any) -> int:
        value = observation.item() if isinstance(observation, np.ndarray) and observation.ndim == 0 else observation
        if not is_whole(value):
            raise InvalidInput(
                f"the observation is {shown(observation)}; this agent takes states of the model, whole numbers from 0 to "
                f"{self._states - 1}: for an environment's own observations give policy.agent(system=system)"
            )
        if not 0 <= value < self._states:
            raise OutsideModel(f"the observation is {value}; the model's states run from 0 to {self._states - 1}")
        return int(value)

    def follow(self, state: int, action: int, observation: Any, reward: float | None, cost: float | None) -> int:
        return self.begin(observation)

    def action_of(self, action: int) -> int:
        return action


class Translated(Protocol):
    """A system that an agent can act in."""

    @property
    def translation(self) -> Translation:
        """Between its environment and its model."""

    @property
    def model(self) -> CMDP:
        """What it is."""


class Agent:
    """Acts as a mixture of policies does: `reset()` before every episode, then one call for each step.

    Example:
        >>> agent = s2r.Mixture.of([1.0], [s2r.MarkovPolicy.deterministic([1, 0], num_actions=2, horizon=3)]).agent(seed=0)
        >>> agent.reset()
        >>> agent(0), agent(1)
        (1, 0)
    """

    def __init__(self, policy: MarkovPolicy | Mixture, *, seed: int = 0, system: Translated | None = None) -> None:
        """Nothing is drawn yet.

        Args:
            policy: what to act by.
            seed: episode i (from 0) is drawn by a generator of (seed, i): the same seed gives the same episodes again.
            system: whose environment it acts in; without one observations and actions are the model's own numbers.

        Raises:
            InvalidInput: the policy is none, or made for another system.
        """
        self.mixture = mixture_of(policy)
        self.seed = seed_number("seed", seed)
        if system is not None and not hasattr(system, "translation"):
            raise InvalidInput(
                f"system is a {type(system).__name__}; give what from_gymnasium, from_dynamics or estimate_model made"
            )
        if system is not None:
            self.mixture = carried_out(fitted(self.mixture, system.model, "the policy"), system.model)
        self._translation: Translation = OwnNumbers(self.mixture.shape) if system is None else system.translation
        self.episode = -1  # that is acted in, from 0
        self.step = 0  # of the next call
        self.policy: MarkovPolicy | None = None  # that was drawn for this episode
        self.state: int | None = None  # of the model, at the last call
        self.action: int | None = None  # of the model, at the last call
        self._rng = np.random.default_rng(0)

    def __repr__(self) -> str:
        horizon, states, actions = self.mixture.shape
        where = "no episode yet" if self.policy is None else f"episode {self.episode}, step {self.step} of {horizon}"
        return f"Agent({horizon} steps, {states} states, {actions} actions, seed {self.seed}, {where})"

    def reset(self, episode: int | None = None) -> None:
        """Begin the next episode, or that of this number: one policy of the mixture is drawn for all of it."""
        if episode is not None and (not is_whole(episode) or episode < 0):
            raise InvalidInput(f"episode is {shown(episode)}; give a whole number from 0 on, or nothing for the next one")
        self.episode = self.episode + 1 if episode is None else int(episode)
        self._rng = np.random.default_rng((self.seed, self.episode))
        self.policy = self.mixture.draw(self._rng)
        self.step, self.state, self.action = 0, None, None

    def __call__(self, observation: Any, *, reward: float | None = None, cost: float | None = None) -> Any:
        """What to do now.

        Args:
            observation: what the environment shows.
            reward: of the step that led here; needed only where a state can be entered at several costs, which depend on it.
            cost: of the step that led here, instead, where the environment says it (`info["cost"]`).

        Returns:
            The action, as the environment takes it.

        Raises:
            OutOfOrder: before the first `reset`, and after the last step of the horizon.
            OutsideModel: the environment is where the model has no state; nothing is certified of what follows.
        """
        if self.policy is None:
            raise OutOfOrder("the agent has not begun an episode; call agent.reset() first, once for every episode")
        horizon = self.mixture.shape[0]
        if self.step >= horizon:
            raise OutOfOrder(
                f"the episode is over: the policy is made for {horizon} steps, and nothing is certified beyond; call "
                "agent.reset() for the next one"
            )
        if self.state is None or self.action is None:
            state = self._translation.begin(observation)
        else:
            state = self._translation.follow(self.state, self.action, observation, reward, cost)
        self.state, self.action = state, self.policy.act(self.step, state, self._rng)
        self.step += 1
        return self._translation.action_of(self.action)


def mixture_of(given: Any) -> Mixture:
    """The mixture of a policy, or of anything that has one, such as a plan."""
    policy = given if isinstance(given, (MarkovPolicy, Mixture)) else getattr(given, "policy", None)
    if isinstance(policy, MarkovPolicy):
        return Mixture.of([1.0], [policy])
    if not isinstance(policy, Mixture):
        raise InvalidInput(f"policy is {shown(given)}; give a MarkovPolicy, a Mixture, or a plan")
    return policy
