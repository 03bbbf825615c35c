"""Where the samples go: state visitation shares of the three algorithms on one logarithmic colour scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.artefact import HEURISTIC, Artefact, Outcome, save_figure
from experiments.paper import table1
from experiments.store import Row
from safe2real.systems.windy_grid import WindyGrid


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome, grid = Outcome(), WindyGrid.paper()
    shares, totals = {}, {}
    for name, group in table1.by_algorithm(rows).items():
        visits = np.sum([result["state_visits"] for result in group], axis=0)
        shares[name] = (visits / visits.sum()).reshape(grid.size, grid.size)
        totals[name] = float(np.mean([result["samples"] for result in group]))
    low = max(min(share[share > 0].min() for share in shares.values()), 1e-4)
    norm = LogNorm(low, max(share.max() for share in shares.values()))
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    frames = (
        ("white: dangerous cells (the constraint)", grid.wall, "white"),
        ("red: windy cells (the simulator is wrong)", grid.windy, "#ff4d4d"),
    )
    for axes, (name, share) in zip(panels, shares.items(), strict=True):
        image = axes.imshow(np.maximum(share, low), norm=norm, cmap="viridis")
        for row, column in np.ndindex(share.shape):
            dark = norm(max(share[row, column], low)) < 0.6
            axes.text(
                column, row, f"{share[row, column]:.1%}", ha="center", va="center", fontsize=8,
                color="white" if dark else "black",
            )  # fmt: skip
        for _, cells, colour in frames:
            for row, column in cells:
                axes.add_patch(
                    Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=colour, linewidth=1.8)
                )
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(f"{name}\n{totals[name]:,.0f} samples", fontsize=10)
    bar = figure.colorbar(image, ax=list(panels), label="share of all samples", shrink=0.7)
    bar.set_ticks([0.02, 0.05, 0.1, 0.2], labels=["2 %", "5 %", "10 %", "20 %"])
    bar.ax.minorticks_off()
    handles = [Rectangle((0, 0), 1, 1, facecolor="#3b528b", edgecolor=colour, linewidth=1.8) for _, _, colour in frames]
    figure.legend(
        handles, [name for name, _, _ in frames], loc="outside lower center", ncols=2, fontsize=9,
        facecolor="#3b528b", labelcolor="white", framealpha=1.0,
    )  # fmt: skip
    save_figure(figure, folder, "heatmaps", outcome)
    wall = {name: sum(share[cell] for cell in grid.wall) for name, share in shares.items()}
    wind = {name: sum(share[cell] for cell in grid.windy) for name, share in shares.items()}
    outcome.remarks.append(
        "White frames: unsafe wall; red frames: windy cells. "
        + "; ".join(f"{name}: {wind[name]:.1%} of samples on windy cells, {wall[name]:.1%} on the wall" for name in shares)
    )
    return outcome


ARTEFACT = Artefact("heatmaps", "State visitation", *HEURISTIC, draw, table1.tasks)
