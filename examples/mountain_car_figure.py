"""The figure of examples/mountain_car.py: where the simulator is wrong, what was deployed, the plans, and the car itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from mountain_car_track import COAST, FAST, FLOOR, LIMIT, TICKS, Track, at_goal, cells_of, worth

import safe2real as s2r
from safe2real.evidence import Verdict, map_mismatch

if TYPE_CHECKING:
    from mountain_car import Study

BLUE, ORANGE, GREEN, RED, GREY = "#2a6fbb", "#d9822b", "#3a8f5c", "#c0392b", "0.45"


def draw(study: Study) -> Figure:
    figure = Figure(figsize=(12.0, 9.5), layout="constrained")
    axes = figure.subplots(2, 2)
    _draw_map(axes[0, 0], study)
    _draw_costs(axes[0, 1], study)
    _draw_plans(axes[1, 0], study)
    _draw_car(axes[1, 1], study)
    return figure


def _draw_map(axes: Axes, study: Study) -> None:
    """Every cell by what is known of its two rows with the engine on."""
    cells, found = cells_of(Track()), map_mismatch(study.exploration.learner.evidence)
    engine = [action for action in range(3) if action != COAST]
    verdicts = found.verdict[: cells.num_states, engine]  # the plain copy of a cell has its number
    kind = np.ones(cells.num_states)
    kind[(verdicts == Verdict.CLEARED).all(axis=1)] = 0.0
    kind[(verdicts == Verdict.WRONG).any(axis=1)] = 2.0
    colours = ("#cfe3d4", "0.88", ORANGE)
    x, v = (np.array([low, *edges, high]) for low, edges, high in zip(cells.low, cells.edges, cells.high, strict=True))
    shown = kind.reshape(cells.shape)[:-1].T  # without the column behind the goal
    axes.pcolormesh(
        x[:-1], v / TICKS, shown, cmap=ListedColormap(colours), vmin=0, vmax=2, edgecolors="white", linewidth=0.5
    )
    for edge in FLOOR:
        axes.axvline(edge, color=RED, linewidth=2.0)
    for limit in (-FAST, FAST):
        axes.axhline(limit / TICKS, color="black", linestyle="--", linewidth=1.5)
    axes.set(
        xlabel="position", ylabel="speed (positions per Gymnasium step)", title="Where the simulator of the engine is wrong"
    )
    axes.legend(
        handles=[
            Patch(facecolor=colours[2], label="proved wrong"),
            Patch(facecolor=colours[0], label="cleared"),
            Patch(facecolor=colours[1], label="seldom visited, undecided"),
            Line2D([], [], color=RED, linewidth=2.0, label="stretch with the stronger engine"),
            Line2D([], [], color="black", linestyle="--", label="speed limit"),
        ],
        loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, fontsize=8.5,
    )  # fmt: skip


def _draw_costs(axes: Axes, study: Study) -> None:
    """The exact cost of every mixture that was deployed."""
    found = study.exploration
    _, naive = worth(
        found.cars.real, s2r.solve(found.cars.model, at_goal(found.cars.simulated)).policy, at_goal(found.cars.simulated)
    )
    axes.semilogx(found.began + 1, found.costs, ".", markersize=3, color=BLUE, label="deployed, Algorithm 1")
    without = study.without
    axes.semilogx(
        without.began + 1, without.costs, ".", markersize=3, color=GREEN, label="deployed, simulator never trusted"
    )
    axes.axhline(LIMIT, color=RED, linewidth=2.0, label="limit")
    axes.axhline(naive, color=ORANGE, linewidth=2.0, linestyle="-.", label="planned on the simulator")
    axes.set(
        xlabel="episode", ylabel="expected steps above the speed limit", ylim=(0.0, 1.15 * naive),
        title="Every deployed policy, exact on the real cells",
    )  # fmt: skip
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, markerscale=4, fontsize=8.5)


def _draw_plans(axes: Axes, study: Study) -> None:
    """Certified bounds on the plan for the goal, and what it earns."""
    found, reward = study.exploration, at_goal(study.exploration.cars.simulated)
    episodes = [point.episodes for point in found.checkpoints]
    low, high = ([getattr(point, name) for point in found.checkpoints] for name in ("at_least", "at_most"))
    axes.fill_between(episodes, low, high, color=BLUE, alpha=0.15, label="certified: the best lies between")
    axes.semilogx(episodes, [point.earned for point in found.checkpoints], "o-", color=BLUE, label="earned by the plan")
    others = study.without.checkpoints
    axes.semilogx(
        [point.episodes for point in others], [point.at_least for point in others], "s--", color=GREEN,
        label="certified at least, simulator never trusted",
    )  # fmt: skip
    axes.axhline(s2r.solve(found.cars.real, reward).value, color="black", linewidth=1.0, label="best feasible policy")
    promised = s2r.solve(found.cars.model, reward).value
    axes.axhline(promised, color=ORANGE, linewidth=2.0, linestyle="-.", label="promised by the simulator")
    axes.set(
        xlabel="episodes",
        ylabel="expected steps at the goal (of 20)",
        title="Plans for the goal, made on the way",
        ylim=(0, None),
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, fontsize=8.5)


def _draw_car(axes: Axes, study: Study) -> None:
    """The same policies on the cells and on the continuous car."""
    names = [one.name.replace(" on the ", "\non the ").replace(" of ", "\nof ").replace(" (", "\n(") for one in study.driven]
    at = np.arange(len(names))
    axes.bar(at - 0.18, [one.cells[1] for one in study.driven], 0.34, color=BLUE, label="its cells, exactly")
    axes.bar(
        at + 0.18, [one.car[1] for one in study.driven], 0.34, yerr=[one.error[1] for one in study.driven], capsize=4,
        color=GREY, label="the continuous car, by driving",
    )  # fmt: skip
    axes.axhline(LIMIT, color=RED, linewidth=2.0, label="limit")
    axes.set(xticks=at, ylabel="expected steps above the speed limit", title="What no certificate covers: the car itself")
    axes.set_xticklabels(names, fontsize=8)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False, fontsize=8.5)
