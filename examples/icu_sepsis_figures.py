"""The figures of icu_sepsis.py."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from icu_sepsis_study import Record
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, PercentFormatter
from numpy.typing import NDArray

from experiments.studies.sepsis_system import LEAST_SURVIVAL, LEVELS, SEVERE, TREATED, Case
from safe2real.evidence import Verdict

BLUE, ORANGE, GREEN, GREY, RED = "#2563a8", "#d9730d", "#2e8b57", "#6b7280", "#b91c1c"
_COLOURS = ("#ffffff", "#f2c14e", RED, "#a9c6e8")  # not offered, open, wrong, cleared
_SHADE = {Verdict.OPEN: 1, Verdict.WRONG: 2, Verdict.CLEARED: 3}


def draw_safety(case: Case, records: Mapping[str, Record], clinicians: float, best: float) -> Figure:
    """Left: exact survival under every deployed mixture. Right: what the plan for survival is certified to reach."""
    figure = Figure(figsize=(12.0, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, record), colour in zip(records.items(), (BLUE, GREEN), strict=True):
        ends = [batch.after + batch.patients for batch in record.batches]
        left.plot(ends, [batch.survival for batch in record.batches], color=colour, linewidth=2.2, label=f"deployed: {name}")
        alone = [batch.candidate for batch in record.batches]
        left.plot(ends, alone, color=colour, linestyle=":", label="its candidate, were it not mixed")
        patients = [done for done, _ in record.curve]
        floors = [plan.survival_floor for _, plan in record.curve]
        steps = {"color": colour, "drawstyle": "steps-post"}
        right.plot(patients, floors, marker="o", markersize=4, label=f"certified: {name}", **steps)
        right.plot(patients, [plan.survival for _, plan in record.curve], linestyle=":", label="its real value", **steps)
    left.set_title("Every deployed mixture, exact on the real dynamics")
    left.set_ylabel(f"survival within {case.real.horizon} steps")
    left.set_ylim(0.60, 0.70)
    left.set_xscale("log")
    right.set_title("The best plan for survival so far")
    right.set_ylim(LEAST_SURVIVAL - 0.01, 0.80)
    right.set_xscale("symlog", linthresh=1_000)
    right.set_xlim(left=-50)
    right.set_xticks([0, 1_000, 10_000, 100_000])
    right.axhline(best, color=RED, linewidth=1.0, label=f"best policy ({best:.1%})")
    for axes in (left, right):
        axes.axhline(clinicians, color=GREY, linestyle="-.", linewidth=1.2, label=f"clinicians ({clinicians:.1%})")
        axes.axhline(LEAST_SURVIVAL, color="black", linestyle="--", linewidth=1.2, label=f"limit ({LEAST_SURVIVAL:.0%})")
        axes.set_xlabel("simulated patients so far")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return figure


def draw_mismatch(case: Case, record: Record) -> Figure:
    """What is known of each treatment of each state: above all states by SOFA, below the severely ill, truth marked."""
    order = np.argsort(case.sofa[:TREATED], kind="stable")
    severe = order[case.sofa[order] >= SEVERE]
    figure = Figure(figsize=(12.0, 7.6), layout="constrained")
    above, below = figure.subplots(2, 1)
    _verdicts(above, case, record, order)
    above.axvline(order.size - severe.size - 0.5, color="black", linewidth=1.0)
    above.set_title(
        f"All {TREATED} states after {record.patients:,} patients (right of the line: SOFA of at least {SEVERE:.0f})"
    )
    _verdicts(below, case, record, severe)
    columns, rows = np.nonzero(case.biased[severe])
    below.plot(columns, rows, linestyle="", marker="o", markersize=3.6, markerfacecolor="none", markeredgecolor="black")
    below.set_title(f"The {severe.size} states with a SOFA of at least {SEVERE:.0f}")
    handles = [
        Patch(color=RED, label="proved wrong"),
        Patch(color=_COLOURS[3], label="cleared: the simulator is right"),
        Patch(color=_COLOURS[1], label="open"),
        Patch(facecolor="white", edgecolor=GREY, label="treatment not offered"),
        Line2D(
            [],
            [],
            linestyle="",
            marker="o",
            markerfacecolor="none",
            markeredgecolor="black",
            label="truly wrong (lower map)",
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)
    return figure


def _verdicts(axes: Axes, case: Case, record: Record, states: NDArray[np.int64]) -> None:
    """A column for each state, a row for each treatment."""
    cells = np.zeros((case.offered.shape[1], states.size))
    if record.map is not None:
        for verdict, shade in _SHADE.items():
            cells[(record.map.verdict[states] == verdict).T & case.offered[states].T] = shade
    axes.imshow(cells, cmap=ListedColormap(_COLOURS), vmin=0, vmax=len(_COLOURS) - 1, aspect="auto", interpolation="nearest")
    axes.set_yticks(np.arange(0, cells.shape[0], LEVELS), [f"fluid {level}" for level in range(LEVELS)])
    axes.set_yticks(np.arange(cells.shape[0]), minor=True)
    axes.set_ylabel("treatment: fluid level,\nvasopressor 0 to 4 downwards")
    places = np.unique(np.linspace(0, states.size - 1, 9).astype(int))
    axes.set_xticks(places, [f"{case.sofa[states[place]]:.1f}" for place in places])
    axes.set_xlabel("one column per state, ordered by its SOFA score (numbers)")
    for level in range(1, LEVELS):
        axes.axhline(level * LEVELS - 0.5, color=GREY, linewidth=0.5)
