"""Iterations of Algorithm 1 against the separation 1 / sigma_s (figure abl_sigma)."""

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
INTENDED = 0.85  # sigma_s = 0.85 x wind strength


def tasks(seeds: int | None) -> list[Task]:
    return [
        explore_task(seed=seed, constants=INFERRED, method=method, wind=wind, mismatch_gap=round(INTENDED * wind, 6))
        for method in (methods.SimToReal(), methods.RewardFree())
        for wind in printed.WIND_STRENGTHS
        for seed in range(seeds or SEEDS)
    ]


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    winds = np.array(printed.WIND_STRENGTHS)
    inverse = 1.0 / (INTENDED * winds)
    ours = [rounds_where(rows, methods.SimToReal(), "wind", wind) for wind in winds]
    reference = [rounds_where(rows, methods.RewardFree(), "wind", wind) for wind in winds]
    means, tops = np.array([run.mean() for run in ours]), np.array([run.mean() for run in reference])
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    draw_band(axes, inverse, ours, BLUE, "sim-to-real safe RL (mean; band: min to max)", marker="o")
    axes.plot(inverse, tops, color=ORANGE, linestyle="--", label="reward-free safe RL (mean)")
    axes.set(xlabel=r"$1/\sigma_s$", ylabel="iterations to the stop", ylim=(0, None))
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    save_figure(figure, folder, "separation", outcome)
    outcome.table = Table(
        ["wind", "sigma_s", "iterations (mean)", "min", "max", "Algorithm 2"],
        [
            [f"{wind}", f"{INTENDED * wind:.4f}", f"{run.mean():,.0f}", f"{run.min():,}", f"{run.max():,}", f"{top:,.0f}"]
            for wind, run, top in zip(winds, ours, tops, strict=True)
        ],
    )
    order = np.argsort(inverse)
    share = float(means[order][-1] / tops[order][-1])
    outcome.comparisons = [
        Comparison.truth("iterations rise with 1/sigma_s", bool((np.diff(means[order]) > 0).all())),
        Comparison("share of Algorithm 2's at the weakest wind", "approaches 1", f"{share:.3f}", None),
        Comparison.count("runs with an unsafe iteration", 0, unsafe_runs(rows)),
    ]
    return outcome


ARTEFACT = Artefact("separation", "Iterations against the separation", *HEURISTIC, draw, tasks)
