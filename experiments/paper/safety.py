"""Figure 1(b): the real V_c of the deployed policy in every iteration, by exact evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.artefact import COLOURS, HEURISTIC, Artefact, Outcome, save_figure
from experiments.paper import table1
from experiments.paper.inferred import INFERRED
from experiments.paper.runs import CURVE_STEP
from experiments.store import Row


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    figure = Figure(figsize=(7.2, 4.0))
    axes = figure.add_subplot()
    for name, group in table1.by_algorithm(rows).items():
        curves = [np.array(result["curve"]) for result in group]
        longest = max(len(curve) for curve in curves)
        padded = np.full((len(curves), longest), np.nan)
        for i, curve in enumerate(curves):
            padded[i, : len(curve)] = curve
        rounds = 1 + CURVE_STEP * np.arange(longest)
        axes.fill_between(
            rounds, np.nanmin(padded, axis=0), np.nanmax(padded, axis=0), color=COLOURS[name], alpha=0.25, linewidth=0
        )
        axes.plot(rounds, np.nanmean(padded, axis=0), color=COLOURS[name], linewidth=1.0, label=name)
        ends = np.array([(result["rounds"], result["curve"][-1]) for result in group])
        axes.scatter(ends[:, 0], ends[:, 1], color=COLOURS[name], marker="o", s=26, edgecolor="white", zorder=3)
        lowest = min(result["lowest_value"] for result in group)
        outcome.remarks.append(f"{name}: lowest V_c of any deployed policy {lowest:.4f} (threshold {INFERRED.threshold})")
    axes.axhline(INFERRED.threshold, color="black", linestyle="--", linewidth=1.0, label="threshold")
    axes.set(xscale="log", xlabel="iteration (one episode of 12 steps each)")
    axes.set_ylabel("real constraint value $V_c$ of the deployed policy")
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    axes.set_title(f"Band: min to max over {len(rows) // 3} seeds; markers: termination", fontsize=10)
    save_figure(figure, folder, "safety", outcome)
    return outcome


ARTEFACT = Artefact("safety", "Figure 1(b): constraint values during learning", *HEURISTIC, draw, table1.tasks)
