"""Policies: Markov policies, and mixtures of them drawn once per episode.

Values are linear in the weights of a `Mixture` under every kernel, and the safety argument rests on that. Averaging
the action probabilities of two policies is something else and is never done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput, OutOfOrder, OutsideModel
from safe2real.model.validation import (
    Floats,
    Indices,
    distributions,
    finite_floats,
    frozen,
    is_whole,
    positive_integer,
    seed_number,
    shown,
    whole_numbers,
)

if TYPE_CHECKING:
    from safe2real.model.cmdp import CMDP


_WEIGHTS = 4  # of a mixture in one line


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class MarkovPolicy:
    """pi_h(a | s) for every step, state and action; build one with `stochastic`, `deterministic` or `uniform`.

    A deterministic policy keeps its actions [H, S] and writes its probabilities out only when asked.
    """

    horizon: int
    num_states: int
    num_actions: int
    actions: Indices | None  # [H, S], deterministic policies only
    table: Floats | None  # [H, S, A], stochastic policies only

    def __post_init__(self) -> None:
        array, shape = (self.table, self.shape) if self.actions is None else (self.actions, self.shape[:2])
        if not isinstance(array, np.ndarray) or array.shape != shape:
            raise InvalidInput(
                f"a policy of shape (H, S, A) = {self.shape} was put together by hand from {shown(array)}; build one with "
                "MarkovPolicy.stochastic, deterministic or uniform"
            )

    def __repr__(self) -> str:
        kind = "stochastic" if self.actions is None else "deterministic"
        return f"MarkovPolicy({kind}, {self.horizon} steps, {self.num_states} states, {self.num_actions} actions)"

    @classmethod
    def stochastic(cls, probabilities: ArrayLike, *, horizon: int | None = None) -> MarkovPolicy:
        """Build a policy from probabilities.

        Args:
            probabilities: [H, S, A], or [S, A] that are the same in each of `horizon` steps; they sum to 1 over actions.
            horizon: H, needed for [S, A].

        Returns:
            The policy.

        Raises:
            InvalidInput: another shape, or probabilities that do not sum to 1.
        """
        table = distributions("policy", probabilities)
        if table.ndim == 2 and horizon is not None:
            table = np.broadcast_to(table, (positive_integer("horizon", horizon), *table.shape))
        if table.ndim != 3 or 0 in table.shape or (horizon is not None and len(table) != horizon):
            raise InvalidInput(f"policy has shape {table.shape}; give (H, S, A), or (S, A) together with horizon=H")
        steps, states, actions = table.shape
        return cls(steps, states, actions, None, frozen(table))

    @classmethod
    def deterministic(cls, actions: ArrayLike, *, num_actions: int, horizon: int | None = None) -> MarkovPolicy:
        """Build a policy from actions.

        Args:
            actions: [H, S], or [S] that are the same in each of `horizon` steps; from 0 to A - 1.
            num_actions: A.
            horizon: H, needed for [S].

        Returns:
            The policy.

        Raises:
            InvalidInput: another shape, or an action out of range.
        """
        if callable(actions):
            raise InvalidInput(
                "actions is a function; list it over the states: [function(state) for state in system.states]"
            )
        num_actions = positive_integer("num_actions", num_actions)
        if num_actions > np.iinfo(np.uint32).max:
            raise InvalidInput(f"num_actions is {shown(num_actions)}; at most {np.iinfo(np.uint32).max} can be told apart")
        chosen = whole_numbers("actions", actions, below=num_actions, what="actions")
        if chosen.ndim == 1 and horizon is not None:
            chosen = np.broadcast_to(chosen, (positive_integer("horizon", horizon), *chosen.shape))
        if chosen.ndim != 2 or 0 in chosen.shape or (horizon is not None and len(chosen) != horizon):
            raise InvalidInput(f"actions have shape {chosen.shape}; give (H, S), or (S,) together with horizon=H")
        steps, states = chosen.shape
        return cls(steps, states, num_actions, frozen(chosen.astype(np.uint32)), None)

    @classmethod
    def proportional(cls, weights: Floats) -> MarkovPolicy:
        """Build a policy that acts in proportion to weights.

        Args:
            weights: [H, S, A], at least 0; a state whose weights are all 0 gets the uniform distribution.

        Returns:
            The policy.

        Raises:
            InvalidInput: a weight is negative or not finite.
        """
        totals = weights.sum(axis=2, keepdims=True)
        return cls.stochastic(np.where(totals > 0.0, weights / np.where(totals > 0.0, totals, 1.0), 1.0 / weights.shape[2]))

    @classmethod
    def uniform(cls, *, horizon: int, num_states: int, num_actions: int) -> MarkovPolicy:
        """Build the policy that takes every action with the same probability.

        Args:
            horizon: H.
            num_states: S.
            num_actions: A.

        Returns:
            The policy.

        Raises:
            InvalidInput: a size is no whole number of at least 1.
        """
        shape = (
            positive_integer("horizon", horizon),
            positive_integer("num_states", num_states),
            positive_integer("num_actions", num_actions),
        )
        return cls(*shape, None, frozen(np.full(shape, 1.0 / num_actions)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return (self.horizon, self.num_states, self.num_actions)

    @property
    def probabilities(self) -> Floats:
        """[H, S, A], read only."""
        if self.table is not None:
            return self.table
        return frozen((self.actions[..., None] == np.arange(self.num_actions)).astype(np.float64))  # type: ignore[index]

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        """Draw an action; a deterministic policy does not use `rng`.

        Args:
            step: from 0 to H - 1.
            state: from 0 to S - 1.
            rng: the source of randomness.

        Returns:
            The action, from 0 to A - 1.
        """
        if self.actions is not None:
            return int(self.actions[step, state])
        return int(rng.choice(self.num_actions, p=self.table[step, state]))  # type: ignore[index]

    def agent(self, seed: int = 0, *, system: Translated | None = None) -> Agent:
        """Return an agent that acts by this policy; see `Mixture.agent`.

        Args:
            seed: of the agent's random numbers.
            system: whose environment it acts in; None for the model's own numbers.

        Returns:
            The agent.

        Raises:
            InvalidInput: `system` is no system, or the policy does not fit it.
        """
        return Agent(self, seed=seed, system=system)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Mixture:
    """Weights over Markov policies: one of them is drawn at the start of an episode and followed to its end."""

    weights: Floats  # [n]
    policies: tuple[MarkovPolicy, ...]

    def __post_init__(self) -> None:
        weights, policies = self.weights, self.policies
        if not policies or not isinstance(weights, np.ndarray) or weights.shape != (len(policies),):
            raise InvalidInput(
                f"a mixture was put together by hand from the weights {shown(weights)} and {shown(policies)}; build one "
                "with Mixture.of(weights, policies)"
            )

    @property
    def summary(self) -> str:
        """The number of policies and the largest weights, in one line."""
        largest = ", ".join(f"{weight:.4g}" for weight in np.sort(self.weights)[::-1][:_WEIGHTS])
        more = ", ..." if len(self.policies) > _WEIGHTS else ""
        return f"Mixture of {len(self.policies)} with weights {largest}{more}"

    def __repr__(self) -> str:
        parts = "".join(f"\n  {weight:.6g} {part}" for weight, part in zip(self.weights, self.policies, strict=True))
        return f"Mixture of {len(self.policies)}:{parts}"

    @classmethod
    def of(cls, weights: ArrayLike, policies: Sequence[MarkovPolicy]) -> Mixture:
        """Mix policies by weights; values are linear in the weights.

        Args:
            weights: [n] that sum to 1; policies of weight 0 are left out.
            policies: n, all of one shape (H, S, A).

        Returns:
            The mixture.

        Raises:
            InvalidInput: weights that are no distribution, or policies of different shapes.
        """
        share = finite_floats("weights", weights)
        if share.ndim != 1 or len(share) != len(policies) or not len(policies):
            raise InvalidInput(f"weights have shape {share.shape} for {len(policies)} policies; give one weight per policy")
        share = distributions("weights", share)
        shapes = [policy.shape for policy in policies]
        if len(set(shapes)) != 1:
            raise InvalidInput(f"the policies have shapes {shapes}; all must have the same (H, S, A)")
        kept = share > 0.0
        used = tuple(policy for policy, keep in zip(policies, kept, strict=True) if keep)
        return cls(frozen(share[kept]), used)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.policies[0].shape

    def draw(self, rng: np.random.Generator) -> MarkovPolicy:
        """Draw the policy of one episode, by its weight.

        Args:
            rng: the source of randomness.

        Returns:
            One of `policies`.
        """
        return self.policies[int(rng.choice(len(self.policies), p=self.weights / self.weights.sum()))]

    def agent(self, seed: int = 0, *, system: Translated | None = None) -> Agent:
        """Return an agent that acts by this mixture: `agent.reset()`, then `agent(observation)` for the action of each step.

        With a `system` observations and actions are its environment's own, otherwise the model's numbers. `reset` draws the
        policy of an episode by (seed, number of the episode).

        Args:
            seed: of the agent's random numbers.
            system: whose environment it acts in; None for the model's own numbers.

        Returns:
            The agent.

        Raises:
            InvalidInput: `system` is no system, or the mixture does not fit it.
        """
        return Agent(self, seed=seed, system=system)

    def to_markov(self, model: CMDP) -> MarkovPolicy:
        """Return the single Markov policy with the same occupancy measure, hence the same values, under a model.

        Under any other kernel its values may differ from the mixture's: certificates speak of the mixture. In states that
        `model` cannot reach it acts as the heaviest component does.

        Args:
            model: a system of the mixture's shape (H, S, A).

        Returns:
            The policy.

        Raises:
            InvalidInput: the mixture was made for another system.
        """
        whole = fitted(self, model)
        components = [policy.probabilities for policy in whole.policies]
        heaviest = components[int(np.argmax(self.weights))]
        table = np.empty(model.shape)
        states = np.outer(self.weights, model.start)  # [n, S]
        for h in range(model.horizon):
            steps = np.stack([component[h] for component in components])  # [n, S, A]
            pairs = states[:, :, None] * steps
            visited = states.sum(axis=0)
            reached = visited > 0.0
            table[h] = heaviest[h]
            table[h, reached] = pairs.sum(axis=0)[reached] / visited[reached, None]
            table[h] /= table[h].sum(axis=1, keepdims=True)
            states = np.stack([model.kernel.push(h, flow) for flow in pairs])
        found = MarkovPolicy(*model.shape, None, frozen(table))
        return found if whole is self else carried_out(found, model)


Policy = MarkovPolicy | Mixture
"""The policies that can be deployed and evaluated."""
_AnyPolicy = TypeVar("_AnyPolicy", MarkovPolicy, Mixture, Policy)


def check_policy(policy: Policy, model: CMDP, name: str = "policy") -> None:
    """Refuse a policy that was made for another system."""
    if policy.shape != model.shape:
        wanted = (model.steps, model.num_states, model.num_actions)
        fix = f"; give a policy for {model.steps} steps, the horizon" if policy.shape[0] != model.steps else ""
        if policy.shape[1] != model.num_states:
            fix += "; give one action for each entry of the system's states"
        raise InvalidInput(f"{name} has shape (H, S, A) = {policy.shape}; this system has {wanted}{fix}")


def fitted(policy: _AnyPolicy, model: CMDP, name: str = "policy") -> _AnyPolicy:
    """Return the policy with a step for each one that `model` sums: where it counts the end, one more than actions.

    Raises:
        InvalidInput: it was made for another system.
    """
    if model.counts_end and policy.shape == (model.steps, model.num_states, model.num_actions):
        return _changed(policy, lambda table: np.concatenate([table, table[-1:]]))
    check_policy(policy, model, name)
    return policy


def carried_out(policy: _AnyPolicy, model: CMDP) -> _AnyPolicy:
    """Return the policy as handed out: without the step that only collects, if `model` has one."""
    if not model.counts_end or policy.shape[0] != model.horizon:
        return policy
    return _changed(policy, lambda table: table[:-1])


def _changed(policy: _AnyPolicy, change: Callable[[Any], Any]) -> _AnyPolicy:
    """With other steps, by a change of its tables along their first axis."""
    if isinstance(policy, Mixture):
        return replace(policy, policies=tuple(_changed(one, change) for one in policy.policies))
    kept = [None if table is None else frozen(change(table)) for table in (policy.actions, policy.table)]
    steps = next(len(table) for table in kept if table is not None)
    return replace(policy, horizon=steps, actions=kept[0], table=kept[1])


# A policy that acts: one call for each step, in the words of the environment it acts in.
#
# A mixture is drawn once, at the beginning of an episode, and followed to its end: that is what certificates speak of. The
# agent counts the steps, and keeps track of the state of the model, which an observation alone need not show. How
# observations and actions are states and actions of the model is a `Translation`, which systems have
# (`system.translation`).


class Translation(Protocol):
    """The map between an environment's observations and actions and the states and actions of a model."""

    def begin(self, observation: Any) -> int:
        """The state in which an episode begins."""

    def follow(self, state: int, action: int, observation: Any, reward: float | None, cost: float | None) -> int:
        """The state that `action` has led to from `state`, where the episode goes on.

        `reward` and `cost` are those of the step, None if unknown.
        """

    def action_of(self, action: int) -> Any:
        """The environment's own form of an action."""


