"""Mountain car through the discretiser: the simulator has the engine wrong on one stretch of the track.

    python examples/mountain_car.py [--out FOLDER]

A car in a valley should reach the hill on its right, and its expected number of steps above a speed limit is at most 1 of
20. The simulator is Gymnasium's mountain car. On the valley floor the real engine has 2.5 times the force that the
simulator believes, so what the simulator plans breaks the limit. Both cars are cut into cells of position and speed. The
cells of the real car are explored with certified constants to the stop, and every policy deployed on the way is evaluated
exactly. Then the plans drive the continuous car, of which no certificate speaks, and the physics are changed everywhere,
which the assumptions do not allow: the study shows what happens to the numbers, and what the data say.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mountain_car_figure import draw
from mountain_car_report import show
from mountain_car_track import (
    COAST,
    ENGINE,
    GAP,
    HEAVIER,
    HORIZON,
    LIMIT,
    Cars,
    Track,
    at_goal,
    cars,
    cells_of,
    model_of,
    worth,
)
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import safe2real as s2r
from safe2real.exploration import explore
from safe2real.exploration.simulate import roll_out
from safe2real.systems.estimate import EstimatedModel
from safe2real.systems.measure import estimate_margin

COARSE = (17, 13)  # positions x speeds

Report = Callable[[float], None]  # the share that is done


@dataclass(frozen=True)
class Size:
    """How much is computed; the tests do less."""

    points: int = 50  # starting points in every cell
    episodes: int = 30_000_000  # of the exploration, at most
    without: int = 1_024_000  # episodes of the exploration that never trusts the simulator
    drives: int = 3_000  # of each policy on the continuous car
    car_episodes: int = 2_000  # of the continuous car that are given to the learner of its cells, at most
    fine: tuple[int, int] = (34, 26)  # positions x speeds of the finer cells
    rehearsals: int = 10_000  # of the baseline, to measure its margin


@dataclass(frozen=True)
class Checkpoint:
    """A certified plan for the goal after so many episodes."""

    episodes: int
    at_least: float  # steps at the goal, certified
    at_most: float  # of any feasible policy, certified
    earned: float  # exactly
    cost: float  # exactly


@dataclass(frozen=True, eq=False)
class Exploration:
    """The cells of a real car, explored."""

    cars: Cars
    learner: s2r.Learner
    stopped: bool
    episodes: int
    began: NDArray[np.int64]  # [T] the first episode of every plan that was deployed
    costs: NDArray[np.float64]  # [T] its expected steps above the limit, exactly
    checkpoints: tuple[Checkpoint, ...]
    plan: s2r.exploration.Plan
    contradicted: int | None  # episodes after which the data contradict the assumptions, looked at when they have doubled

    @property
    def unsafe(self) -> int:
        """How many of the deployed mixtures break the limit, by exact evaluation."""
        return int((self.costs > LIMIT + 1e-9).sum())


@dataclass(frozen=True)
class Driven:
    """One policy, on the cells exactly and on the continuous car by driving it; 95 % confidence intervals."""

    name: str
    cells: tuple[float, float]  # steps at the goal, steps above the limit
    car: tuple[float, float]
    error: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Study:
    exploration: Exploration
    without: Exploration  # the same car, the simulator never trusted
    driven: tuple[Driven, ...]
    car_contradicts: int | None  # episodes of the continuous car until the data contradict the assumptions
    heavier: Exploration  # gravity is wrong everywhere
    heavier_without: Exploration
    seconds: float


def coast(cars: Cars) -> s2r.MarkovPolicy:
    """The trusted policy: the engine stays off, however strong it is."""
    return s2r.MarkovPolicy.deterministic(np.full(cars.model.num_states, COAST), num_actions=3, horizon=HORIZON)


def learner_for(cars: Cars, rehearsals: int, method: s2r.methods.Method | None = None) -> s2r.Learner:
    """Certified constants; the margin is a lower confidence bound from episodes of the baseline."""
    baseline = coast(cars)
    episodes = [roll_out(cars.real, baseline, seed=1, round_number=i) for i in range(1, rehearsals + 1)]
    margin = float(estimate_margin(cars.model, episodes, delta=0.01).margins[0])
    settings = s2r.Settings(
        margin=margin, calibrated_gap=0.0, mismatch_gap=GAP, tolerance=margin / 4, delta=0.04, replan_growth=0.05, seed=0,
    )  # fmt: skip
    problem = s2r.Problem(cars.model, baseline, settings, known=cars.simulated.system.known, support=cars.support)
    return s2r.Learner(problem, method)


def explore_cells(cars: Cars, learner: s2r.Learner, episodes: int, report: Report) -> Exploration:
    """To the stop or for so many episodes; each time they have doubled, a plan for the goal."""
    done, stopped, contradicted = 0, False, None
    began, costs, checkpoints = [], [], []
    reward = at_goal(cars.simulated)
    plan = learner.plan(reward)
    tolerance = learner.settings.tolerance
    while done < episodes and not stopped:
        rounds = min(max(500, done), episodes - done)
        run = s2r.simulate(
            learner, cars.real.kernel, max_rounds=rounds,
            progress=lambda n, delta, base=done: report(max((base + n) / episodes, (tolerance / delta) ** 2)),
        )  # fmt: skip
        began.append(done + np.cumsum(run.deployed) - run.deployed)
        costs.append(cars.real.horizon - run.real_values[:, 0])
        done, stopped = done + run.rounds, run.stopped or run.halted
        plan = learner.plan(reward)
        if contradicted is None and learner.evidence.refuted.any():
            contradicted = done
        checkpoints.append(Checkpoint(done, plan.value, plan.bound, *worth(cars.real, plan.policy, reward)))
    return Exploration(
        cars, learner, stopped, done, np.concatenate(began), np.concatenate(costs), tuple(checkpoints), plan, contradicted
    )


def drive(
    name: str,
    policy: s2r.model.Policy,
    found: EstimatedModel,
    real: s2r.CMDP,
    track: Track,
    drives: int,
    grid: tuple[int, int],
) -> Driven:
    """The policy on the continuous car: it sees the cell, the car is where it is."""
    env, reward = found.system.as_env(cells_of(track, grid)), at_goal(found)
    paid = 1.0 - real.utilities[0, 0, :, 0]
    rng = np.random.default_rng(0)
    sums = np.zeros((drives, 2))
    for episode in range(drives):
        chosen = policy.draw(rng) if isinstance(policy, s2r.Mixture) else policy
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        for step in range(HORIZON):
            sums[episode] += reward[state, 0], paid[state]
            state = env.step(chosen.act(step, state, rng))[0]
        sums[episode, 1] += paid[state]  # to be fast at the end is paid for too, nothing is earned there
    goal, fast = sums.mean(axis=0).tolist()
    goal_error, fast_error = (1.96 * sums.std(axis=0, ddof=1) / np.sqrt(drives)).tolist()
    return Driven(name, worth(real, policy, reward), (goal, fast), (goal_error, fast_error))


def car_as_data(cars: Cars, learner: s2r.Learner, episodes: int) -> int | None:
    """Episodes of the continuous car given to a learner of the cells until the data contradict what was assumed."""
    env = cars.simulated.system.as_env(cells_of(cars.track))
    while learner.round <= episodes:
        explore(learner, env, max_rounds=10)
        learner.evidence.update()
        if learner.evidence.refuted.any():
            return learner.round - 1
    return None


def study(size: Size, stage: Callable[[str], Report]) -> Study:
    """All parts of the study; `stage(name)` announces one and returns where to report its progress."""
    began = time.perf_counter()
    stage("cells")
    ours = cars(Track(engine=ENGINE), points=size.points)
    report = stage("exploring")
    found = explore_cells(ours, learner_for(ours, size.rehearsals), size.episodes, report)
    report = stage("without simulator")
    reward_free = s2r.methods.RewardFree()
    without = explore_cells(ours, learner_for(ours, size.rehearsals, reward_free), size.without, report)
    stage("driving")
    policies: dict[str, s2r.model.Policy] = {
        "engine off (trusted)": coast(ours),
        "planned on the simulator": s2r.solve(ours.model, at_goal(ours.simulated)).policy,
        "certified plan": found.plan.policy,
    }
    driven = [
        drive(name, policy, ours.simulated, ours.real, ours.track, size.drives, COARSE) for name, policy in policies.items()
    ]
    fine = model_of(ours.track, points=max(4, size.points // 3), grid=size.fine)
    best = s2r.solve(fine.system.model, at_goal(fine)).policy
    driven.append(drive("best plan of 4 x finer cells", best, fine, fine.system.model, ours.track, size.drives, size.fine))
    contradicts = car_as_data(ours, learner_for(ours, size.rehearsals), size.car_episodes)
    report = stage("heavier")
    heavy = cars(Track(gravity=HEAVIER), points=size.points, simulated=ours.simulated)
    heavier = explore_cells(heavy, learner_for(heavy, size.rehearsals), min(size.without, 16_000), lambda share: None)
    heavier_without = explore_cells(heavy, learner_for(heavy, size.rehearsals, reward_free), size.without, report)
    seconds = time.perf_counter() - began
    return Study(found, without, tuple(driven), contradicts, heavier, heavier_without, seconds)


STAGES = {"cells": 10.0, "exploring": 45.0, "without simulator": 20.0, "driving": 25.0, "heavier": 25.0}  # seconds or so


@contextmanager
def stages() -> Iterator[Callable[[str], Report]]:
    """One bar for all parts, weighed by how long they take."""
    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=sum(STAGES.values()))

        def stage(name: str) -> Report:
            names = list(STAGES)
            before = sum(STAGES[other] for other in names[: names.index(name)])
            progress.update(bar, description=name, completed=before)
            return lambda share: progress.update(bar, completed=before + STAGES[name] * min(1.0, share))

        yield stage


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/mountain_car"), help="where the figure goes")
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with stages() as stage:
        found = study(Size(), stage)
    show(found, console)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "mountain-car.png"
    draw(found).savefig(path, dpi=120)
    console.print(f"figure: {path}")


if __name__ == "__main__":
    main()
