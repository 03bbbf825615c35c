"""The figure of the comparison: gap and unsafe share against real samples, a line for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure

from experiments.artefact import BLUE, GREEN, GREY, ORANGE, PURPLE, Outcome, save_figure
from experiments.store import Plain

_STYLES: dict[str, tuple[str, str]] = {
    "Algorithm 1": (BLUE, "-"),
    "Algorithm 2": (BLUE, "--"),
    "Algorithm 3": (BLUE, ":"),
    "Declared rewards, all 20 at once": ("black", "-"),
    "Declared rewards, one at a time": ("black", ":"),
    "RFExpress": (ORANGE, "-"),
    "VIZero": (ORANGE, ":"),
    "Sweet": (GREEN, "-"),
    "OptPess": (PURPLE, "-"),
    "Dope": (PURPLE, "--"),
    "HySRL": ("#b91c1c", "-"),
    "LogBarrier": (GREY, "-"),
    "ExplorationTransfer": (GREY, ":"),
}
_FLOOR = 1e-3


class Drawn(Protocol):
    """What a line of the table offers to the figure."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def results(self) -> Sequence[Plain]: ...


def draw_curves(panels: dict[str, Any], folder: Path, outcome: Outcome) -> None:
    """Two rows of two pictures, one row for each panel; a curve is the mean over the runs of a method."""
    figure = Figure(figsize=(11.5, 7.6), layout="constrained")
    titles = {"A": "A: published constants, fluid limit", "B": "B: one certified radius for all, sampled"}
    axes = figure.subplots(2, 2)
    for row, (panel, lines) in enumerate(panels.items()):
        for line in lines:
            samples, unsafe, gap = mean_curve(line)
            colour, style = _STYLES.get(line.label) or _STYLES[line.name]
            marker = {"marker": "o", "ms": 4} if samples.size == 1 else {}
            axes[row, 0].plot(samples, np.maximum(gap, _FLOOR), style, color=colour, label=line.label, **marker)
            axes[row, 1].plot(samples, 100.0 * unsafe, style, color=colour, label=line.label, **marker)
        axes[row, 0].set(xscale="log", yscale="log", ylabel="gap of the output", xlabel="real samples (for one reward)")
        axes[row, 1].set(
            xscale="log", ylim=(-3, 103), ylabel="unsafe episodes so far, %", xlabel="real samples (for one reward)"
        )
        axes[row, 0].set_title(titles[panel], fontsize=10, loc="left")
        axes[row, 1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        for one in axes[row]:
            one.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder, "comparison", outcome)


def mean_curve(line: Drawn) -> tuple[Any, Any, Any]:
    """(samples, unsafe share, gap): the mean over runs, as far as all of them go, and each run's end where they differ."""
    curves = [np.array(one["curve"], dtype=float) for one in line.results]  # [points, 4] each
    shared = min(len(curve) for curve in curves)
    together = np.mean([curve[: shared - 1] for curve in curves], axis=0) if shared > 1 else np.empty((0, 4))
    last = np.mean([curve[-1] for curve in curves], axis=0)
    points = np.vstack([together, last])
    return points[:, 0], points[:, 1], points[:, 2]
