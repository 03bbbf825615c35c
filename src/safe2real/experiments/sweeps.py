"""Iterations against one property of the mismatch: its size (figure abl_B) or its separation (figure abl_sigma)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from safe2real.experiments import paper
from safe2real.experiments.artefact import BLUE, ORANGE, Artefact, Comparison, Outcome, markdown_table, save_figure
from safe2real.experiments.inferred import INFERRED
from safe2real.experiments.runs import explore_task
from safe2real.experiments.store import Row, Task
from safe2real.explore.learner import Algorithm

SEEDS = 10
INTENDED = 0.85  # sigma_s = 0.85 x wind strength


def size_tasks(seeds: int | None) -> list[Task]:
    """Algorithm 1 for every size; Algorithm 2 where every row is wrong, as the reference."""
    cases = [(size // 4, Algorithm.SIM_TO_REAL) for size in paper.MISMATCH_SIZES] + [(25, Algorithm.REWARD_FREE)]
    return [
        explore_task(seed=seed, constants=INFERRED, algorithm=algorithm, grid="ordered", windy=windy)
        for windy, algorithm in cases
        for seed in range(seeds or SEEDS)
    ]


def separation_tasks(seeds: int | None) -> list[Task]:
    return [
        explore_task(seed=seed, constants=INFERRED, algorithm=algorithm, wind=wind, mismatch_gap=round(INTENDED * wind, 6))
        for algorithm in (Algorithm.SIM_TO_REAL, Algorithm.REWARD_FREE)
        for wind in paper.WIND_STRENGTHS
        for seed in range(seeds or SEEDS)
    ]


def _iterations(rows: list[Row], algorithm: Algorithm, key: str, value: float) -> np.ndarray:
    return np.array(
        [
            row["result"]["rounds"]
            for row in rows
            if row["settings"]["algorithm"] == algorithm.value and row["settings"][key] == value
        ]
    )


def _unsafe(rows: list[Row]) -> int:
    return sum(row["result"]["unsafe_share"] > 0.0 for row in rows)


def draw_size(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    sizes = np.array(paper.MISMATCH_SIZES)
    runs = [_iterations(rows, Algorithm.SIM_TO_REAL, "windy", size // 4) for size in sizes]
    reference = _iterations(rows, Algorithm.REWARD_FREE, "windy", 25)
    means = np.array([run.mean() for run in runs])
    slope, offset = np.polyfit(sizes, means, 1)
    residual = means - (slope * sizes + offset)
    fit = 1.0 - float((residual**2).sum() / ((means - means.mean()) ** 2).sum())
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    axes.fill_between(sizes, [run.min() for run in runs], [run.max() for run in runs], color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(sizes, means, color=BLUE, marker="o", label="sim-to-real safe RL (mean; band: min to max)")
    axes.plot(sizes, slope * sizes + offset, color="black", linestyle=":", label=f"linear fit, $R^2$ = {fit:.3f}")
    axes.axhline(reference.mean(), color=ORANGE, linestyle="--", label="reward-free safe RL, all rows wrong")
    axes.set_xlabel("size of the mismatch region |B| (state-action pairs, of 100)")
    axes.set_ylabel("iterations to the stop")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, folder, "mismatch-size", outcome)
    outcome.table = markdown_table(
        ["|B|", "iterations (mean)", "min", "max"],
        [
            [str(size), f"{run.mean():,.0f}", f"{run.min():,}", f"{run.max():,}"]
            for size, run in zip(sizes, runs, strict=True)
        ],
    )
    same = bool((runs[-1] == reference).all())
    outcome.comparisons = [
        Comparison(
            "iterations rise with |B|", "yes", _yes(bool((np.diff(means) > 0).all())), "-", bool((np.diff(means) > 0).all())
        ),
        Comparison("linear in |B|: R^2", "approximately", f"{fit:.3f}", "-", None),
        Comparison("same as Algorithm 2 at |B| = 100", "yes", _yes(same), "-", same),
        Comparison("runs with an unsafe iteration", "0", str(_unsafe(rows)), "-", _unsafe(rows) == 0),
    ]
    outcome.remarks.append(f"Linear fit: iterations = {slope:.1f} |B| + {offset:.0f}, R^2 = {fit:.4f}")
    return outcome


def draw_separation(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    winds = np.array(paper.WIND_STRENGTHS)
    inverse = 1.0 / (INTENDED * winds)
    ours = [_iterations(rows, Algorithm.SIM_TO_REAL, "wind", wind) for wind in winds]
    reference = [_iterations(rows, Algorithm.REWARD_FREE, "wind", wind) for wind in winds]
    means, tops = np.array([run.mean() for run in ours]), np.array([run.mean() for run in reference])
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    axes.fill_between(inverse, [run.min() for run in ours], [run.max() for run in ours], color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(inverse, means, color=BLUE, marker="o", label="sim-to-real safe RL (mean; band: min to max)")
    axes.plot(inverse, tops, color=ORANGE, linestyle="--", label="reward-free safe RL (mean)")
    axes.set_xlabel(r"$1/\sigma_s$")
    axes.set_ylabel("iterations to the stop")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    save_figure(figure, folder, "separation", outcome)
    outcome.table = markdown_table(
        ["wind", "sigma_s", "iterations (mean)", "min", "max", "Algorithm 2"],
        [
            [f"{wind}", f"{INTENDED * wind:.4f}", f"{run.mean():,.0f}", f"{run.min():,}", f"{run.max():,}", f"{top:,.0f}"]
            for wind, run, top in zip(winds, ours, tops, strict=True)
        ],
    )
    order = np.argsort(inverse)
    rising = bool((np.diff(means[order]) > 0).all())
    share = float(means[order][-1] / tops[order][-1])
    outcome.comparisons = [
        Comparison("iterations rise with 1/sigma_s", "yes", _yes(rising), "-", rising),
        Comparison("share of Algorithm 2's at the weakest wind", "approaches 1", f"{share:.3f}", "-", None),
        Comparison("runs with an unsafe iteration", "0", str(_unsafe(rows)), "-", _unsafe(rows) == 0),
    ]
    return outcome


def _yes(value: bool) -> str:
    return "yes" if value else "no"


MISMATCH_SIZE = Artefact(
    "mismatch-size", "Iterations against the size of the mismatch", "inferred constants (heuristic)", size_tasks, draw_size
)
SEPARATION = Artefact(
    "separation", "Iterations against the separation", "inferred constants (heuristic)", separation_tasks, draw_separation
)
