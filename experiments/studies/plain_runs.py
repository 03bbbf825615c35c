"""Plain reinforcement learning on the real system, beside a certified plan: how many unsafe episodes until it is as good.

A learner is as good as the certified plan once the policy that it would give out is safe on the real system and worth at
least 95 % of what the plan is worth there, which is certified to be within 5 % of the best itself. It runs until its policy
is safe and worth 95 % of the BEST safe value, which no plan exceeds, so that a run does not need to know the plan; when it
was as good as the plan is read off its records. Constraints enter as a penalty: it learns r - penalty (1 - c). All values
are exact, on the known real system.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from experiments.fluid_limit import run_in_batches
from experiments.related.base import as_it_is, empirical, over, visits_of
from experiments.related.clipped import clipped_maximum
from experiments.store import Plain
from experiments.studies.declared_systems import instance
from experiments.studies.instance import Instance
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.methods.base import Decision, Method, refuted_decision
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.policy import MarkovPolicy, Mixture, Policy
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem

TASKS = {"grid": "cell (0, 4)", "lake": "goal"}  # the reward of each system
ACCURACY, MOST, MOST_BATCHED = 0.05, 100_000, 3_000_000  # of the certified plan; episodes
_EXPLORING, _LOOK, _ERROR = 0.1, 1.02, 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class UCBVI(Method):
    """UCBVI-CH (Azar, Osband, Munos, ICML 2017) on r - penalty (1 - c), scaled to [0, 1]: b = 7 H L / sqrt(n)."""

    utility: Floats  # [H, S, A] in [0, 1]
    episodes: int
    scale: float = 1.0  # of the bonus; below 1 it is no longer UCB-VI
    name: ClassVar[str] = "UCB-VI with a cost penalty"
    reuses_simulator: ClassVar[bool] = False
    keeps_safe: ClassVar[bool] = False
    covers_any_reward: ClassVar[bool] = False

    def propose(self, problem: Problem, evidence: Evidence, *, seed: int, round_number: int, memory: Any = None) -> Decision:
        ended = refuted_decision(evidence)
        if ended is not None:
            return ended
        horizon, states, actions = problem.simulator.shape
        level = np.log(5.0 * states * actions * self.episodes * horizon / problem.settings.delta)
        bonus = np.zeros(problem.simulator.shape)  # none where only the end is counted: nothing is drawn after it
        steps = problem.simulator.steps
        bonus[:steps] = np.sqrt(over((7.0 * self.scale * horizon * level) ** 2, visits_of(evidence)))
        found = clipped_maximum(empirical(evidence), self.utility + bonus, gain=1.0, cap=float(horizon))
        return as_it_is(Mixture.of([1.0], [found.policy]), np.empty(0), found.value)


def bar_run(settings: Plain) -> Plain:
    """Episodes until the declared reward has a certified plan within 5 %, and what that plan is worth."""
    found, name = instance(settings["system"]), TASKS[settings["system"]]
    problem = found.problem(seed=settings["seed"], support=False)
    learner = Learner(problem, ForRewards({name: found.rewards[name]}, ACCURACY))
    run = simulate(learner, found.real, max_rounds=50_000)
    value, miss = judged(found, learner.plan(found.rewards[name]).policy, name)
    return {
        "episodes": run.rounds,
        "unsafe": round(run.unsafe_share(found.model.thresholds) * run.rounds),
        "value": value,
        "miss": miss,
        "best": best_value(settings["system"]),
    }


def judged(found: Instance, policy: Policy, name: str) -> tuple[float, float]:
    """(V_r, by how much the threshold is missed; at most 0 where it is met), exactly."""
    missed = found.reality.thresholds - constraint_values(found.reality, policy)
    return evaluate(found.reality, policy, found.rewards[name]), float(missed.max())


def plain_run(settings: Plain) -> Plain:
    """One plain learner on one system.

    `records` are [episodes before, unsafe ones among them, value] whenever its policy is safe and worth more than ever.
    """
    found, name = instance(settings["system"]), TASKS[settings["system"]]
    threshold, enough = float(found.model.thresholds[0]), (1.0 - ACCURACY) * best_value(settings["system"])
    seen = _Seen([])

    def see(done: int, deployed: float, policy: Policy) -> bool:
        seen.unsafe += (done - seen.done) * seen.unsafe_since
        seen.done, seen.unsafe_since = done, deployed < threshold - _ERROR
        seen.value, miss = judged(found, policy, name)
        if miss <= _ERROR and (not seen.records or seen.value > seen.records[-1][2]):
            seen.records.append((done, seen.unsafe, seen.value))
        return miss <= _ERROR and seen.value >= enough

    LEARNERS[settings["learner"]](found, name, settings["penalty"], settings["seed"], see)
    return {"records": seen.records, "ran": seen.done, "unsafe": seen.unsafe, "value": seen.value}


@dataclass(slots=True)
class _Seen:
    """Of a learner so far."""

    records: list[tuple[int, int, float]]
    done: int = 0
    unsafe: int = 0
    unsafe_since: bool = False
    value: float = 0.0


@cache
def best_value(system: str) -> float:
    """The best safe value on the real system."""
    found = instance(system)
    return solve(found.reality, found.rewards[TASKS[system]]).value


def passed(result: Plain, plan: float) -> Plain:
    """When a run was first worth 95 % of `plan`: its episodes (None if never), unsafe ones until then, and its value."""
    for episodes, unsafe, value in result["records"]:
        if value >= (1.0 - ACCURACY) * plan:
            return {"episodes": episodes, "unsafe": unsafe, "value": value, "bar": plan}
    return {"episodes": None, "ran": result["ran"], "unsafe": result["unsafe"], "value": result["value"], "bar": plan}


See = Callable[[int, float, Policy], bool]
"""(episodes before, V_c of what is deployed from then on, the policy that it would give out) -> whether that is enough"""


def _penalised(found: Instance, name: str, penalty: float) -> Floats:
    """[H, S, A] (r - penalty (1 - c) + penalty) / (1 + penalty): the same order of policies, in [0, 1].

    Where the end is paid for, it is by the penalty alone: nothing is earned there.
    """
    earned = np.zeros(found.model.shape)
    earned[: found.model.steps] = found.rewards[name]
    return np.asarray((earned + penalty * found.model.utilities[0]) / (1.0 + penalty))


def from_simulator(found: Instance, name: str, penalty: float, seed: int, see: See) -> None:
    """The constrained optimum of the simulator, deployed for good."""
    policy = solve(found.model, found.rewards[name]).policy
    safety = float(constraint_values(found.reality, policy)[0])
    if not see(0, safety, policy):
        see(MOST, safety, policy)


def ucb_vi(found: Instance, name: str, penalty: float, seed: int, see: See, scale: float = 1.0) -> None:
    """Deployed and given out alike: the optimistic policy."""
    problem = found.problem(seed=seed, support=False, refined=False)

    def note(done: int, decision: Decision, evidence: Evidence) -> bool:
        policy = decision.mixture(problem.baseline)
        return policy is not None and see(done, float(constraint_values(found.reality, policy)[0]), policy)

    method = UCBVI(_penalised(found, name, penalty), MOST_BATCHED, scale)
    run_in_batches(problem, method, found.real, most=MOST_BATCHED, progress=note)


def q_learning(found: Instance, name: str, penalty: float, seed: int, see: See) -> None:
    """Tabular, per step, from the largest values on, a tenth of the actions at random, learning rate (H + 1) / (H + n)."""
    horizon, states, actions = found.model.shape
    utility = _penalised(found, name, penalty).tolist()
    rows = [(row[0].tolist(), np.cumsum(row[1])[:-1].tolist()) for row in map(found.real.row, range(states * actions))]
    source, start = random.Random(seed), int(found.model.start.argmax())
    steps = range(found.model.steps)
    values = [[[float(horizon - step)] * actions for _ in range(states)] for step in steps]
    values.append(utility[-1] if found.model.counts_end else [[0.0] * actions for _ in range(states)])
    visits = [[[0] * actions for _ in range(states)] for _ in steps]
    look = 0.0
    for episode in range(MOST):
        if episode >= look:
            look = max(episode + 1.0, _LOOK * episode)
            table = np.array(values[:-1])
            greedy = MarkovPolicy.deterministic(table.argmax(axis=-1), num_actions=actions)
            noisy = MarkovPolicy.stochastic((1.0 - _EXPLORING) * greedy.probabilities + _EXPLORING / actions)
            if see(episode, float(constraint_values(found.reality, noisy)[0]), greedy):
                return
        state = start
        for step in steps:
            here = values[step][state]
            action = source.randrange(actions) if source.random() < _EXPLORING else here.index(max(here))
            successors, ends = rows[state * actions + action]
            after = int(successors[bisect.bisect_right(ends, source.random())])
            visits[step][state][action] += 1
            rate = (horizon + 1.0) / (horizon + visits[step][state][action])
            here[action] += rate * (utility[step][state][action] + max(values[step + 1][after]) - here[action])
            state = after


LEARNERS: dict[str, Callable[[Instance, str, float, int, See], None]] = {
    "plan on the simulator": from_simulator,
    "Q-learning": q_learning,
    "UCB-VI": ucb_vi,
    "UCB-VI, bonus / 100 (heuristic)": partial(ucb_vi, scale=0.01),
}
