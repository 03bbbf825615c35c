"""What a simulator or a log shows of every row: counts of what followed, for `estimate_model`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.environment_seeds import unused_seed
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats, check_function, frozen, is_whole, positive_integer, shown
from safe2real.progress import Report
from safe2real.systems.arrival_costs import ArrivalCost, Outcomes, cost_on_arrival
from safe2real.systems.datasets import EpisodeLog, LoggedEpisode, truth
from safe2real.systems.discretise import finite_value
from safe2real.systems.finite_env import check_spaces, name_of

Behaviour = Callable[[int, int, np.random.Generator], int]
"""(step, state, rng) -> action"""
Unvisited = Literal["uniform", "stay"]
Outcome = tuple[int, int, int, float, bool]
"""(state, action, next state, cost on arrival, terminated)"""
_MOST_WRITTEN_OUT = 20_000_000  # transitions of unvisited rows
_COST_LEVELS = 16  # different costs on arrival that a finite system can have; more are refused when it is built


@runtime_checkable
class Generative(Protocol):
    """A simulator that can be started anywhere: `Discretised` is one."""

    num_states: int
    num_actions: int

    def sample(self, state: int, action: int, rng: np.random.Generator, /) -> tuple[int, float, bool]:
        """(next state, reward, terminated)"""


@dataclass(frozen=True, slots=True)
class Costing:
    """What is paid on arrival: by a function of the transition, as logged, or nothing."""

    function: ArrivalCost | None
    logged: bool

    @property
    def levels(self) -> int:
        """How many different costs there can be, whatever the data show."""
        return 1 if self.function is None and not self.logged else _COST_LEVELS

    def of(self, episode: LoggedEpisode, place: str) -> Floats:
        """What every step of an episode pays [n]."""
        n = episode.length
        if self.logged:
            if episode.costs is None:
                raise InvalidInput(f"{place} has no costs; cost='logged' needs them (info['cost'], or the array costs)")
            outside = np.flatnonzero((episode.costs < 0.0) | (episode.costs > 1.0))
            if outside.size:
                k = int(outside[0])
                raise InvalidInput(
                    f"{place}, costs[{k}] is {episode.costs[k]:g}; costs lie in [0, 1]: divide them by the largest"
                )
            return episode.costs
        if self.function is None:
            return np.zeros(n)
        rewards = np.zeros(n) if episode.rewards is None else episode.rewards
        s, a = episode.states.tolist(), episode.actions.tolist()
        return np.array(
            [cost_on_arrival(self.function, s[k], a[k], s[k + 1], float(rewards[k]), episode.ends_at(k)) for k in range(n)]
        )


@dataclass(slots=True)
class Seen:
    """Counts of every outcome, and the sums of their rewards."""

    num_states: int
    num_actions: int
    cost_levels: int
    counts: Counter[Outcome] = field(default_factory=Counter)
    rewards: dict[Outcome, float] = field(default_factory=dict)
    starts: Counter[int] = field(default_factory=Counter)

    def add(self, outcome: Outcome, reward: float) -> None:
        self.counts[outcome] += 1
        self.rewards[outcome] = self.rewards.get(outcome, 0.0) + reward

    @property
    def possible(self) -> int:
        """How many outcomes a row can have: any next state, at any cost, terminated or not. Known before the data are."""
        return 2 * self.num_states * self.cost_levels

    def per_row(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(visits [S, A], different outcomes seen [S, A])."""
        visits = np.zeros((self.num_states, self.num_actions), dtype=np.int64)
        different = np.zeros_like(visits)
        for (s, a, *_), count in self.counts.items():
            visits[s, a] += count
            different[s, a] += 1
        return visits, different

    def frequencies(self, visits: NDArray[np.int64], unvisited: Unvisited) -> Outcomes:
        """The empirical rows; those without a visit as `unvisited` says."""
        never = np.argwhere(visits == 0).tolist()
        if unvisited == "uniform" and len(never) * self.num_states > _MOST_WRITTEN_OUT:
            raise InvalidInput(
                f"{len(never)} rows were never visited; written out as uniform over {self.num_states} states they do not "
                "fit into memory: take more samples, or choose unvisited='stay'"
            )
        listed = [
            (*key, count / int(visits[key[0], key[1]]), self.rewards[key] / count) for key, count in self.counts.items()
        ]
        for s, a in never:
            anywhere = (s,) if unvisited == "stay" else range(self.num_states)
            listed += [(s, a, t, 0.0, False, 1.0 / len(anywhere), 0.0) for t in anywhere]
        listed.sort()
        states, actions, after, costs, ends, shares, rewards = map(np.array, zip(*listed, strict=True))
        return Outcomes(self.num_states, self.num_actions, states, actions, after, shares, rewards, ends, costs)

    @property
    def saw_an_end(self) -> bool:
        """Whether the environment ended any episode."""
        return any(terminated for *_, terminated in self.counts)

    def start(self) -> Floats:
        """The frequencies of first states [S]."""
        counts = np.array([self.starts[state] for state in range(self.num_states)], dtype=np.float64)
        return np.asarray(counts / counts.sum())


