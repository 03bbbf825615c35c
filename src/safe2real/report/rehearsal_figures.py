"""The picture that only a rehearsal can give: what every deployed mixture is really worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from safe2real.errors import needed_for
from safe2real.figures.course import count_deployments, thinned
from safe2real.preflight.rehearsal import Exact

with needed_for("figures", "report"):
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _RED = "#2563eb", "#ea580c", "#b91c1c"
_MOST_PANELS = 6


def draw_exact(exact: Exact, names: Sequence[str], bound: str) -> Figure:
    """The exact V_c of every deployment against its threshold, with the lower bound of its certificate, called `bound`."""
    panels = max(1, min(_MOST_PANELS, len(names)))
    figure = Figure(figsize=(10.5, 0.9 + 2.9 * panels), layout="constrained")
    for k, axes in enumerate(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]):
        if not names or not exact.numbers.size:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "no constraint, or no deployment", ha="center", transform=axes.transAxes)
            continue
        values, bounds, threshold = exact.values[:, k], exact.bounds[:, k], exact.thresholds[k]
        kept = np.union1d(thinned(values), thinned(bounds))
        axes.plot(exact.numbers[kept], values[kept], ".", color=_BLUE, markersize=4, label="exact $V_c$ on the reality")
        # Each deployment has a bound of its own: nothing lies between two of them.
        numbers = exact.numbers[kept]
        across = np.concatenate([numbers[:1] - 0.5, numbers, numbers[-1:] + 0.5])
        axes.step(across, bounds[np.r_[kept[0], kept, kept[-1]]], where="mid", color=_ORANGE, linewidth=3.0, alpha=0.5,
                  label=bound, zorder=1)  # fmt: skip
        broken = np.flatnonzero(values < threshold - 1e-9)
        if broken.size:
            axes.plot(exact.numbers[broken], values[broken], "x", color=_RED, markersize=7, label=f"{broken.size:,} unsafe")
        axes.axhline(threshold, color="black", linestyle="--", linewidth=1.2, label=f"threshold {threshold:.5g}")
        axes.set_title(f"{names[k][:80]}", fontsize=10, parse_math=False)
        axes.set_ylabel("$V_c$ of the deployed mixture")
        count_deployments(axes)
        axes.set_axisbelow(True)
        axes.grid(axis="y", color="0.92")
        axes.legend(fontsize=8.5, loc="best")
        if k == panels - 1:
            axes.set_xlabel("deployment")
    return figure
