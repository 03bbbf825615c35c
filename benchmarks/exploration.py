"""Rounds per second of a simulated run of Algorithm 1 against the same loop with `linprog` as its planner.

The peer is given every advantage: its time per round is that of the `linprog(method="highs")` call alone, on the very
problems of the run, with the matrices built beforehand and nothing added for counting, rolling out or mixing. Both are
seconds of the processor, so that other processes of the machine count for neither.

Run with `python -m benchmarks.exploration`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np
from scipy.optimize import linprog

from benchmarks.report import Target
from experiments.oracles.linear_program import occupancy_program
from experiments.paper.inferred import learner_on
from safe2real.exploration import Learner, simulate
from safe2real.systems import WindyGrid

SAMPLED_ROUNDS = 12


def learner_of(grid: WindyGrid, seed: int) -> Learner:
    """The paper's grid with the inferred constants of its experiments."""
    return learner_on(grid, seed=seed, mismatch_gap=0.68)


def main() -> None:
    grid = WindyGrid.paper()
    simulate(learner_of(grid, 0), grid.real(), max_rounds=10)  # compile
    ours, peers = [], []
    for seed in range(5):
        learner = learner_of(grid, seed)
        began = time.process_time()
        run = simulate(learner, grid.real())
        ours.append((time.process_time() - began) / run.rounds)
        again = learner_of(grid, seed)
        for _ in range(SAMPLED_ROUNDS):
            simulate(again, grid.real(), max_rounds=run.rounds // (SAMPLED_ROUNDS + 1))
            model = again.simulator.with_kernel(again.evidence.to_kernel())
            problem = occupancy_program(model, again.evidence.bonus)
            began = time.process_time()
            linprog(**problem, method="highs")
            peers.append(time.process_time() - began)
    round_time, peer_time = float(np.median(ours)), float(np.median(peers))
    print(f"compiled run: {1.0 / round_time:,.0f} rounds/s; linprog alone: {1.0 / peer_time:,.0f} rounds/s")
    ratio = peer_time / round_time
    print(
        Target(
            "rounds per second, Algorithm 1 on the paper's grid, against linprog", ">= 600x", f"{ratio:.0f}x", ratio >= 600.0
        )
    )


if __name__ == "__main__":
    main()
