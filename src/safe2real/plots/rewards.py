"""Certified intervals of declared rewards as data came in."""

from __future__ import annotations

from collections.abc import Sequence

from safe2real.errors import needed_for
from safe2real.evidence.moments import Bounds
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.plots.style import BLUE, GREEN, LINES, MOST_PANELS, count_deployments

with needed_for("figures", "report"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Known = tuple[int, Sequence[Bounds]]  # deployments, or samples, and the bounds then


def draw_rewards(moments: Sequence[Known]) -> Figure:
    """Draw the certified interval of every declared reward over deployments."""
    names = [one.name for one in moments[-1][1]][:MOST_PANELS]
    figure = Figure(figsize=(10.5, 1.0 + 2.2 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        draw_interval(axes, name, moments)
    panels[0].legend(fontsize=8, loc="best")
    count_deployments(panels[-1])
    panels[-1].set_xlabel("deployment")
    return figure


def draw_interval(axes: Axes, name: str, moments: Sequence[Known], *, worth: str = "certified") -> None:
    """Draw both bounds of one reward as data arrive; `worth` names the plan in the legend."""
    known = [(at, one) for at, every in moments for one in every if one.name == name]
    across, dots = [at for at, _ in known], "." if len(known) == 1 else ""  # one point alone is no line
    lower, upper = [one.lower for _, one in known], [one.upper for _, one in known]
    axes.fill_between(across, lower, upper, color=BLUE, alpha=0.18, linewidth=0.0)
    axes.plot(across, upper, color=BLUE, linewidth=1.2, marker=dots, label="no safe policy is worth more")
    axes.plot(across, lower, color=GREEN, linewidth=1.6, marker=dots, label=f"the {worth} plan is worth at least this")
    last = known[-1][1]
    reached = "accurate enough" if last.is_accurate else f"asked for: {last.allowed:.3g}"
    ends = f"{rounded_down(last.lower)} to {rounded_up(last.upper)}"
    axes.set_title(f"{name[:60]}: {ends} ({reached})", fontsize=10, parse_math=False)
    axes.grid(axis="y", color=LINES)
    axes.set_ylabel("sum over an episode")
