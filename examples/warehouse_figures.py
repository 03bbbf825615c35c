"""The two figures of the warehouse study: what was found on the floor, and what the plans are worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator
from warehouse_study import Exploration, Outcome, Study

import safe2real as s2r
from experiments.studies.warehouse_floor import MOVES, Cell, Warehouse
from safe2real.evidence import Verdict

BLUE, ORANGE, GREEN, GREY, RED, AMBER = "#2563a8", "#d9730d", "#2e8b57", "#6b7280", "#c0262d", "#f2c14e"
RACK, PEOPLE, PALE = "#4b5563", "#fde7d3", "#d3e8dc"
SAID = {"d": "dock", "D": "roller door"}
EDGE = 0.46  # from the middle of a cell to the edge of what is drawn in it


def draw_floor(study: Study, path: Path) -> None:
    """Left the floor with two routes to one shelf, right the verdict on every move."""
    figure, (plan, verdicts) = plt.subplots(1, 2, figsize=(14.0, 5.6))
    figure.subplots_adjust(wspace=0.14)
    for axes in (plan, verdicts):
        _floor(axes, study.simulator)
    _routes(plan, study)
    _verdicts(verdicts, study)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def draw_rewards(study: Study, exploration: Exploration, outcomes: Sequence[Outcome], path: Path) -> None:
    """Left what every plan costs in reality, right how good the plans are as samples come in."""
    figure, (costs, bounds) = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
    best = np.array([outcome.best for outcome in outcomes])
    for value, steps, colour, marker, label in (
        ("baseline_value", None, GREY, "x", "baseline"),
        ("simulator_value", "simulator_people", ORANGE, "s", "simulator's plan"),
        ("value", "people", BLUE, "o", "certified plan"),
    ):
        earned = np.array([getattr(outcome, value) for outcome in outcomes]) / best
        spent = np.array([getattr(outcome, steps) if steps else 0.0 for outcome in outcomes])
        costs.plot(earned, spent, marker, color=colour, ms=6, alpha=0.45, mew=1.0, label=label, clip_on=False)
    limit = study.case.limit
    costs.axhline(limit, color=RED, ls="--", lw=1.2, label=f"limit: {limit:g}")
    costs.set_xlabel("reward earned / reward of the best safe policy")
    costs.set_ylabel(f"expected steps among people (of {study.case.horizon})")
    costs.set_title(f"{len(outcomes)} plans on the real floor, one for each reward", fontsize=11)
    costs.set_xlim(left=0.0)
    costs.set_ylim(0.0, 1.08 * max(limit, *(outcome.simulator_people for outcome in outcomes)))
    costs.axhspan(limit, costs.get_ylim()[1], color=RED, alpha=0.05, lw=0)
    costs.text(
        0.99, limit + 0.15, "violates the limit", color=RED, fontsize=9, ha="right", transform=costs.get_yaxis_transform()
    )
    costs.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0.02, 0.06))
    samples = [point.samples for point in exploration.checkpoints]
    for name, colour, label in (("bounds", BLUE, "certified bound"), ("suboptimalities", GREEN, "true")):
        values = np.array([getattr(point, name) for point in exploration.checkpoints])
        bounds.plot(samples, values.mean(axis=1), "o-", color=colour, ms=4, label=f"{label}: mean")
        bounds.plot(samples, values.max(axis=1), "^:", color=colour, ms=4, label=f"{label}: largest")
    if exploration.stopped:
        bounds.axvline(exploration.samples, color=GREY, ls="--", lw=1, label="certified stop")
    bounds.set_xscale("log")
    bounds.set_yscale("symlog", linthresh=0.01)
    bounds.set_ylim(bottom=0.0)
    bounds.set_xlabel("real samples (robot steps)")
    bounds.set_ylabel("reward below the best safe policy's")
    bounds.set_title(f"Certified plans during exploration ({len(exploration.checkpoints[0].bounds)} rewards)", fontsize=11)
    bounds.legend(fontsize=9, loc="lower left")
    for axes in (costs, bounds):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _floor(axes: Axes, floor: Warehouse) -> None:
    """Racks and fences dark, the cells shared with people tinted; row 0 at the top."""
    for r, line in enumerate(floor.floor):
        for c, mark in enumerate(line):
            colour = {"#": RACK, "p": PEOPLE, "w": PEOPLE}.get(mark, "white")
            axes.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, facecolor=colour, edgecolor="#e5e7eb", lw=0.5, zorder=0))
    axes.set_xlim(-0.6, len(floor.floor[0]) - 0.4)
    axes.set_ylim(len(floor.floor) - 0.4, -0.6)
    axes.set_aspect("equal")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("column")
    axes.set_ylabel("row")


def _routes(axes: Axes, study: Study) -> None:
    floor, shelf = study.simulator, study.case.shown
    for (r, c), mark in zip(floor.cells, floor.marks, strict=True):
        if mark == "w":
            axes.add_patch(
                Rectangle((c - 0.5, r - 0.5), 1, 1, facecolor="none", edgecolor=BLUE, hatch="////", lw=0, zorder=1)
            )
        if mark in "dD":
            axes.text(c + 0.6, r, SAID[mark], fontsize=9, va="center", color="black" if mark == "d" else "white", zorder=4)
    (errand,) = [errand for errand in study.errands() if errand.place == shelf]
    plans = {
        "planned on the simulator": (s2r.solve(study.system.model, errand.reward).policy, ORANGE, -0.1),
        "planned from the learnt model": (study.learner.plan(errand.reward).policy, GREEN, 0.1),
    }
    handles: list[Line2D | Patch] = []
    for label, (policy, colour, shift) in plans.items():
        route = np.array(_route(floor, policy)) + shift
        axes.plot(route[:, 1], route[:, 0], color=colour, lw=2.2, zorder=3)
        axes.plot(route[-1, 1], route[-1, 0], "o", color=colour, ms=7, zorder=3)
        text = f"{label}: {study.people(policy):.1f} steps among people"
        handles.append(Line2D([], [], color=colour, lw=2.2, marker="o", label=text))
    handles += [
        Patch(facecolor=PEOPLE, label="shared with people"),
        Patch(facecolor=PEOPLE, edgecolor=BLUE, hatch="////", label="and wet in reality, dry in the simulator"),
    ]
    axes.set_title(f"Two plans for {shelf}: at most {study.case.limit:g} steps among people expected", fontsize=11)
    axes.legend(handles=handles, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=1, frameon=False)


def _route(floor: Warehouse, policy: s2r.Mixture) -> list[Cell]:
    """The way of the heaviest part of a mixture if no move is lost and the door is open."""
    part = policy.policies[int(np.argmax(policy.weights))]
    state = int(np.argmax(floor.initial_state_distrib))
    route = [floor.cells[state]]
    for h in range(part.horizon):
        state = floor.target(state, int(np.argmax(part.probabilities[h, state])))
        route.append(floor.cells[state])
    return route


def _verdicts(axes: Axes, study: Study) -> None:
    """Every move of every cell as a triangle on the side where it leads."""
    looks = {
        Verdict.WRONG: (RED, "proved wrong"),
        Verdict.CLEARED: (PALE, "cleared: the simulator is right"),
        Verdict.OPEN: (AMBER, "open"),
        Verdict.CONTRADICTED: ("black", "contradicts an assumption"),
    }
    found = study.mismatch()
    handles = [Patch(facecolor=RACK, label="rack or fence")]
    for verdict, (colour, label) in looks.items():
        shapes = [
            _quarter(study.simulator.cells[state], MOVES[action])
            for state, action in zip(*np.nonzero(found.verdict == verdict), strict=True)
            if action < len(MOVES)
        ]
        if shapes:
            axes.add_collection(PolyCollection(shapes, facecolors=colour, edgecolors="white", linewidths=0.4, zorder=2))
            handles.append(Patch(facecolor=colour, label=f"{label}: {found.count(verdict)} moves"))
    axes.set_title(f"The verdict on each move after {study.learner.samples:,} samples", fontsize=11)
    axes.legend(handles=handles, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=1, frameon=False)


def _quarter(cell: Cell, move: Cell) -> list[tuple[float, float]]:
    """The quarter of a cell on the side where the move leads, as (x, y)."""
    (r, c), (down, right) = cell, move
    corners = ((0.05, 0.0), (EDGE, EDGE - 0.05), (EDGE, 0.05 - EDGE))  # along the move, across it
    return [(c + along * right + across * down, r + along * down + across * right) for along, across in corners]
