"""The figure of examples/frozen_lake.py: for each world its map, the cost of all that was deployed, and the plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from safe2real.evidence import Verdict, map_mismatch

if TYPE_CHECKING:
    from frozen_lake import Study

BLUE, ORANGE, GREEN, RED = "#2a6fbb", "#d9822b", "#3a8f5c", "#c0392b"


def draw(studies: Sequence[Study]) -> Figure:
    """One column for each study: two panels beside each other stay readable in a page."""
    figure = Figure(figsize=(5.5 * len(studies), 13.0), layout="constrained")
    grid = figure.subplots(3, len(studies), squeeze=False)
    for axes, study in zip(grid.T, studies, strict=True):
        _draw_map(figure, axes[0], study)
        _draw_costs(axes[1], study)
        _draw_plans(axes[2], study)
    return figure


def _draw_map(figure: Figure, axes: Axes, study: Study) -> None:
    """Each cell's largest distance to the simulator over its actions, as learnt; crosses where it is proved wrong."""
    world = study.world
    rows, columns = world.shape
    found = map_mismatch(study.learner.evidence)
    # The plain copy of each cell comes first in the numbering of the system, in the environment's order.
    cells = rows * columns
    distance = np.nan_to_num(found.distance[:cells].max(axis=1), nan=0.0).reshape(rows, columns)
    wrong = (found.verdict[:cells] == Verdict.WRONG).any(axis=1).reshape(rows, columns)
    image = axes.imshow(distance, cmap="Purples", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=axes, shrink=0.8 if rows == columns else 0.45, label="largest TV distance")
    marks = _marks(study)
    for row, column in np.ndindex(rows, columns):
        if marks[row, column] == "#":
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="0.25"))
        elif marks[row, column]:
            axes.text(column, row, marks[row, column], ha="center", va="center", fontsize=11, weight="bold", color="0.2")
        if wrong[row, column]:
            axes.plot(column, row, "x", color="white", markersize=10, markeredgewidth=2.5)
        if (row, column) in world.slippery:
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=ORANGE, linewidth=3.0))
    axes.set(
        xticks=range(columns), yticks=range(rows), xlabel="column", ylabel="row",
        title=f"{world.name}: where the simulator is wrong",
    )  # fmt: skip
    axes.legend(
        handles=[
            Rectangle((0, 0), 1, 1, fill=False, edgecolor=ORANGE, linewidth=3.0, label="slippery in reality"),
            Line2D([], [], marker="x", linestyle="none", color="0.5", markeredgewidth=2.5, label="proved wrong"),
            Rectangle((0, 0), 1, 1, facecolor="0.25", label="hole" if rows == columns else "cliff"),
        ],
        loc="upper center", bbox_to_anchor=(0.5, -0.13 if rows == columns else -0.45), ncols=3, frameon=False,
    )  # fmt: skip


def _marks(study: Study) -> Any:
    """Holes and cliff as #, start and goal as letters."""
    rows, columns = study.world.shape
    marks = np.full((rows, columns), "", dtype=object)
    if rows == columns:
        described = study.world.make(()).unwrapped.desc
        marks[described == b"H"], marks[described == b"S"], marks[described == b"G"] = "#", "S", "G"
    else:
        marks[3, 1:11], marks[3, 0], marks[3, 11] = "#", "S", "G"
    return marks


def _draw_costs(axes: Axes, study: Study) -> None:
    """The exact cost of every mixture that was deployed in the first run."""
    world, run = study.world, study.run
    samples = np.cumsum(run.deployed) * world.system.model.steps
    costs = [world.system.model.wordings[0].number(value) for value in run.real_values[:, 0]]
    axes.plot(samples, costs, ".", color=BLUE, markersize=3, label="deployed mixture, exact on the real system")
    axes.axhline(world.limit, color=RED, linewidth=1.5, label=f"limit {world.limit:g}")
    unsafe = max((plan.simulator[2] for plan in study.plans), default=0.0)
    axes.axhline(unsafe, color=ORANGE, linestyle="--", linewidth=1.2, label="worst plan of the simulator alone")
    axes.axvline(samples[-1], color=GREEN, linestyle=":", linewidth=1.5, label=f"certified stop: {samples[-1]:.2g} samples")
    axes.set(xscale="log", xlabel="real samples", ylabel=f"expected {world.unit} per episode", title="Every deployed policy")
    axes.set_ylim(0.0, 1.45 * unsafe)
    axes.grid(color="0.92")
    axes.legend(loc="upper left", fontsize=9)


def _draw_plans(axes: Axes, study: Study) -> None:
    """Rewards named afterwards: promised, earned, best."""
    plans = study.plans
    height = 0.26
    positions = np.arange(len(plans))[::-1].astype(float)
    scale = np.array([plan.best for plan in plans])
    for shift, values, colour, label in (
        (height, [plan.simulator[1] for plan in plans], ORANGE, "planned on the simulator"),
        (0.0, [plan.certified[1] for plan in plans], BLUE, "certified plan"),
        (-height, [plan.baseline for plan in plans], "0.7", "baseline"),
    ):
        axes.barh(positions + shift, np.array(values) / scale, height=height, color=colour, label=label)
    for position, plan in zip(positions, plans, strict=True):
        if plan.simulator[2] > study.world.limit + 1e-9:
            text = f"{plan.simulator[2]:.2f} {study.world.unit}: violates the limit"
            axes.text(0.02, position + height, text, va="center", ha="left", fontsize=8.5, color="black")
    axes.axvline(1.0, color="black", linewidth=1.0, linestyle="--", label="best feasible policy")
    axes.set_yticks(positions, [plan.reward for plan in plans])
    axes.set(xlabel="reward earned on the real system / best feasible", title="Plans for rewards named afterwards")
    axes.set_xlim(0.0, 1.12)
    axes.set_ylim(-0.6 - 0.35 * len(plans) / 4, len(plans) - 0.4)
    axes.legend(loc="lower center", ncols=2, fontsize=9)
