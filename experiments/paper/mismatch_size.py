"""Iterations of Algorithm 1 against the size of the mismatch region (figure abl_B)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.artefact import BLUE, HEURISTIC, ORANGE, Artefact, Comparison, Outcome, Table, draw_band, save_figure
from experiments.paper import printed
from experiments.paper.inferred import INFERRED
from experiments.paper.runs import explore_task, rounds_where, unsafe_runs
from experiments.store import Row, Task
from safe2real import methods

SEEDS = 10


def tasks(seeds: int | None) -> list[Task]:
    """Algorithm 1 for every size; Algorithm 2 where every row is wrong, as the reference."""
    cases = [(size // 4, methods.SimToReal()) for size in printed.MISMATCH_SIZES] + [(25, methods.RewardFree())]
    return [
        explore_task(seed=seed, constants=INFERRED, method=method, grid="ordered", windy=windy)
        for windy, method in cases
        for seed in range(seeds or SEEDS)
    ]


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    sizes = np.array(printed.MISMATCH_SIZES)
    runs = [rounds_where(rows, methods.SimToReal(), "windy", size // 4) for size in sizes]
    reference = rounds_where(rows, methods.RewardFree(), "windy", 25)
    means = np.array([run.mean() for run in runs])
    slope, offset = np.polyfit(sizes, means, 1)
    residual = means - (slope * sizes + offset)
    fit = 1.0 - float((residual**2).sum() / ((means - means.mean()) ** 2).sum())
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    draw_band(axes, sizes, runs, BLUE, "sim-to-real safe RL (mean; band: min to max)", marker="o")
    axes.plot(sizes, slope * sizes + offset, color="black", linestyle=":", label=f"linear fit, $R^2$ = {fit:.3f}")
    axes.axhline(reference.mean(), color=ORANGE, linestyle="--", label="reward-free safe RL, all rows wrong")
    axes.set(xlabel="size of the mismatch region |B| (state-action pairs, of 100)", ylabel="iterations to the stop")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, folder, "mismatch-size", outcome)
    outcome.table = Table(
        ["pairs in B", "iterations (mean)", "min", "max"],
        [
            [str(size), f"{run.mean():,.0f}", f"{run.min():,}", f"{run.max():,}"]
            for size, run in zip(sizes, runs, strict=True)
        ],
    )
    outcome.comparisons = [
        Comparison.truth("iterations rise with |B|", bool((np.diff(means) > 0).all())),
        Comparison("linear in |B|: R^2", "approximately", f"{fit:.3f}", None),
        Comparison.truth("same as Algorithm 2 at |B| = 100", bool((runs[-1] == reference).all())),
        Comparison.count("runs with an unsafe iteration", 0, unsafe_runs(rows)),
    ]
    outcome.remarks.append(f"Linear fit: iterations = {slope:.1f} |B| + {offset:.0f}, R^2 = {fit:.4f}")
    return outcome


ARTEFACT = Artefact("mismatch-size", "Iterations against the size of the mismatch", *HEURISTIC, draw, tasks)
