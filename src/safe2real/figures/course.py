"""The course of a campaign in pictures: its certificate over time, and the safety of each deployment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.model.checks import Floats

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

_BLUE, _ORANGE, _GREEN, _RED = "#2563a8", "#d9730d", "#2e8b57", "#b91c1c"
_FEW = 60  # deployments that are drawn as dots
_POINTS = 1_000  # columns of a curve; a picture has not many more
_MOST_PANELS = 6
ROUNDING = 1e-9  # as in `Certificate.holds`


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """What was handed out, deployment after deployment [n], and what was known at some moments [m]."""

    numbers: NDArray[np.int64]  # [n]
    baseline: NDArray[np.bool_]  # [n] Line 5: the baseline alone
    uncertainty: Floats  # [n] Delta; nan where it is unbounded
    exploration_weight: Floats  # [n] alpha
    margins: Floats  # [n, K] lower bound minus threshold
    looked_at: NDArray[np.int64]  # [m] deployments handed out then
    suspects: NDArray[np.int64]  # [m]
    stop: tuple[int, float] | None  # (deployments, Delta) when it stopped


def draw_certificate(course: Course, tolerance: float, horizon: int) -> Figure:
    """Delta on its way to the tolerance; below it alpha and the suspects."""
    figure = Figure(figsize=(10.5, 5.8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, 1.0))
    planned = np.flatnonzero(~np.isnan(course.uncertainty))
    kept = planned[thinned(course.uncertainty[planned])]
    dots = "." if len(course.numbers) <= _FEW else ""  # one point alone is no line
    deltas = course.uncertainty[kept]
    upper.plot(course.numbers[kept], deltas, color=_BLUE, linewidth=1.2, marker=dots, label="certificate $\\Delta$")
    upper.axhline(tolerance, color="black", linestyle="--", linewidth=1.0, label=f"tolerance $\\tau$ = {tolerance:.4g}")
    if course.baseline.any():
        alone = course.numbers[course.baseline]
        width = max(1, math.ceil(course.numbers[-1] / _POINTS))
        ticks = np.unique(alone // width) * width
        rounds = f"baseline alone (Line 5): {len(alone):,} of {len(course.numbers):,} rounds"
        above = upper.get_xaxis_transform()
        upper.plot(ticks, np.full(len(ticks), 0.97), "|", color=_ORANGE, markersize=9, label=rounds, transform=above)
    if course.stop is not None:
        at, delta = course.stop
        upper.plot(
            [at], [delta], "*", color=_GREEN, markersize=15, markeredgecolor="white", zorder=4, clip_on=False,
            label=f"stopped after {at:,} rounds, $\\Delta$ = {delta:.4g}",
        )  # fmt: skip
    values = np.append(course.uncertainty[planned], [tolerance, tolerance if len(planned) else float(horizon)])
    upper.set(yscale="log", ylim=(0.75 * values.min(), 2.0 * values.max()))
    upper.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    upper.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    upper.yaxis.set_minor_formatter(NullFormatter())
    upper.set_ylabel("largest uncertainty of a value\n(sum over an episode, log scale)")
    figure.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    upper.grid(axis="y", color="0.92")

    kept = thinned(course.exploration_weight)
    lower.plot(course.numbers[kept], course.exploration_weight[kept], color=_ORANGE, linewidth=0.7, marker=dots)
    lower.set_ylim(-0.03, 1.03)
    lower.set_ylabel("exploration weight $\\alpha$", color=_ORANGE)
    lower.tick_params(axis="y", colors=_ORANGE)
    right = lower.twinx()
    right.step(course.looked_at, course.suspects, where="post", color=_GREEN, linewidth=1.4)
    right.set_ylim(0, max(1.0, 1.06 * course.suspects.max(initial=1)))
    right.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    right.set_ylabel("suspect rows", color=_GREEN)
    right.tick_params(axis="y", colors=_GREEN)
    _deployments_below(lower, course)
    return figure


def draw_safety(course: Course, names: Sequence[str], thresholds: Floats) -> Figure:
    """For every constraint by how much the certified lower bound of each deployment exceeds the threshold."""
    worst_first = np.argsort(course.margins.min(axis=0), kind="stable")
    shown = sorted(worst_first[:_MOST_PANELS].tolist())
    figure = Figure(figsize=(10.5, 1.1 + 2.4 * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, k in zip(panels, shown, strict=True):
        margins = course.margins[:, k]
        for mask, colour, marker in ((course.baseline, _ORANGE, "s"), (~course.baseline, _BLUE, "o")):
            chosen = np.flatnonzero(mask)
            chosen = chosen[thinned(margins[chosen])]
            axes.plot(course.numbers[chosen], margins[chosen], marker, color=colour, markersize=3.5, markeredgewidth=0.0)
        broken = np.flatnonzero(margins < -ROUNDING)
        axes.plot(course.numbers[broken], margins[broken], "x", color=_RED, markersize=8, markeredgewidth=2.0)
        axes.axhline(0.0, color="black", linestyle="--", linewidth=1.0, zorder=4)
        low, high = min(0.0, margins.min()), max(0.0, margins.max())
        room = 0.12 * (high - low) if high - low > 1e-6 else 0.5
        axes.set_ylim(low - room, high + room)
        axes.set_title(f"{names[k][:80]} (threshold {thresholds[k]:.6g})", fontsize=10, parse_math=False)
        axes.set_ylabel("lower bound on $V_c$\nminus threshold")
        axes.grid(axis="y", color="0.92")
    handles: list[Artist] = [
        Line2D([], [], marker="s", linestyle="none", color=_ORANGE, label="baseline alone (Line 5)"),
        Line2D([], [], marker="o", linestyle="none", color=_BLUE, label="candidate mixed with the baseline (Line 13)"),
        Line2D([], [], linestyle="--", color="black", label="threshold"),
    ]
    if (course.margins < -ROUNDING).any():
        cross = {"marker": "x", "linestyle": "none", "color": _RED, "markeredgewidth": 2.0}
        handles.append(Line2D([], [], label="below the threshold", **cross))  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=9, frameon=False)
    _deployments_below(panels[-1], course)
    return figure


def thinned(values: Floats) -> NDArray[np.int64]:
    """Which points of a long curve to draw: the lowest and the highest of each column, and every one below 0."""
    if len(values) <= 2 * _POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), _POINTS + 1).astype(np.int64)
    lowest = [first + int(np.argmin(values[first:last])) for first, last in pairwise(edges)]
    highest = [first + int(np.argmax(values[first:last])) for first, last in pairwise(edges)]
    return np.unique(np.concatenate([lowest, highest, np.flatnonzero(values < -ROUNDING), [0, len(values) - 1]]))


def _deployments_below(axes: Axes, course: Course) -> None:
    last = int(course.numbers[-1])
    room = max(0.5, 0.01 * last)
    axes.set_xlim(1 - room, last + room)
    count_deployments(axes)
    axes.set_xlabel("deployment")


def count_deployments(axes: Axes) -> None:
    """An axis of whole numbers below."""
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
