"""The figure of the comparison: real samples of each method, and which of them deploy unsafe policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.artefact import BLUE, ORANGE, Outcome, save_figure

_TITLES = {
    "A": "A: the constants that each method was published with",
    "B": "B: the structure of each method, with one certified radius for all",
}


class Drawn(Protocol):
    """What a line of the table offers to the figure."""

    @property
    def label(self) -> str: ...
    @property
    def samples(self) -> float: ...
    @property
    def unsafe_share(self) -> float: ...
    @property
    def gap(self) -> float: ...


def draw_samples(panels: Mapping[str, Sequence[Drawn]], folder: Path, outcome: Outcome) -> None:
    """Draw one panel below the other, a row for each method.

    Args:
        panels: the methods by the panel's letter.
        folder: for comparison.png.
        outcome: it lists the figure afterwards.
    """
    counts = [len(lines) for lines in panels.values()]
    figure = Figure(figsize=(9.0, 1.9 + 0.27 * sum(counts)), layout="constrained")
    rows = figure.subplots(len(panels), 1, squeeze=False, height_ratios=counts)[:, 0]
    for axes, (panel, lines) in zip(rows, panels.items(), strict=True):
        _draw_panel(axes, sorted(lines, key=lambda line: line.samples))
        axes.set_title(_TITLES[panel], fontsize=10, loc="left")
    rows[-1].set_xlabel("real samples for 20 rewards")
    marks = [
        Line2D([], [], marker="o", linestyle="none", color=BLUE, label="every deployed policy is safe"),
        Line2D([], [], marker="X", linestyle="none", color=ORANGE, label="deploys unsafe policies: share of its episodes"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    save_figure(figure, folder, "comparison", outcome)


def _draw_panel(axes: Axes, lines: Sequence[Drawn]) -> None:
    for row, line in enumerate(lines):
        unsafe = line.unsafe_share > 0.0
        axes.plot([line.samples], [row], "X" if unsafe else "o", color=ORANGE if unsafe else BLUE, markersize=7)
        words = [f"{line.unsafe_share:.0%} unsafe"] if unsafe else []
        words += [f"gap {line.gap:.2g}"] if line.gap >= 0.01 else []
        axes.annotate("; ".join(words), (line.samples, row), (8, 0), textcoords="offset points", va="center", fontsize=8)
    most = max(line.samples for line in lines)
    axes.set(xscale="log", ylim=(len(lines) - 0.4, -0.6), xlim=(0.4 * min(line.samples for line in lines), 60.0 * most))
    axes.set_yticks(range(len(lines)), [line.label for line in lines], fontsize=8.5)
    axes.grid(axis="x", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
