"""Certified intervals of declared rewards as data came in."""

from __future__ import annotations

from collections.abc import Sequence

from safe2real.errors import needed_for
from safe2real.methods.intervals import Interval
from safe2real.report.course_figures import count_deployments

with needed_for("figures", "report"):
    from matplotlib.figure import Figure

Moment = tuple[int, tuple[Interval, ...]]  # deployments handed out, and what was certain then
_BLUE, _GREEN = "#2563a8", "#2e8b57"
_MOST_PANELS = 6


def draw_rewards(moments: Sequence[Moment]) -> Figure:
    """For every reward that is declared now, between which two numbers the best safe policy is worth, over deployments."""
    names = [one.name for one in moments[-1][1]][:_MOST_PANELS]
    figure = Figure(figsize=(10.5, 1.0 + 2.2 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        known = [(at, one) for at, every in moments for one in every if one.name == name]
        across = [at for at, _ in known]
        lower, upper = [one.lower for _, one in known], [one.upper for _, one in known]
        axes.fill_between(across, lower, upper, color=_BLUE, alpha=0.18, linewidth=0.0)
        axes.plot(across, upper, color=_BLUE, linewidth=1.2, label="no safe policy is worth more")
        axes.plot(across, lower, color=_GREEN, linewidth=1.6, label="the certified plan is worth at least this")
        last = known[-1][1]
        reached = "accurate enough" if last.is_accurate else f"asked for: {last.allowed:.3g}"
        axes.set_title(f"{name[:60]}: {last.lower:.4g} to {last.upper:.4g} ({reached})", fontsize=10, parse_math=False)
        axes.grid(axis="y", color="0.92")
        axes.set_ylabel("sum over an episode")
    panels[0].legend(fontsize=8, loc="best")
    count_deployments(panels[-1])
    panels[-1].set_xlabel("deployment")
    return figure
