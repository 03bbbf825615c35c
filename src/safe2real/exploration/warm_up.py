"""Compiled code, made or loaded before it is needed: of many processes one makes it, and no task has to wait for it."""

from __future__ import annotations

from functools import cache

import numpy as np

from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.evaluate import evaluate
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems.windy_grid import WindyGrid


@cache
def compile_everything() -> None:
    """A round, a proposal and a plan, with all refinements: what problems with one constraint need. Once in a process.

    Code for several constraints is made by whoever has some.
    """
    grid = WindyGrid.paper()
    model, shape = grid.cmdp(grid.simulator(), 0.0), (grid.num_states, grid.num_actions)
    baseline = MarkovPolicy.stochastic(np.full(shape, 1.0 / grid.num_actions), horizon=grid.horizon)
    settings = Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=grid.mismatch_gap(), tolerance=0.1, delta=0.05)
    learner = Learner(Problem(model, baseline, settings))
    simulate(learner, grid.real(), max_rounds=1)
    learner.propose()
    evaluate(model, learner.plan(np.ones(shape)).policy, np.ones(shape))
    solve(model, np.ones(shape))
