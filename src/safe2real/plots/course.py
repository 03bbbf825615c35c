"""The course of a campaign in pictures: its certificate over time, and the safety of each deployment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.model.constraint_text import Wording, bound_words, count, rounded_up
from safe2real.model.validation import ROUNDING, Floats
from safe2real.plots.style import (
    BLUE,
    GREEN,
    LINES,
    MOST_PANELS,
    ORANGE,
    RED,
    count_deployments,
    draw_suspects,
    draw_uncertainty,
    thinned,
)

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

_SHADE = 0.08
_FEW = 60  # deployments that are drawn as dots
_TICKS = 1_000  # across a picture


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """The certificates of n deployments in order, and the suspects at m moments."""

    numbers: NDArray[np.int64]  # [n]
    baseline: NDArray[np.bool_]  # [n] the baseline alone
    uncertainty: Floats  # [n] nan where it is unbounded
    exploration_weight: Floats  # [n] share of the candidate
    margins: Floats  # [n, K] lower bound minus threshold
    looked_at: NDArray[np.int64]  # [m] deployments handed out then
    suspects: NDArray[np.int64]  # [m]
    stop: tuple[int, float] | None  # (deployments, uncertainty) when it stopped


def draw_certificate(course: Course, tolerance: float, horizon: int) -> Figure:
    """Draw the uncertainty and the tolerance; below them the share of the candidate and the suspects."""
    figure = Figure(figsize=(10.5, 5.8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, 1.0))
    draw_uncertainty(upper, course.numbers, course.uncertainty, tolerance)
    if course.baseline.any():
        alone = course.numbers[course.baseline]
        width = max(1, math.ceil(course.numbers[-1] / _TICKS))
        ticks = np.unique(alone // width) * width
        rounds = f"baseline alone: {len(alone):,} of {len(course.numbers):,} rounds"
        above = upper.get_xaxis_transform()
        upper.plot(ticks, np.full(len(ticks), 0.97), "|", color=ORANGE, markersize=9, label=rounds, transform=above)
    if course.stop is not None:
        at, delta = course.stop
        upper.plot(
            [at], [delta], "*", color=GREEN, markersize=15, markeredgecolor="white", zorder=4, clip_on=False,
            label=f"stopped after {count(at, 'round')}, at {rounded_up(delta)}",
        )  # fmt: skip
    bounded = course.uncertainty[np.isfinite(course.uncertainty)]
    values = np.append(bounded, [tolerance, tolerance if len(bounded) else float(horizon)])
    upper.set_ylim(0.75 * values.min(), 2.0 * values.max())
    figure.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    kept, dots = thinned(course.exploration_weight), "." if len(course.numbers) <= _FEW else ""
    lower.plot(course.numbers[kept], course.exploration_weight[kept], color=ORANGE, linewidth=0.7, marker=dots)
    lower.set_ylim(-0.03, 1.03)
    lower.set_ylabel("share of the candidate", color=ORANGE)
    lower.tick_params(axis="y", colors=ORANGE)
    draw_suspects(lower, course.looked_at, course.suspects, GREEN)
    _deployments_below(lower, course)
    return figure


def draw_safety(course: Course, wordings: Sequence[Wording], thresholds: Floats) -> Figure:
    """Draw, for every constraint, the bound of each deployment and the limit or threshold, in the user's words.

    A cost is drawn as a cost: more of it is higher. The unsafe side is shaded: above a limit, below a threshold.
    """
    worst_first = np.argsort(course.margins.min(axis=0), kind="stable")
    shown = sorted(worst_first[:MOST_PANELS].tolist())
    figure = Figure(figsize=(10.5, 1.1 + 2.4 * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, k in zip(panels, shown, strict=True):
        margins, words = course.margins[:, k], wordings[k]
        limit, bounds = words.number(thresholds[k]), np.array([words.number(low) for low in margins + thresholds[k]])
        for mask, colour, marker in ((course.baseline, ORANGE, "s"), (~course.baseline, BLUE, "o")):
            chosen = np.flatnonzero(mask)
            chosen = chosen[thinned(margins[chosen])]
            axes.plot(course.numbers[chosen], bounds[chosen], marker, color=colour, markersize=3.5, markeredgewidth=0.0)
        broken = np.flatnonzero(margins < -ROUNDING)
        axes.plot(course.numbers[broken], bounds[broken], "x", color=RED, markersize=8, markeredgewidth=2.0)
        low, high = min(limit, bounds.min()), max(limit, bounds.max())
        room = 0.12 * (high - low) if high - low > 1e-6 else 0.5
        axes.set_ylim(low - room, high + room)
        draw_limit(axes, words, limit)
        axes.set_ylabel(f"{bound_name(words)}\n(sum over an episode)", parse_math=False)
    handles: list[Artist] = [
        Line2D([], [], marker="s", linestyle="none", color=ORANGE, label="baseline alone"),
        Line2D([], [], marker="o", linestyle="none", color=BLUE, label="candidate mixed with the baseline"),
        Line2D([], [], linestyle="--", color="black", label=bound_words(wordings)),
        Patch(facecolor=RED, alpha=_SHADE, label="unsafe"),
    ]
    if (course.margins < -ROUNDING).any():
        cross = {"marker": "x", "linestyle": "none", "color": RED, "markeredgewidth": 2.0}
        handles.append(Line2D([], [], label="misses it", **cross))  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=9, frameon=False)
    _deployments_below(panels[-1], course)
    return figure


def bound_name(words: Wording) -> str:
    """Return the name of a deployment's bound: an upper bound for a cost, else a lower bound."""
    return f"{words.quantity[:40]}, {'at most' if words.is_cost else 'at least'}"


def draw_limit(axes: Axes, words: Wording, limit: float) -> None:
    """Draw the limit or threshold of a constraint, shade its unsafe side within the axes, and write the title."""
    axes.axhline(limit, color="black", linestyle="--", linewidth=1.0, zorder=4, label=f"{words.bound_word} {limit:.5g}")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    axes.axhspan(*((limit, high) if words.is_cost else (low, limit)), color=RED, alpha=_SHADE, linewidth=0.0, zorder=0)
    side = "at most" if words.is_cost else "at least"
    axes.set_title(f"{words.label[:80]}: {side} {limit:.6g}, in expectation", fontsize=10, parse_math=False)
    axes.grid(axis="y", color=LINES)


def _deployments_below(axes: Axes, course: Course) -> None:
    last = int(course.numbers[-1])
    room = max(0.5, 0.01 * last)
    axes.set_xlim(1 - room, last + room)
    count_deployments(axes)
    axes.set_xlabel("deployment")