class OwnNumbers:
    """The model's own numbers: an observation is a state, an action is its number."""

    def __init__(self, num_states: int) -> None:
        self._states = num_states

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
        """The system's model."""


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
            InvalidInput: `policy` is no policy, or is made for another system.
        """
        self.mixture = mixture_of(policy)
        self.seed = seed_number("seed", seed)
        if system is not None and not hasattr(system, "translation"):
            raise InvalidInput(
                f"system is a {type(system).__name__}; give what from_gymnasium, from_dynamics or an estimate made"
            )
        if system is not None:
            self.mixture = carried_out(fitted(self.mixture, system.model, "the policy"), system.model)
        self._translation: Translation = OwnNumbers(self.mixture.shape[1]) if system is None else system.translation
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
        """Begin the next episode and draw the policy that the agent follows in it.

        Args:
            episode: its number, from 0; None for the one after the last.

        Raises:
            InvalidInput: the number is not a whole number of at least 0.
        """
        if episode is not None and (not is_whole(episode) or episode < 0):
            raise InvalidInput(f"episode is {shown(episode)}; give a whole number from 0 on, or nothing for the next one")
        self.episode = self.episode + 1 if episode is None else int(episode)
        self._rng = np.random.default_rng((self.seed, self.episode))
        self.policy = self.mixture.draw(self._rng)
        self.step, self.state, self.action = 0, None, None

    def __call__(self, observation: Any, *, reward: float | None = None, cost: float | None = None) -> Any:
        """Return the action for an observation.

        Args:
            observation: of the environment.
            reward: of the step that led here; needed only where a state can be entered at several costs, which depend on it.
            cost: of the step that led here, instead, where the environment says it (`info["cost"]`).

        Returns:
            The action, as the environment takes it.

        Raises:
            OutOfOrder: before the first `reset`, and after the last step of the horizon.
            OutsideModel: the environment is in a place that the model lacks; from here on nothing is certified.
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
