"""The runs of the study on tighter certified bounds: nothing is scaled, every run carries the full guarantee.

The instance is the paper's grid with a baseline that walks to the bottom-left corner, 10 % of its actions uniformly random,
and stays there; threshold 10.8, the baseline's true margin, tau = xi / 4, delta = 0.05.
"""

from __future__ import annotations

import numpy as np

from experiments.store import Plain
from safe2real import radii, refinements
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems.windy_grid import ACTIONS, WindyGrid

THRESHOLD, NOISE, DELTA = 10.8, 0.1, 0.05
REPLAN_GROWTH = 0.02
MOST_ROUNDS = 200_000_000
REAL_ERROR = 1e-9  # of an exact evaluation


def corner_walk(grid: WindyGrid) -> MarkovPolicy:
    """Left until the first column, then down, with some noise."""
    table = np.full((grid.num_states, grid.num_actions), NOISE / grid.num_actions)
    for state in range(grid.num_states):
        column = grid.cell(state)[1]
        table[state, ACTIONS.index("left" if column > 0 else "down")] += 1.0 - NOISE
    return MarkovPolicy.stochastic(table, horizon=grid.horizon)


def learner_of(settings: Plain) -> tuple[WindyGrid, Learner]:
    grid = WindyGrid.paper()
    baseline = corner_walk(grid)
    margin = float(constraint_values(grid.cmdp(grid.real(), THRESHOLD), baseline)[0]) - THRESHOLD
    (radius,) = [kind for kind in radii.ALL if kind.name == settings["radius"]]
    chosen = Settings(
        margin=margin,
        calibrated_gap=0.0,
        mismatch_gap=grid.mismatch_gap(),
        tolerance=margin / 4.0,
        delta=DELTA,
        seed=settings["seed"],
        radius=radius(),
        span_bonus=settings["span"],
        robust_safety=settings["robust"],
        replan_growth=REPLAN_GROWTH,
        refinements=refinements_of(settings["refinements"]),
    )
    support = grid.neighbours() if settings["support"] else None
    return grid, Learner(Problem(grid.cmdp(grid.simulator(), THRESHOLD), baseline, chosen, support=support))


def refinements_of(names: list[str]) -> tuple[refinements.Refinement, ...]:
    """Those of these names; "sequential-clearing x2" has a protection of 2."""
    found = []
    for name in names:
        kind, _, protection = name.partition(" x")
        (made,) = [one for one in refinements.ALL if one.name == kind]
        found.append(made(**({"protection": float(protection)} if protection else {})))
    return tuple(found)


def certified_run(settings: Plain) -> Plain:
    """To the certified stop, with exact values of everything that was deployed, and plans for random rewards."""
    grid, learner = learner_of(settings)
    run = simulate(learner, grid.real(), max_rounds=MOST_ROUNDS)
    return {
        "stopped": run.stopped,
        "certified": learner.settings.certified,
        "rounds": run.rounds,
        "samples": run.samples,
        "plans": len(run.deployed),
        "unsafe_rounds": round(run.unsafe_share(learner.simulator.thresholds) * run.rounds),
        "lowest_slack": float(run.real_values.min()) - THRESHOLD,
        "lost": int((~learner.evidence.suspects & grid.mismatch()).sum()),
    } | planned(grid, learner, settings)


def anytime_run(settings: Plain) -> Plain:
    """Plans for the same rewards at growing numbers of samples, until the stop."""
    grid, learner = learner_of(settings)
    points: list[Plain] = []
    for rounds in settings["checkpoints"]:
        simulate(learner, grid.real(), max_rounds=rounds - learner.round + 1)
        points.append({"samples": learner.samples, "stopped": learner.stopped} | planned(grid, learner, settings))
        if learner.stopped:
            break
    return {"points": points}


def planned(grid: WindyGrid, learner: Learner, settings: Plain) -> Plain:
    """For random rewards: the printed bound on the suboptimality, the real one, and whether all that was said is true."""
    real = learner.simulator.with_kernel(grid.real())
    rng = np.random.default_rng([settings["seed"], 20_261_115])
    bounds, suboptimalities, true = [], [], 0
    for _ in range(settings["rewards"]):
        reward = rng.random((grid.num_states, grid.num_actions))
        plan = learner.plan(reward)
        suboptimality = solve(real, reward).bound - evaluate(real, plan.policy, reward)
        feasible = bool((constraint_values(real, plan.policy) >= real.thresholds - REAL_ERROR).all())
        true += feasible and suboptimality <= plan.suboptimality + REAL_ERROR and plan.certificate.certified
        bounds.append(round(plan.suboptimality, 6))
        suboptimalities.append(round(suboptimality, 6))
    return {"bounds": bounds, "suboptimalities": suboptimalities, "true": true}
