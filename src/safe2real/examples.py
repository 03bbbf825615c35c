"""Six small packaged problems, each with its real system: for a first try, for tests and for benchmarks.

Every function returns an `Example`: a problem (simulator, trusted policy, limit, assumptions), the real system as an
environment in the numbers of the model, and a reward to plan for. The assumptions are true of the real system. `seed` is
that of `Settings`: give one to repeat a run.

    problem, real, reward = safe2real.examples.lake()

`real.system` translates between the environment and the model: `plan.policy.agent(system=real.system)` acts in `real.env`.
Each real environment has a table `P`, so that a study can evaluate a policy exactly: `real_model(example)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems.dynamics import Noise, from_dynamics
from safe2real.systems.estimate import estimate_by_sampling
from safe2real.systems.finite import SystemDescription, from_gymnasium
from safe2real.systems.finite_env import FiniteEnv
from safe2real.systems.outcomes import TransitionTable

__all__ = ["ALL", "Example", "TableEnv", "calls", "inventory", "lake", "machine", "oven", "pond", "real_model"]


class Example(NamedTuple):
    """A problem, the real system, and a reward."""

    problem: Problem
    real: FiniteEnv  # the real system in the numbers of the model; `real.system` and `real.env` are its parts
    reward: Floats  # [S, A] in [0, 1], paid at the start of a step


class TableEnv(gymnasium.Env[Any, Any]):
    """An environment that draws from a table: `table[state][action]` lists (probability, next state, reward, terminated)."""

    def __init__(
        self,
        table: TransitionTable,
        start: int,
        *,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        self.P = table
        self.observation_space = gymnasium.spaces.Discrete(len(table))
        self.action_space = gymnasium.spaces.Discrete(len(table[0]))
        self.initial_state_distrib = np.eye(len(table))[start]
        self.state_names, self.action_names = state_names, action_names
        self._start = self._state = start

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self._start
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.P[self._state][int(action)]
        chosen = self.np_random.choice(len(outcomes), p=[probability for probability, *_ in outcomes])
        _, self._state, reward, terminated = outcomes[chosen]
        return self._state, float(reward), terminated, False, {}


def real_model(example: Example) -> CMDP:
    """Return the real system with the problem's constraints, to evaluate a policy exactly; a controller does not have it.

    Args:
        example: of this module.

    Returns:
        A CMDP of the simulator's shape with the rows of the real system.
    """
    return example.problem.simulator.with_kernel(example.real.system.kernel_of(example.real.env))


def lake(*, seed: int | None = None) -> Example:
    """Return a frozen lake of 12 cells with one slippery cell that the simulator does not know.

    - States: the cells of the map ``SFFF FHFH FFFG``, row by row; start in cell 0. After a hole or the goal the episode is
      over, and the state does not change any more.
    - Actions: 0 left, 1 down, 2 right, 3 up.
    - Dynamics: a move goes as meant with probability 0.9 and to either side with 0.05. On the real lake moves from cell 6
      go as meant with probability 0.3 only.
    - Horizon: 14 moves.
    - Cost: 1 for every step under water, the steps after a fall included; in expectation at most 0.7.
    - Reward: 1 for a step that begins on the goal, so at most the probability to have reached it within 13 moves.
    - Trusted policy: keeps away from the holes, and often comes too late.
    - Assumed: rows are exact or wrong by at least 0.5, and a move leads to the neighbours that the simulator names.

    Exact on the real lake, reward and cost: trusted policy 0.292 and 0.275; the simulator's plan 0.839 and 0.992, which
    violates the limit; the best safe plan 0.866 and 0.700.

    Args:
        seed: `Settings.seed` of the problem.

    Returns:
        The problem, the real system as an environment, and the reward [S, A].
    """
    grid, careful = ["SFFF", "FHFH", "FFFG"], [1, 3, 1, 3, 0, 0, 1, 0, 2, 2, 2, 0]
    simulator, real, slippery = (
        gymnasium.make("FrozenLake-v1", desc=grid, success_rate=rate, max_episode_steps=14) for rate in (0.9, 0.9, 0.3)
    )
    real.unwrapped.P[6] = slippery.unwrapped.P[6]  # type: ignore[attr-defined]
    holes = np.array([cell == "H" for cell in "".join(grid)])
    system = from_gymnasium(simulator, 14, SystemDescription(cost=holes, limit=0.7, ended=holes, name="steps under water"))
    trusted = MarkovPolicy.deterministic(system.per_state(careful), num_actions=4, horizon=14)
    settings = Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1, seed=seed)
    problem = Problem(system.model, trusted, settings, known=system.known, support=system.model.kernel)
    return Example(problem, system.as_env(real), system.where([11]))


def machine(*, seed: int | None = None) -> Example:
    """Return a machine that wears out faster than its table says.

    - States: new, worn 1, 2, 3, 4, broken; start new.
    - Actions: 0 repair, 1 run slowly, 2 run fast.
    - Dynamics: a repair takes away one degree of wear with probability 0.6; a slow step adds one with 0.1, a fast step with
      0.3. On the real machine a fast step adds one with probability 0.5 if the machine is worn twice or more.
    - Horizon: 15 steps.
    - Cost: 1 for every step in which the machine is broken, the last state included; in expectation at most 0.3.
    - Reward: 0.5 for a slow step, 1 for a fast step, 0 for a repair or while broken.
    - Trusted policy: run slowly when new, otherwise repair.
    - Assumed: rows are exact or wrong by at least 0.2, and the zeros of the table are true.

    Exact on the real machine, reward and cost: trusted policy 6.53 and 0.00; the simulator's plan 13.02 and 0.69, which
    violates the limit; the best safe plan 13.10 and 0.30.

    Args:
        seed: `Settings.seed` of the problem.

    Returns:
        The problem, the real system as an environment, and the reward [S, A].
    """
    names = {
        "state_names": ("new", "worn 1", "worn 2", "worn 3", "worn 4", "broken"),
        "action_names": ("repair", "slow", "fast"),
    }

    def table(wear: float) -> TransitionTable:
        rows: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {}
        for s in range(6):
            rows[s] = {0: [(0.6, max(s - 1, 0), 0.0, False), (0.4, s, 0.0, False)]}
            for action, p in ((1, 0.1), (2, wear if s > 1 else 0.3)):
                output = action / 2 * (s < 5)
                rows[s][action] = [(p, min(s + 1, 5), output, False), (1 - p, s, output, False)]
        return rows

    simulator, real = (TableEnv(table(wear), start=0, **names) for wear in (0.3, 0.5))
    system = from_gymnasium(simulator, 15, SystemDescription(cost=[0, 0, 0, 0, 0, 1], limit=0.3, name="steps broken"))
    trusted = MarkovPolicy.deterministic([1, 0, 0, 0, 0, 0], num_actions=3, horizon=15)
    settings = Settings(margin=0.25, calibrated_gap=0.0, mismatch_gap=0.2, tolerance=0.06, seed=seed)
    problem = Problem(system.model, trusted, settings, support=system.model.kernel)
    return Example(problem, system.as_env(real), system.unit_reward)


class CallLine(TableEnv):
    """At most 7 callers wait, 0 to 3 people answer; `sample` draws the next state from any state, as a simulator does.

    Args:
        chance: with which each of three people ends a call within a step; of fewer people each has 0.5.
    """

    num_states, num_actions = 8, 4

    def __init__(self, chance: float) -> None:
        table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {}
        for waiting in range(8):
            table[waiting] = {}
            for people in range(4):
                ends = _binomial(min(waiting, people), chance if people == 3 else 0.5)
                law = np.zeros(8)
                for ended, p in enumerate(ends):
                    for came, q in enumerate(_binomial(2, 0.4)):
                        law[min(7, waiting - ended + came)] += p * q
                table[waiting][people] = [(float(p), t, 0.0, False) for t, p in enumerate(law) if p > 0.0]
        people_names = ("0 people", "1 person", "2 people", "3 people")
        super().__init__(table, start=2, state_names=[f"{n} waiting" for n in range(8)], action_names=people_names)
        self._chance = chance

    def sample(self, waiting: int, people: int, rng: np.random.Generator) -> tuple[int, float, bool]:
        """Return (next state, reward, terminated) after `people` have answered for one step."""
        ended = rng.binomial(min(waiting, people), self._chance if people == 3 else 0.5)
        return int(min(7, waiting - ended + rng.binomial(2, 0.4))), 0.0, False


def calls(*, seed: int | None = None) -> Example:
    """Return a call line whose simulator can only be sampled, and does not know that three people hinder each other.

    - States: 0 to 7 callers wait; start with 2.
    - Actions: 0 to 3 people answer.
    - Dynamics: up to two new callers, each with probability 0.4; each person ends a call with probability 0.5. On the real
      line each of three people ends one with probability 0.05 only.
    - Horizon: 12 steps.
    - Cost: 1 for every step in which the line is full, the last state included; in expectation at most 0.5.
    - Reward: the share of the three people who do not answer.
    - Trusted policy: two people, always.
    - Assumed: rows are exact up to sampling or wrong by at least 0.2; at most two callers come in a step, and at most as
      many calls end as people answer. The simulator is estimated from 10,000 samples of each row.

    Exact on the real line, reward and cost: trusted policy 4.00 and 0.13; the simulator's plan 4.96 and 3.66, which violates
    the limit; the best safe plan 8.16 and 0.50.

    Args:
        seed: `Settings.seed` of the problem.

    Returns:
        The problem, the real system as an environment, and the reward [S, A].
    """
    simulator, real = CallLine(0.5), CallLine(0.05)
    system = estimate_by_sampling(
        simulator, 12, SystemDescription(start=2, cost=np.eye(8)[7], limit=0.5, name="steps full"), samples_per_row=10_000
    )
    trusted = MarkovPolicy.deterministic([2] * 8, num_actions=4, horizon=12)
    possible = [[[-people <= after - waiting <= 2 for after in range(8)] for people in range(4)] for waiting in range(8)]
    settings = Settings(margin=0.35, calibrated_gap=0.034, mismatch_gap=0.2, tolerance=0.08, seed=seed)
    problem = Problem(system.model, trusted, settings, support=Kernel.uniform_over(possible), estimated=system.row_accuracy)
    return Example(problem, system.as_env(real), np.tile(1.0 - np.arange(4) / 3, (8, 1)))


def oven(*, seed: int | None = None) -> Example:
    """Return an oven that drifts hotter than its simulator says, a little and everywhere.

    - States: warmth 0 to 7; start at 2.
    - Actions: 0 cool, 1 hold, 2 heat, by one degree of warmth.
    - Dynamics: a drift of -1, 0 or 1 is added. The simulator gives it probabilities 0.10, 0.80, 0.10; the real oven has
      0.10, 0.75, 0.15.
    - Horizon: 12 steps.
    - Cost: 1 for every step at warmth 7, the last state included; in expectation at most 1.
    - Reward: warmth / 7.
    - Trusted policy: heats up to warmth 3, then holds against the drift by cooling from 4 on.
    - Assumed: every row is within 0.08 of the simulator's in total variation, warmth changes by at most 2 in a step. No row
      is assumed exact, so `calibrated_gap` and `mismatch_gap` are both 0.

    Exact on the real oven, reward and cost: trusted policy 5.08 and 0.00; the simulator's plan 8.95 and 1.42, which violates
    the limit; the best safe plan 8.72 and 1.00.

    Args:
        seed: `Settings.seed` of the problem.

    Returns:
        The problem, the real system as an environment, and the reward [S, A].
    """
    drifts = (-1, 0, 1)

    def table(law: Sequence[float]) -> TransitionTable:
        return {
            warmth: {
                heat: _outcomes(
                    warmth / 7,
                    ((p, int(np.clip(warmth + heat - 1 + drift, 0, 7))) for p, drift in zip(law, drifts, strict=True)),
                )
                for heat in range(3)
            }
            for warmth in range(8)
        }

    names = {"state_names": [f"warmth {n}" for n in range(8)], "action_names": ("cool", "hold", "heat")}
    simulator, real = (TableEnv(table(law), start=2, **names) for law in ((0.10, 0.80, 0.10), (0.10, 0.75, 0.15)))
    system = from_gymnasium(simulator, 12, SystemDescription(cost=np.eye(8)[7], limit=1.0, name="steps too hot"))
    trusted = MarkovPolicy.deterministic([2, 2, 2, 1, 0, 0, 0, 0], num_actions=3, horizon=12)
    possible = [[[abs(after - warmth) <= 2 for after in range(8)]] * 3 for warmth in range(8)]
    settings = Settings(margin=0.9, calibrated_gap=0.0, mismatch_gap=0.0, tolerance=0.2, seed=seed)
    problem = Problem(system.model, trusted, settings, support=Kernel.uniform_over(possible), within=np.full((8, 3), 0.08))
    return Example(problem, system.as_env(real), system.unit_reward)


def pond(*, seed: int | None = None) -> Example:
    """Return a pond with known physics and unknown rain: its rows are tied by one law.

    - States: level 0 to 8; start at 3.
    - Actions: let out 0, 1 or 2.
    - Dynamics: the level, less the water let out, plus the rain of 0 to 3. The simulator gives rain the probabilities
      0.4, 0.4, 0.2, 0.0; the real pond has 0.3, 0.3, 0.2, 0.2.
    - Horizon: 12 steps.
    - Cost: 1 for every step at level 8, the last state included; in expectation at most 1.
    - Reward: level / 8.
    - Trusted policy: let out 2, always.
    - Assumed: the physics are exact, for any law of the rain; the ties imply the support.

    Exact on the real pond, reward and cost: trusted policy 2.85 and 0.00; the simulator's plan 9.29 and 3.41, which violates
    the limit; the best safe plan 8.04 and 1.00.

    Args:
        seed: `Settings.seed` of the problem.

    Returns:
        The problem, the real system as an environment, and the reward [S, A].
    """

    def after(level: int, out: int, rain: int) -> int:
        return min(8, max(0, level - out) + rain)

    believed, true = (0.4, 0.4, 0.2, 0.0), (0.3, 0.3, 0.2, 0.2)
    flooding = SystemDescription(start=3, cost=lambda level, out: level == 8, limit=1.0, name="floods", counts_end=True)
    system = from_dynamics(range(9), range(3), after, Noise(range(4), believed, exact=True), 12, flooding)
    table = {
        level: {out: _outcomes(level / 8, ((p, after(level, out, rain)) for rain, p in enumerate(true))) for out in range(3)}
        for level in range(9)
    }
    trusted = MarkovPolicy.deterministic([2] * 9, num_actions=3, horizon=12)
    settings = Settings(margin=0.8, calibrated_gap=0.0, mismatch_gap=0.1, tolerance=0.2, seed=seed)
    problem = Problem(system.model, trusted, settings, ties=system.ties)
    return Example(problem, system.system.as_env(TableEnv(table, start=3)), np.tile(np.arange(9)[:, None] / 8, (1, 3)))


def inventory(*, seed: int | None = None) -> Example:
    """Return an inventory with four seasons; the simulator is wrong about the demand of one.

    - States: stock 0 to 15 in each of spring, summer, autumn, winter, in this order; start with 6 in spring.
    - Actions: order 0 to 5.
    - Dynamics: the order arrives (up to 15), then a demand of 0 to 7 is served as far as there is stock, then the season
      changes. In the real shop 0.4 of winter's demand is at 6 and 7, where the simulator has none above 3.
    - Horizon: 16 quarters.
    - Cost: 1 for every quarter that begins with an empty shelf; in expectation at most 2.
    - Reward: the share of the shelf that is empty once the order has arrived: money that is not tied up in stock.
    - Trusted policy: order up to 10.
    - Assumed: stock and season follow from order and demand exactly, for any laws of demand.

    Exact in the real shop, reward and cost: trusted policy 5.46 and 0.00; the simulator's plan 11.91 and 3.20, which
    violates the limit; the best safe plan 11.43 and 2.00.

    Args:
        seed: `Settings.seed` of the problem.

    Returns:
        The problem, the real system as an environment, and the reward [S, A].
    """
    full, seasons = 15, ("spring", "summer", "autumn", "winter")
    believed = {
        "spring": (0.1, 0.3, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0),
        "summer": (0.0, 0.1, 0.2, 0.3, 0.2, 0.2, 0.0, 0.0),
        "autumn": (0.2, 0.3, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0),
        "winter": (0.3, 0.4, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0),
    }
    true = believed | {"winter": (0.1, 0.2, 0.2, 0.1, 0.0, 0.0, 0.2, 0.2)}
    states = [(stock, season) for stock in range(full + 1) for season in seasons]
    number = {state: i for i, state in enumerate(states)}

    def after(at: tuple[int, str], order: int, demand: int) -> tuple[int, str]:
        return max(0, min(full, at[0] + order) - demand), seasons[(seasons.index(at[1]) + 1) % 4]

    def free(at: tuple[int, str], order: int) -> float:
        return 1.0 - min(full, at[0] + order) / full

    demand_by_season = Noise(range(8), believed, classes=lambda at, order: at[1], exact=True)
    empty = SystemDescription(start=(6, "spring"), cost=lambda at, order: at[0] == 0, limit=2.0, name="empty shelf")
    system = from_dynamics(states, range(6), after, demand_by_season, 16, empty, reward=free)
    table = {
        number[at]: {
            order: _outcomes(
                free(at, order), ((p, number[after(at, order, demand)]) for demand, p in enumerate(true[at[1]]))
            )
            for order in range(6)
        }
        for at in states
    }
    trusted = MarkovPolicy.deterministic([min(5, max(0, 10 - stock)) for stock, _ in states], num_actions=6, horizon=16)
    settings = Settings(margin=1.5, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.375, seed=seed)
    problem = Problem(system.model, trusted, settings, ties=system.ties)
    real = TableEnv(table, start=number[(6, "spring")])
    return Example(problem, system.system.as_env(real), system.system.reward)


def _binomial(n: int, p: float) -> NDArray[np.float64]:
    """[n + 1] probabilities of 0 to n successes."""
    law = np.ones(1)
    for _ in range(n):
        law = np.convolve(law, [1.0 - p, p])
    return law


def _outcomes(reward: float, law: Iterable[tuple[float, int]]) -> list[tuple[float, int, float, bool]]:
    """The entries of a table for a law of (probability, next state): one for each next state, none of probability 0."""
    merged: dict[int, float] = {}
    for probability, state in law:
        merged[state] = merged.get(state, 0.0) + probability
    return [(probability, state, reward, False) for state, probability in merged.items() if probability > 0.0]


ALL: Mapping[str, Any] = {one.__name__: one for one in (lake, machine, calls, oven, pond, inventory)}
