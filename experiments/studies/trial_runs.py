"""The runs of the study on trials: how many episodes until a frozen policy is certified by its own returns?

The instance is that of the certified study: the windy grid, a baseline that walks to a corner, its true margin. The policy
on trial is the best one for a random reward on the simulator, of which the wind of reality makes something else.
"""

from __future__ import annotations

import numpy as np

from experiments.store import Plain
from experiments.studies.certified_runs import DELTA, THRESHOLD, corner_walk
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.methods.trial import Trial
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems.windy_grid import WindyGrid


def learner_of(settings: Plain) -> tuple[WindyGrid, Learner, Trial]:
    """The grid, and a learner with the simulator's plan for the random reward of a `seed` on trial."""
    grid = WindyGrid.paper()
    model, baseline = grid.cmdp(grid.simulator(), THRESHOLD), corner_walk(grid)
    margin = float(constraint_values(grid.cmdp(grid.real(), THRESHOLD), baseline)[0]) - THRESHOLD
    reward = np.random.default_rng([settings["seed"], 20_261_116]).random((grid.num_states, grid.num_actions))
    trial = Trial(solve(model, reward).policy, {"reward": reward})
    chosen = Settings(
        margin=margin,
        calibrated_gap=0.0,
        mismatch_gap=grid.mismatch_gap(),
        tolerance=margin / 4.0,
        delta=DELTA,
        seed=settings["seed"],
    )
    return grid, Learner(Problem(model, baseline, chosen), trial), trial


def trial_run(settings: Plain) -> Plain:
    """Floors and shares at growing numbers of episodes (`checkpoints`), beside exact values of everything deployed."""
    grid, learner, trial = learner_of(settings)
    real, reward = learner.simulator.with_kernel(grid.real()), np.asarray((trial.rewards or {})["reward"])
    points: list[Plain] = []
    unsafe, lowest, done = 0, np.inf, 0
    for checkpoint in settings["checkpoints"]:
        run = simulate(learner, grid.real(), max_rounds=checkpoint - done)
        unsafe += round(run.unsafe_share(real.thresholds) * run.rounds)
        lowest, done = min(lowest, float(run.real_values.min())), checkpoint
        floors = learner.floors()
        points.append({"episodes": done, "share": learner.decide().exploration_weight, **floors})
    return {
        "points": points,
        "unsafe_rounds": unsafe,
        "lowest_slack": lowest - THRESHOLD,
        "constraint": float(constraint_values(real, trial.candidate)[0]),
        "reward": evaluate(real, trial.candidate, reward),
        "best": solve(real, reward).value,
    }
