"""What is deployed: Markov policies, and mixtures of them drawn once per episode.

Values are linear in the weights of a `Mixture` under every kernel, which is what the safety argument rests on. Averaging
the action probabilities of two policies is something else and is never done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.validation import (
    Floats,
    Indices,
    distributions,
    finite_floats,
    frozen,
    positive_integer,
    shown,
    whole_numbers,
)

if TYPE_CHECKING:
    from safe2real.model.agent import Agent, Translated
    from safe2real.model.cmdp import CMDP


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
        """From [H, S, A], or from [S, A] with a `horizon` over which it is repeated."""
        table = distributions("policy", probabilities)
        if table.ndim == 2 and horizon is not None:
            table = np.broadcast_to(table, (positive_integer("horizon", horizon), *table.shape))
        if table.ndim != 3 or 0 in table.shape or (horizon is not None and len(table) != horizon):
            raise InvalidInput(f"policy has shape {table.shape}; give (H, S, A), or (S, A) together with horizon=H")
        steps, states, actions = table.shape
        return cls(steps, states, actions, None, frozen(table))

    @classmethod
    def deterministic(cls, actions: ArrayLike, *, num_actions: int, horizon: int | None = None) -> MarkovPolicy:
        """From actions [H, S], or from [S] with a `horizon` over which they are repeated."""
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
        """Probabilities in proportion to `weights` [H, S, A] >= 0; uniform in states where all of them are 0."""
        totals = weights.sum(axis=2, keepdims=True)
        return cls.stochastic(np.where(totals > 0.0, weights / np.where(totals > 0.0, totals, 1.0), 1.0 / weights.shape[2]))

    @classmethod
    def uniform(cls, *, horizon: int, num_states: int, num_actions: int) -> MarkovPolicy:
        """Every action equally likely."""
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
        """The action at `step` (counted from 0) in `state`."""
        if self.actions is not None:
            return int(self.actions[step, state])
        return int(rng.choice(self.num_actions, p=self.table[step, state]))  # type: ignore[index]

    def agent(self, seed: int = 0, *, system: Translated | None = None) -> Agent:
        """What acts by this policy; see `Mixture.agent`."""
        from safe2real.model.agent import Agent  # which acts by policies

        return Agent(self, seed=seed, system=system)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Mixture:
    """Weights over Markov policies: one of them is drawn at the start of an episode and followed to its end."""

    weights: Floats  # [n]
    policies: tuple[MarkovPolicy, ...]

    def __repr__(self) -> str:
        parts = "".join(f"\n  {weight:.6g} {part}" for weight, part in zip(self.weights, self.policies, strict=True))
        return f"Mixture of {len(self.policies)}:{parts}"

    @classmethod
    def of(cls, weights: ArrayLike, policies: Sequence[MarkovPolicy]) -> Mixture:
        """Policies of one shape with weights that sum to 1; weights of 0 are dropped."""
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
        """The policy of one episode."""
        return self.policies[int(rng.choice(len(self.policies), p=self.weights / self.weights.sum()))]

    def agent(self, seed: int = 0, *, system: Translated | None = None) -> Agent:
        """What acts by this mixture, one call for each step: `agent.reset()`, then `agent(observation)` -> action.

        With a `system` observations and actions are its environment's own, otherwise the model's numbers. The policy of an
        episode is drawn at `reset`, by (seed, number of the episode).
        """
        from safe2real.model.agent import Agent  # which acts by policies

        return Agent(self, seed=seed, system=system)

    def to_markov(self, model: CMDP) -> MarkovPolicy:
        """The single Markov policy with the same occupancy measure, hence the same values, under `model`.

        Under any other kernel its values may differ from the mixture's: certificates speak of the mixture. In states that
        `model` cannot reach it acts as the heaviest component does.
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
"""What can be deployed and evaluated."""
_AnyPolicy = TypeVar("_AnyPolicy", MarkovPolicy, Mixture, Policy)


def check_policy(policy: Policy, model: CMDP, name: str = "policy") -> None:
    """Refuse a policy that was made for another system."""
    if policy.shape != model.shape:
        raise InvalidInput(f"{name} has shape (H, S, A) = {policy.shape}; this system has {model.shape}")


def fitted(policy: _AnyPolicy, model: CMDP, name: str = "policy") -> _AnyPolicy:
    """The policy as `model` takes it: one that says what to do in each of its actions will do where it counts the end.

    Raises:
        InvalidInput: it was made for another system.
    """
    if model.counts_end and policy.shape == (model.steps, model.num_states, model.num_actions):
        return _changed(policy, lambda table: np.concatenate([table, table[-1:]]))
    check_policy(policy, model, name)
    return policy


def carried_out(policy: _AnyPolicy, model: CMDP) -> _AnyPolicy:
    """The policy without the step in which nothing is done, if `model` has one: what is handed out to be run."""
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
