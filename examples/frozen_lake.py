"""FrozenLake 8x8 and CliffWalking: the simulator does not know where the ground is slippery.

    python examples/frozen_lake.py [--out FOLDER] [--seeds N]

Simulator and reality are Gymnasium's own environments with a table. In reality a few cells are more slippery: on the lake
three in the middle, between the holes; on the cliff three along the edge. Nobody knows which rewards will matter. One
exploration that keeps the constraint (time under water, number of falls) in every deployed policy finds the cells; then
plans for several rewards are made with no more real data, and compared with what the simulator alone would have planned.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from exploring import progress_to
from frozen_lake_figure import draw
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import safe2real as s2r

Cell = tuple[int, int]


@dataclass(frozen=True)
class World:
    """A pair of environments, what falling costs, the policy that is trusted, and rewards somebody may care about."""

    name: str
    shape: tuple[int, int]
    make: Callable[[Sequence[Cell]], gymnasium.Env[Any, Any]]  # with these cells slippery
    slippery: tuple[Cell, ...]
    system: s2r.systems.FiniteSystem  # the simulator: nothing is slippery
    baseline: s2r.MarkovPolicy
    margin: float
    rewards: dict[str, NDArray[np.float64]]  # [S, A] each
    unit: str  # of the cost

    @property
    def limit(self) -> float:
        return self.system.model.wordings[0].number(self.system.model.thresholds[0])

    def cost(self, kernel: s2r.Kernel, policy: s2r.model.Policy) -> float:
        model = self.system.model.with_kernel(kernel)
        return model.wordings[0].number(s2r.planning.constraint_values(model, policy)[0])


def lake(slippery: Sequence[Cell]) -> gymnasium.Env[Any, Any]:
    """A move goes as meant with probability 0.9 on good ice, 1/3 on slippery ice, else to either side."""
    env, slick = (gymnasium.make("FrozenLake-v1", map_name="8x8", success_rate=rate) for rate in (0.9, 1.0 / 3.0))
    for row, column in slippery:
        env.unwrapped.P[8 * row + column] = slick.unwrapped.P[8 * row + column]
    return env


def frozen_lake() -> World:
    horizon, limit = 30, 3.0
    # Being in a hole costs 1 in the step of falling and in every step after it: the time under water.
    holes = (lake(()).unwrapped.desc == b"H").ravel().astype(float)
    system = s2r.from_gymnasium(
        lake(()), horizon, s2r.SystemDescription(cost=holes, limit=limit, ended=holes, name="time under water")
    )
    # Along the upper edge to the right, then down the right edge; from the middle, up first.
    down, right, up = 1, 2, 3
    actions = np.full((8, 8), right)
    actions[1:5] = up
    actions[:, 7] = down
    at_goal = system.where([63]).copy()
    at_goal[system.after_end_of(63)] = 1.0
    rewards = {"goal, early": at_goal}
    for row, column in ((3, 4), (5, 4), (7, 5), (6, 3)):
        rewards[f"cell ({row}, {column})"] = system.where([8 * row + column])
    return World(
        name="FrozenLake 8x8",
        shape=(8, 8),
        make=lake,
        slippery=((2, 4), (3, 4), (4, 4)),
        system=system,
        baseline=s2r.MarkovPolicy.deterministic(system.per_state(actions.ravel()), num_actions=4, horizon=horizon),
        margin=1.4,
        rewards=rewards,
        unit="steps under water",
    )


def cliff(slippery: Sequence[Cell]) -> gymnasium.Env[Any, Any]:
    """Moves go as meant; on slippery ground with probability 1/3, else to either side."""
    env, slick = (gymnasium.make("CliffWalking-v1", is_slippery=rate) for rate in (False, True))
    for row, column in slippery:
        env.unwrapped.P[12 * row + column] = slick.unwrapped.P[12 * row + column]
    return env


def fell(state: int, action: int, next_state: int, reward: float, terminated: bool) -> float:
    return float(reward == -100)  # Gymnasium puts whoever falls back to the start


def cliff_walking() -> World:
    horizon, limit = 24, 0.5
    system = s2r.from_gymnasium(cliff(()), horizon, s2r.SystemDescription(cost=fell, limit=limit, ended=0.0, name="falls"))
    # Up to the upper edge, along it, and down on the far side: as far from the cliff as one can be.
    up, right, down = range(3)
    actions = np.full((4, 12), up)
    actions[0] = right
    actions[:, 11] = down
    at_goal = system.where([47]).copy()
    at_goal[system.after_end_of(47)] = 1.0
    rewards = {"goal, early": at_goal}
    for row, column in ((2, 3), (2, 6), (2, 10)):
        rewards[f"cell ({row}, {column})"] = system.where([12 * row + column])
    return World(
        name="CliffWalking",
        shape=(4, 12),
        make=cliff,
        slippery=((2, 3), (2, 6), (2, 9)),
        system=system,
        baseline=s2r.MarkovPolicy.deterministic(system.per_state(actions.ravel()), num_actions=4, horizon=horizon),
        margin=0.5,
        rewards=rewards,
        unit="falls",
    )


@dataclass(frozen=True)
class Planned:
    """One reward: what a plan is worth and costs on the real system."""

    reward: str
    simulator: tuple[float, float, float]  # promised, earned, cost: planned on the simulator alone
    certified: tuple[float, float, float]  # promised at least, earned, cost: planned on what was learnt
    suboptimality: float  # certified bound
    best: float  # of any feasible policy
    baseline: float


@dataclass(frozen=True)
class Study:
    """A world, explored."""

    world: World
    learner: s2r.Learner  # of the first seed
    run: s2r.exploration.Run
    real: s2r.Kernel
    stops: tuple[int, ...]  # episodes to the certified stop, one for each seed
    unsafe: tuple[float, ...]  # share of unsafe rounds, one for each seed
    highest_cost: float  # of any mixture deployed, exactly evaluated, over all seeds
    plans: tuple[Planned, ...]
    on_the_way: tuple[tuple[int, float], ...]  # (episodes, mean bound on what a plan may miss, as a share of the best)
    seconds: float


def explore(
    world: World, *, seeds: int, max_rounds: int = 20_000_000, on_the_way: Sequence[int] = (3_000, 10_000, 30_000)
) -> Study:
    """Explore to the certified stop with several seeds; plan for every reward with what the first one learnt."""
    began = time.perf_counter()
    model, real = world.system.model, world.system.kernel_of(world.make(world.slippery))
    done: list[tuple[s2r.Learner, s2r.exploration.Run]] = []
    for seed in range(seeds):
        learner = _learner(world, real, seed)
        with progress_to(learner.settings.tolerance, f"{world.name}, seed {seed}") as progress:
            done.append((learner, s2r.simulate(learner, real, max_rounds=max_rounds, progress=progress)))
    learner, run = done[0]
    plans = tuple(_planned(world, learner, real, name) for name in world.rewards)
    return Study(
        world=world,
        learner=learner,
        run=run,
        real=real,
        stops=tuple(run.rounds for _, run in done if run.stopped),
        unsafe=tuple(run.unsafe_share(model.thresholds) for _, run in done),
        highest_cost=max(model.wordings[0].number(run.real_values.min()) for _, run in done),
        plans=plans,
        on_the_way=tuple((episodes, _mean_bound(world, real, plans, episodes)) for episodes in on_the_way),
        seconds=time.perf_counter() - began,
    )


def _learner(world: World, real: s2r.Kernel, seed: int) -> s2r.Learner:
    gaps = real.distances_to(world.system.model.kernel)
    settings = s2r.Settings(
        margin=world.margin,
        calibrated_gap=0.0,
        mismatch_gap=float(gaps[gaps > 0.0].min()),
        tolerance=world.margin / 4,
        seed=seed,
        replan_growth=0.05,
    )
    return s2r.Learner(s2r.Problem(world.system.model, world.baseline, settings, known=world.system.known))


def _mean_bound(world: World, real: s2r.Kernel, plans: Sequence[Planned], episodes: int) -> float:
    """What plans may miss after so many episodes of the first run: long before its stop."""
    learner = _learner(world, real, seed=0)
    s2r.simulate(learner, real, max_rounds=episodes)
    return float(np.mean([learner.plan(world.rewards[plan.reward]).suboptimality / plan.best for plan in plans]))


def _planned(world: World, learner: s2r.Learner, real: s2r.Kernel, name: str) -> Planned:
    reward, model = world.rewards[name], world.system.model
    reality = model.with_kernel(real)
    raw, plan = s2r.solve(model, reward), learner.plan(reward)
    return Planned(
        reward=name,
        simulator=(raw.value, s2r.evaluate(reality, raw.policy, reward), world.cost(real, raw.policy)),
        certified=(plan.value, s2r.evaluate(reality, plan.policy, reward), world.cost(real, plan.policy)),
        suboptimality=plan.suboptimality,
        best=s2r.solve(reality, reward).value,
        baseline=s2r.evaluate(reality, world.baseline, reward),
    )


def report(study: Study, console: Console) -> None:
    """The tables of one world."""
    world, model = study.world, study.world.system.model
    suspects, wrong = study.learner.evidence.suspects, study.real.distances_to(model.kernel) > 0.0
    reachable = np.isin(np.arange(model.num_states), np.flatnonzero(study.run.state_visits))
    console.print(f"\n[bold]{world.name}[/bold]: at most {world.limit:g} expected {world.unit} in {model.steps} steps")
    console.print(
        f"  certified stop after {', '.join(f'{stop:,}' for stop in study.stops)} episodes of {model.steps} steps "
        f"({len(study.stops)} of {len(study.unsafe)} seeds stopped)\n"
        f"  unsafe policies deployed: {max(study.unsafe):.0%}; highest exact cost of any of them "
        f"{study.highest_cost:.4f} (limit {world.limit:g}); the baseline's {world.cost(study.real, world.baseline):.4f}\n"
        f"  rows still in doubt where the system goes: {int((suspects & reachable[:, None]).sum())}, "
        f"of them truly wrong: {int((suspects & wrong).sum())} of {int(wrong.sum())}\n"
        f"  {study.learner.plan(next(iter(world.rewards.values()))).certificate.describe()}"
    )
    bounds = ", ".join(f"{bound:.1%} after {episodes:,}" for episodes, bound in study.on_the_way)
    console.print(f"  what plans may miss, certified, mean share of the best feasible: {bounds} episodes\n")
    table = Table(title=f"Plans for rewards named afterwards, on the real system ({study.seconds:.0f} s in all)", box=SIMPLE)
    table.add_column("\nreward", no_wrap=True)
    for column in (
        "simulator's:\npromised", "\nearned", "\ncost", "certified:\nat least", "\nearned", "\ncost", "best\nfeasible",
        "\nbaseline",
    ):  # fmt: skip
        table.add_column(column, justify="right", no_wrap=True)
    for plan in study.plans:
        numbers = (*plan.simulator, *plan.certified, plan.best, plan.baseline)
        texts = [f"{number:.3f}" for number in numbers]
        if plan.simulator[2] > world.limit + 1e-9:
            texts[2] += "!"
        table.add_row(plan.reward, *texts)
    console.print(table)
    console.print(f"  ! the limit of {world.limit:g} {world.unit} is broken")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/frozen_lake"), help="where the figure goes")
    parser.add_argument("--seeds", type=int, default=5, help="explorations of each world")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 110)
    studies = [explore(world, seeds=arguments.seeds) for world in (frozen_lake(), cliff_walking())]
    for study in studies:
        report(study, console)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "frozen-lake.png"
    draw(studies).savefig(path, dpi=120)
    console.print(f"figure: {path}")


if __name__ == "__main__":
    main()
