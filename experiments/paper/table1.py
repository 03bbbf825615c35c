"""Table 1: samples, suboptimality over random rewards, and unsafe iterations of the three algorithms."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.artefact import HEURISTIC, Artefact, Comparison, Outcome, Table
from experiments.paper import printed
from experiments.paper.inferred import INFERRED
from experiments.paper.runs import METHODS, explore_task
from experiments.store import Plain, Row, Task, results_where

SEEDS, REWARDS = 10, 20
_TAU = "nearly all of it is the price of the inferred tolerance, which the paper does not print; at most 0.01 was aimed at"


def tasks(seeds: int | None) -> list[Task]:
    """The runs that the safety figure and the heatmaps share with this table."""
    return [
        explore_task(seed=seed, constants=INFERRED, method=method, rewards=REWARDS)
        for method in METHODS.values()
        for seed in range(seeds or SEEDS)
    ]


def by_algorithm(rows: list[Row]) -> dict[str, list[Plain]]:
    return {name: results_where(rows, algorithm=name) for name in METHODS}


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome, lines = Outcome(), []
    for name, group in by_algorithm(rows).items():
        samples = np.array([result["samples"] for result in group])
        suboptimality = np.concatenate([result["suboptimalities"] for result in group])
        unsafe = float(np.mean([result["unsafe_share"] for result in group]))
        reported = printed.TABLE1[name]
        mean, ratio = float(samples.mean()), float(samples.mean()) / reported[0]
        counted = [f"{mean:,.0f} ± {samples.std():,.0f}", f"{reported[0]:,}", f"{ratio:.3f}"]
        planned = [f"{suboptimality.mean():.4f} ± {suboptimality.std():.4f}", f"{reported[1]}"]
        lines.append([name, *counted, *planned, f"{unsafe:.1%}", f"{reported[2]:.1%}"])
        low, high = (0.45, 0.55) if reported[2] else (0.0, 0.0)
        near, small = abs(ratio - 1) <= 0.1, bool(suboptimality.mean() <= 0.01)
        outcome.comparisons += [
            Comparison(f"{name}: samples", f"{reported[0]:,}", f"{mean:,.0f}", near, f"{ratio:.3f}"),
            Comparison(f"{name}: suboptimality", f"{reported[1]}", f"{suboptimality.mean():.4f}", small, why=_TAU),
            Comparison(f"{name}: unsafe", f"{reported[2]:.1%}", f"{unsafe:.1%}", low - 1e-12 <= unsafe <= high + 1e-12),
        ]
    header = ["algorithm", "samples", "paper", "ratio", "suboptimality", "paper", "unsafe iterations", "paper"]
    outcome.table = Table(header, lines)
    return outcome


ARTEFACT = Artefact("table1", "Table 1: safety against sample complexity", *HEURISTIC, draw, tasks)