def sample_rows(source: Any, count: int, seed: int, costing: Costing, *, resets: int, report: Report | None = None) -> Seen:
    """`count` samples of every row of a `Generative`; those of (s, a) come from a generator made of (seed, s, a).

    Where episodes begin is seen from so many `resets` of it.
    """
    if costing.logged:
        raise InvalidInput("cost='logged' is for logs and episodes; sample() gives no cost: give an array or a function")
    check_function("source.sample", source.sample, "state, action, rng")
    num_states = positive_integer("source.num_states", source.num_states)
    seen = Seen(num_states, positive_integer("source.num_actions", source.num_actions), costing.levels)
    for s in range(seen.num_states):
        for a in range(seen.num_actions):
            rng = np.random.default_rng((seed, s, a))
            for _ in range(count):
                after, reward, terminated = _sampled(f"sample({s}, {a})", source.sample(s, a, rng), seen.num_states)
                given = costing.function
                paid = 0.0 if given is None else cost_on_arrival(given, s, a, after, reward, terminated)
                seen.add((s, a, after, paid, terminated), reward)
            if report is not None:
                report(s * seen.num_actions + a + 1, seen.num_states * seen.num_actions)
    rng = np.random.default_rng(seed)
    for i in range(resets):
        seen.starts[_observed(f"reset {i}", source.reset(seed=int(rng.integers(2**31)))[0], source)] += 1
    return seen


def _sampled(place: str, result: Any, num_states: int) -> tuple[int, float, bool]:
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise InvalidInput(f"{place} is {shown(result)}; it must be (next state, reward, terminated)")
    after, reward, terminated = result
    state = _within(f"{place}: the next state", after, num_states)
    return state, finite_value(f"{place}: the reward", reward), truth(f"{place}: terminated", terminated)


def count_log(log: EpisodeLog, costing: Costing) -> Seen:
    """Every step of every episode."""
    seen = Seen(log.num_states, log.num_actions, costing.levels)
    for i, episode in enumerate(log.episodes):
        costs = costing.of(episode, f"episode {i}").tolist()
        rewards = [0.0] * episode.length if episode.rewards is None else episode.rewards.tolist()
        states = episode.states.tolist()
        seen.starts[states[0]] += 1
        for k, action in enumerate(episode.actions.tolist()):
            seen.add((states[k], action, states[k + 1], costs[k], episode.ends_at(k)), rewards[k])
    return seen


def run_episodes(
    env: gymnasium.Env[Any, Any],
    horizon: int,
    episodes: int,
    *,
    policy: MarkovPolicy | Behaviour | None,
    seed: int,
    wants_costs: bool,
    partial: bool,
    report: Report | None = None,
) -> EpisodeLog:
    """Episodes of `env` of at most `horizon` steps, with uniformly random actions unless there is a `policy`."""
    check_spaces(env)
    num_states, num_actions = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
    first_action = int(getattr(env.action_space, "start", 0))
    rng, used = np.random.default_rng(seed), set[int]()
    resets = (int(rng.integers(2**31)) for _ in repeat(None))
    act = _behaviour(policy, horizon, num_states, num_actions)
    found = []
    for i in range(episodes):
        observed, _ = env.reset(seed=unused_seed(resets, used))
        states, actions = [_observed(f"episode {i}, reset", observed, env)], list[int]()
        rewards, costs = list[float](), list[float]()
        terminated = truncated = False
        while len(actions) < horizon and not (terminated or truncated):
            action = _within(f"policy({len(actions)}, {states[-1]})", act(len(actions), states[-1], rng), num_actions)
            observed, reward, terminated, truncated, info = env.step(action + first_action)
            place = f"episode {i}, step {len(actions)}"
            actions.append(action)
            states.append(_observed(place, observed, env))
            rewards.append(finite_value(f"{place}: the reward", reward))
            if wants_costs:
                if "cost" not in info:
                    raise InvalidInput(
                        "cost is 'logged' but the environment's info has no 'cost'; give an array or a function"
                    )
                costs.append(finite_value(f"{place}: info['cost']", info["cost"]))
        if len(actions) < horizon and not terminated and not partial:
            raise InvalidInput(
                f"{name_of(env)} cut episode {i} off after {len(actions)} steps, before the horizon of {horizon}; make it "
                f"with max_episode_steps={horizon} or more, choose a shorter horizon, or partial=True"
            )
        visited, chosen = (frozen(np.array(column, dtype=np.int64)) for column in (states, actions))
        paid = frozen(np.array(costs)) if wants_costs else None
        found.append(LoggedEpisode(visited, chosen, frozen(np.array(rewards)), paid, bool(terminated)))
        if report is not None:
            report(i + 1, episodes)
    return EpisodeLog(tuple(found), num_states, num_actions)


def _behaviour(policy: MarkovPolicy | Behaviour | None, horizon: int, num_states: int, num_actions: int) -> Behaviour:
    if policy is None:
        return lambda step, state, rng: int(rng.integers(num_actions))
    if isinstance(policy, MarkovPolicy):
        if policy.shape != (horizon, num_states, num_actions):
            raise InvalidInput(
                f"policy has shape (H, S, A) = {policy.shape}; for this environment and horizon it must be "
                f"{(horizon, num_states, num_actions)}, in the environment's states"
            )
        return policy.act
    if not callable(policy):
        raise InvalidInput(f"policy is {shown(policy)}; give a MarkovPolicy or a function (step, state, rng) -> action")
    check_function("policy", policy, "step, state, rng")
    return policy


def _observed(place: str, observation: Any, env: gymnasium.Env[Any, Any]) -> int:
    """A state as the environment shows it, counted from 0."""
    space: Any = env.observation_space
    number = observation.item() if isinstance(observation, np.ndarray) and observation.ndim == 0 else observation
    if isinstance(number, (int, np.integer)):
        number = int(number) - int(getattr(space, "start", 0))
    return _within(f"{place}: the observation, counted from 0,", number, int(space.n))


def _within(place: str, value: Any, below: int) -> int:
    if not is_whole(value) or not 0 <= value < below:
        raise InvalidInput(f"{place} is {shown(value)}; it must be a whole number from 0 to {below - 1}")
    return int(value)
