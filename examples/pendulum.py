"""Pendulum from logs: a model, a baseline and its margin from what a controller has recorded.

    python examples/pendulum.py [--episodes N]

A damping controller has run on a pendulum that is heavier than Gymnasium's, and its observations and torques were kept. The
speed should rarely exceed 5 rad/s. Observations and torques are continuous, so a discretiser turns them
into cells. From the logs come: the rows that were visited and how accurate they are, the controller's margin with a
confidence bound, and a clone of the controller that acts on cells. Nothing here is certified: it is what one does before a
campaign, and it shows where the cells and the pendulum part.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import gymnasium
import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

import safe2real as s2r
from safe2real.systems.datasets import read_episodes
from safe2real.systems.discretise import Discretised
from safe2real.systems.estimate import Counting, EstimatedModel, estimate_from_log
from safe2real.systems.finite import SystemDescription
from safe2real.systems.measure import MarginEstimate, clone_baseline, estimate_margin

HORIZON = 40  # steps of 0.05 s
FAST = 5.0  # rad/s
LIMIT = 4.0  # expected steps above it
MASS = 1.2  # of the real pendulum; Gymnasium's has 1

Controller = Callable[[int, NDArray[np.float32]], NDArray[np.float32]]  # (step, observation) -> torque
Episodes = list[tuple[NDArray[np.float64], NDArray[np.float64]]]  # (observations [H + 1, 3], torques [H, 1]) of each


def pendulum() -> gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]:
    env = gymnasium.make("Pendulum-v1", max_episode_steps=HORIZON)
    env.unwrapped.m = MASS  # type: ignore[attr-defined]
    return env


def cells() -> Discretised:
    """The observation is (cos, sin, speed); cells are of angle and speed, with an edge at the speed that counts as fast."""
    speeds = [-6.5, -5.0, -3.5, -2.0, -0.7, 0.7, 2.0, 3.5, 5.0, 6.5]
    return Discretised(
        pendulum(),
        bins=(16, speeds),
        low=(-math.pi, -8.0),
        high=(math.pi, 8.0),
        action_bins=(5,),
        features=lambda seen: (math.atan2(seen[1], seen[0]), seen[2]),
    )


def damping(rng: np.random.Generator) -> Controller:
    """Torque against the motion, with some noise: the policy that somebody trusts."""
    return lambda step, seen: np.clip(np.float32([-0.6 * seen[2] + rng.normal(0.0, 0.7)]), -2.0, 2.0)


def record(act: Controller, episodes: int, seed: int, label: str) -> Episodes:
    """Episodes as they are logged."""
    env, found = pendulum(), []
    for episode in track(range(episodes), label, console=Console(stderr=True), transient=True):
        observations, torques = [env.reset(seed=seed + episode)[0]], list[NDArray[np.float64]]()
        for step in range(HORIZON):
            torques.append(act(step, observations[-1]))
            observations.append(env.step(torques[-1])[0])
        found.append((np.array(observations), np.array(torques)))
    return found


def learn(episodes: Episodes) -> tuple[EstimatedModel, MarginEstimate, s2r.MarkovPolicy]:
    """(model of the cells, margin of the controller, its clone)."""
    grid = cells()
    speed = np.array([abs(grid.centre(state)[1]) for state in range(grid.num_states)])
    log = read_episodes(episodes, discretiser=grid)
    found = estimate_from_log(
        log,
        HORIZON,
        SystemDescription(cost=(speed > FAST).astype(float), limit=LIMIT, name="fast"),
        counting=Counting(unvisited="stay"),
    )
    paths = found.trajectories()
    margin = estimate_margin(found.system.model, paths, delta=0.05)
    return found, margin, clone_baseline(found.system.model, paths, smoothing=0.1)


def on_cells(policy: s2r.MarkovPolicy, rng: np.random.Generator) -> Controller:
    """A policy of the cells as a controller."""
    grid = cells()
    return lambda step, seen: grid.action_of(policy.act(step, grid.state_of(seen), rng))


def fast_steps(episodes: Episodes) -> tuple[float, float]:
    """(mean steps above the limit in an episode as the model counts them, half of its 95 % interval).

    The first state counts, and so does the one that the last step leads to.
    """
    totals = np.array([(np.abs(observations[:, 2]) > FAST).sum() for observations, _ in episodes])
    return float(totals.mean()), float(1.96 * totals.std(ddof=1) / math.sqrt(totals.size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2_000, help="logged episodes of the controller")
    episodes = parser.parse_args().episodes
    console = Console(width=None if sys.stdout.isatty() else 110)
    logged = record(damping(np.random.default_rng(0)), episodes, 0, "logging")
    found, margin, clone = learn(logged)
    driven = record(on_cells(clone, np.random.default_rng(1)), episodes, 10_000_000, "driving the clone")
    console.print(found.describe())
    console.print(
        f"Margin of the controller to the limit of {LIMIT:g} steps above {FAST:g} rad/s: at least "
        f"{margin.margins[0]:.3f} with probability 0.95 ({margin.episodes} episodes)."
    )
    table = Table(title=f"Expected steps above {FAST:g} rad/s, of {HORIZON} and the end", box=SIMPLE)
    for column in ("", "pendulum, 95 % interval", "model of the cells, exactly"):
        table.add_column(column, justify="right" if column else "left")
    model = found.system.model
    cost = model.wordings[0].number(s2r.planning.constraint_values(model, clone)[0])
    table.add_row("controller, as logged", "{:.3f} ± {:.3f}".format(*fast_steps(logged)), "")
    table.add_row("its clone on cells", "{:.3f} ± {:.3f}".format(*fast_steps(driven)), f"{cost:.3f}")
    console.print(table)


if __name__ == "__main__":
    main()
