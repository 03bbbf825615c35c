"""The HTML report of a pre-flight check, with its figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import needed_for
from safe2real.model.constraint_text import Wording
from safe2real.model.validation import ROUNDING
from safe2real.plots.course import draw_limit
from safe2real.plots.style import BLUE, GREEN, LINES, MOST_PANELS, ORANGE, RED, count_deployments, thinned
from safe2real.preflight.baseline import Range
from safe2real.preflight.check import Preflight
from safe2real.preflight.findings import WORTH
from safe2real.preflight.rehearsed_campaign import Exact
from safe2real.report.page import render
from safe2real.standing import Standing

with needed_for("figures", "report"):
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

_MOST_LINES = 6
_FEW_LABELS, _MANY_LABELS = 1.5, 3.0  # decades up to which 2 and 5 are labelled too, on axes with wide and narrow labels


def draw_exact(exact: Exact, wordings: Sequence[Wording], bound: str) -> Figure:
    """Draw the exact value of every deployment beside its limit or threshold, and the bound of its certificate.

    A cost is drawn as a cost: more of it is higher. The legend calls the bound `bound`.
    """
    panels = max(1, min(MOST_PANELS, len(wordings)))
    figure = Figure(figsize=(10.5, 0.9 + 2.9 * panels), layout="constrained")
    for k, axes in enumerate(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]):
        if not wordings or not exact.numbers.size:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "no constraint, or no deployment", ha="center", transform=axes.transAxes)
            continue
        words = wordings[k]
        values, bounds = (np.array([words.number(one) for one in found[:, k]]) for found in (exact.values, exact.bounds))
        kept = np.union1d(thinned(values), thinned(bounds))
        axes.plot(exact.numbers[kept], values[kept], ".", color=BLUE, markersize=4, label="exact, on the reality")
        # Each deployment has its own bound, so the line has steps.
        numbers = exact.numbers[kept]
        across = np.concatenate([numbers[:1] - 0.5, numbers, numbers[-1:] + 0.5])
        axes.step(across, bounds[np.r_[kept[0], kept, kept[-1]]], where="mid", color=ORANGE, linewidth=3.0, alpha=0.5,
                  label=bound, zorder=1)  # fmt: skip
        broken = np.flatnonzero(exact.values[:, k] - exact.thresholds[k] < -ROUNDING)
        if broken.size:
            axes.plot(exact.numbers[broken], values[broken], "x", color=RED, markersize=7, label=f"{broken.size:,} unsafe")
        draw_limit(axes, words, words.number(exact.thresholds[k]))
        axes.set_ylabel(f"{words.quantity[:40]}\nof the deployed mixture", parse_math=False)
        count_deployments(axes)
        axes.set_axisbelow(True)
        axes.legend(fontsize=8.5, loc="best")
        if k == panels - 1:
            axes.set_xlabel("deployment")
    return figure


def draw_preflight(found: Preflight) -> Figure:
    """Draw number lines of the constraints, and below them the uncertainty and the bound of plans over rehearsed samples."""
    lines = found.ranges[:_MOST_LINES]
    rows = max(1, len(lines))
    below = 3.1 if found.rehearsals else 0.0
    heights = (1.55 * rows + 0.4, below) if found.rehearsals else (1.0,)
    figure = Figure(figsize=(10.5, 1.55 * rows + below + 0.5), layout="constrained")
    parts = figure.subfigures(2 if found.rehearsals else 1, 1, squeeze=False, height_ratios=heights)[:, 0]
    panels = parts[0].subplots(rows, 1, squeeze=False)[:, 0]
    for axes, one in zip(panels, lines, strict=False):
        _number_line(axes, one)
    if not lines:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "no constraint is stated", ha="center", transform=panels[0].transAxes)
    if found.rehearsals:
        left, right = parts[1].subplots(1, 2)
        if found.standing is not Standing.CERTIFIED:
            parts[1].suptitle(f"These rehearsals: {WORTH[found.standing]}", fontsize=10, color=RED)
        _uncertainty(left, found)
        _plans(right, found)
    return figure


def _number_line(axes: Axes, one: Range) -> None:
    words = one.wording
    lowest, highest, limit, kept, here, there = map(
        words.number,
        (one.lowest, one.highest, one.threshold, one.threshold + one.margin, one.baseline, one.baseline_real),
    )
    rollouts = [] if one.rollouts is None else [words.number(end) for end in one.rollouts]
    values = [lowest, highest, limit, here, there, *rollouts]
    room = 0.06 * (max(values) - min(values)) or 0.5
    axes.set_xlim(min(values) - room, max(values) + room)
    axes.set_ylim(-1.0, 1.0)
    axes.axvspan(limit, axes.get_xlim()[1 if words.is_cost else 0], color=RED, alpha=0.08, linewidth=0.0)
    axes.plot([lowest, highest], [0.0, 0.0], color="0.75", linewidth=7.0, solid_capstyle="butt", zorder=1,
              label="reachable by some policy on the simulator")  # fmt: skip
    axes.plot([limit, kept], [0.0, 0.0], color=GREEN, linewidth=7.0, alpha=0.5,
              solid_capstyle="butt", zorder=2, label="stated margin")  # fmt: skip
    axes.axvline(limit, color=RED, linewidth=1.8, label=f"{words.bound_word} {limit:.4g}, unsafe where shaded")
    label = f"baseline on the simulator {here:.4g}"
    axes.plot(here, 0.0, "o", color=BLUE, markersize=8, zorder=4, label=label)
    label = f"baseline on the rehearsed reality {there:.4g}"
    axes.plot(there, 0.0, "D", color=ORANGE, markersize=7, zorder=5, label=label,
              markerfacecolor="none", markeredgewidth=2.0)  # fmt: skip
    if rollouts:
        axes.plot(rollouts, [-0.35, -0.35], color=BLUE, linewidth=2.0, marker="|", markersize=9,
                  label="baseline by rollouts")  # fmt: skip
    axes.set_yticks([])
    axes.set_title(f"{words.quantity[:60]} (sum over an episode)", fontsize=10, loc="left", parse_math=False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3, fontsize=8, frameon=False)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def _uncertainty(axes: Axes, found: Preflight) -> None:
    drawn = []
    for one in found.rehearsals:
        finite = np.isfinite(one.curve)
        drawn.append((one.steps * one.curve_at[finite], one.curve[finite]))
    for i, (samples, values) in enumerate(drawn):
        axes.plot(samples, values, color=BLUE, linewidth=1.0, alpha=0.7, marker="o" if samples.size == 1 else None,
                  label="one line for each rehearsal" if i == 0 else None)  # fmt: skip
    stops = [one for one in found.rehearsals if one.stopped]
    if stops:
        axes.plot([one.samples for one in stops], [one.uncertainty for one in stops], "o", color=GREEN,
                  markersize=6, label="stop")  # fmt: skip
    axes.axhline(found.tolerance, color="black", linestyle="--", linewidth=1.0, label=f"{found.goal} {found.tolerance:.3g}")
    infinite = sum(not np.isfinite(one.uncertainty) for one in found.rehearsals)
    if infinite:
        why = "the data contradict an assumption" if any(one.refuted for one in found.rehearsals) else "no candidate yet"
        lines = (f"It is infinite at the end of {infinite} of {len(found.rehearsals)}:", f"{why},")
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        left = "nothing" if any(one.halted for one in found.rehearsals) else "the baseline alone"
        axes.text(0.35, 0.42, "\n".join((*lines, f"{left} is deployed")), ha="center", va="center", fontsize=8,
                  color=RED, transform=axes.transAxes, bbox=box)  # fmt: skip
    axes.set_title("Uncertainty on the way to the stop", fontsize=10, loc="left")
    axes.set_ylabel("largest uncertainty of a value")
    heights = np.concatenate([[found.tolerance], *(values for _, values in drawn)])
    _dress(axes, np.concatenate([samples for samples, _ in drawn]), heights)


def _plans(axes: Axes, found: Preflight) -> None:
    drawn = [(one.steps * one.looked_at, one.plan_bounds) for one in found.rehearsals]
    for i, (samples, bounds) in enumerate(drawn):
        axes.plot(samples, bounds, color=ORANGE, marker="o", markersize=4, linewidth=1.0, alpha=0.8,
                  label="mean over rewards, one line for each rehearsal" if i == 0 else None)  # fmt: skip
    whose = "Certified suboptimality" if found.standing is Standing.CERTIFIED else "Bound on the suboptimality"
    axes.set_title(f"{whose} of plans, at any time", fontsize=10, loc="left")
    axes.set_ylabel(f"bound (of a possible {found.horizon})")
    _dress(axes, *(np.concatenate(parts) for parts in zip(*drawn, strict=True)))


def _dress(axes: Axes, across: NDArray[Any], up: NDArray[Any]) -> None:
    """Set scales and labels for values of any range."""
    _scale(axes, axes.xaxis, across, "{:,.0f}", _FEW_LABELS)
    _scale(axes, axes.yaxis, up, "{:g}", _MANY_LABELS)
    axes.set_xlabel("rehearsed samples")
    axes.set_axisbelow(True)
    axes.grid(color=LINES)
    axes.legend(fontsize=8, frameon=False)


def _scale(axes: Axes, axis: Axis, values: NDArray[Any], form: str, decades: float) -> None:
    """Logarithmic from a factor of ten on, with labels between the powers up to `decades`; else linear from 0."""
    name = "x" if axis is axes.xaxis else "y"
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if low > 0.0 and high >= 10.0 * low:
        axes.set(**{f"{name}scale": "log"})
        between = (1.0, 2.0, 5.0) if high < 10.0**decades * low else (1.0,)
        axis.set_major_locator(LogLocator(subs=between, numticks=12))
        axis.set_minor_formatter(NullFormatter())
    else:
        axes.set(**{f"{name}lim": (0.0, 1.1 * high if high > ROUNDING else 1.0)})
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=form == "{:,.0f}", min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))


def preflight_page(found: Preflight, figure: Figure, name: str) -> str:
    """Return the HTML page of a pre-flight check.

    Args:
        found: the check.
        figure: as `draw_preflight` returns it.
        name: of the problem, for the title.

    Returns:
        HTML, with the figure embedded.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    return render(
        "preflight.html.jinja",
        title=f"Pre-flight of {name}",
        found=found,
        findings=found.worst_first,
        worth=WORTH[found.standing],
        picture_of=picture.getvalue(),
    )
