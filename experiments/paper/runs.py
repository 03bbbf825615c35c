"""The runs behind the artefacts; each takes plain settings and returns plain results, so that any machine can do it."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from experiments.paper.inferred import Constants, estimation_grid, grid_of, learner_on, uniform_policy
from experiments.store import Plain, Row, Task, results_where
from safe2real import methods
from safe2real.evidence.counts import Counts
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import Run, collect, simulate
from safe2real.methods.base import Method
from safe2real.model.policy import Mixture
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.systems.measure import estimate_mismatch_gap
from safe2real.systems.windy_grid import WindyGrid

CURVE_STEP = 10  # rounds between two points of a safety curve
METHODS: dict[str, Method] = {kind.name: kind() for kind in methods.ANY_REWARD}
"""Algorithms 1, 2 and 3 by the names that runs are kept under."""


def explore_run(settings: Plain) -> Plain:
    """One run of Algorithm 1, 2 or 3 on a windy grid, with plans for random rewards after its stop."""
    grid = grid_of(settings["grid"], settings["wind"], settings["windy"])
    learner = learner_on(
        grid,
        seed=settings["seed"],
        mismatch_gap=settings["mismatch_gap"],
        method=METHODS[settings["algorithm"]],
        constants=Constants(**settings["constants"]),
    )
    run = simulate(learner, grid.real())
    return summary(grid, learner, run) | plans(grid, learner, settings["seed"], settings["rewards"])


def summary(grid: WindyGrid, learner: Learner, run: Run) -> Plain:
    """What is kept of a run."""
    return {
        "stopped": run.stopped,
        "rounds": run.rounds,
        "samples": run.samples,
        "unsafe_share": run.unsafe_share(learner.simulator.thresholds),
        "lowest_value": float(run.real_values.min()),
        "suspects": int(run.suspects[-1]),
        "lost": int((~learner.evidence.suspects & grid.mismatch()).sum()),
        "state_visits": run.state_visits.tolist(),
        "curve": np.round(run.real_values[::CURVE_STEP, 0], 6).tolist(),
    }


def plans(grid: WindyGrid, learner: Learner, seed: int, rewards: int) -> Plain:
    """Suboptimality and feasibility on the real system of the plans for random rewards.

    A reward is r_h(s, a), as in the paper: each of its H S A numbers is drawn by itself, uniformly on [0, 1].
    """
    real = learner.simulator.with_kernel(grid.real())
    rng = np.random.default_rng([seed, 20_260_101])
    suboptimalities, feasible = [], []
    for _ in range(rewards):
        reward = rng.random((grid.horizon, grid.num_states, grid.num_actions))
        policy: Mixture = learner.plan(reward).policy
        suboptimalities.append(solve(real, reward).value - evaluate(real, policy, reward))
        feasible.append(bool((constraint_values(real, policy) >= real.thresholds - 1e-9).all()))
    if not rewards:
        return {}
    return {
        "suboptimalities": suboptimalities,
        "suboptimality": float(np.mean(suboptimalities)),
        "feasible": float(np.mean(feasible)),
    }


def estimation_run(settings: Plain) -> Plain:
    """Algorithm 4 on one instance: the estimate at many sample sizes, and when C = B first holds. Literal radius."""
    grid = estimation_grid(settings["instance"])
    truth = grid.mismatch()
    real = grid.cmdp(grid.real(), 0.0)
    counts = Counts(grid.simulator(), grid.horizon)
    samples, estimates, complete = [], [], []
    while counts.samples < settings["samples"]:
        collect(real, uniform_policy(grid), counts, episodes=settings["episodes_per_point"], seed=settings["seed"])
        estimate = estimate_mismatch_gap(counts, delta=settings["delta"])
        samples.append(counts.samples)
        estimates.append(round(estimate.gap, 6))
        complete.append(bool((estimate.detected == truth).all()))
    first = next((n for n, done in zip(samples, complete, strict=True) if done), None)
    above = [e > grid.mismatch_gap() + 1e-12 for e, done in zip(estimates, complete, strict=True) if done]
    return {"samples": samples, "estimates": estimates, "first_complete": first, "ever_above": any(above)}


def explore_task(
    *,
    seed: int,
    constants: Constants,
    method: Method | None = None,
    grid: str = "paper",
    wind: float = 0.8,
    windy: int = 3,
    mismatch_gap: float = 0.68,
    rewards: int = 0,
) -> Task:
    """Settings of `explore_run`."""
    settings = {"grid": grid, "wind": wind, "windy": windy, "mismatch_gap": mismatch_gap, "rewards": rewards, "seed": seed}
    algorithm = (method or methods.SimToReal()).name
    return Task(explore_run, {"algorithm": algorithm, **settings, "constants": asdict(constants)}, compiled=True)


def rounds_where(rows: list[Row], method: Method, key: str, value: float) -> NDArray[np.int64]:
    """Iterations of the runs of one method with one setting, in the order of their seeds."""
    return np.array([result["rounds"] for result in results_where(rows, algorithm=method.name, **{key: value})])


def unsafe_runs(rows: list[Row]) -> int:
    """How many runs deployed an unsafe policy at least once."""
    return sum(row["result"]["unsafe_share"] > 0.0 for row in rows)
