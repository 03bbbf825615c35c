"""The picture that only a rehearsal can give: what every deployed mixture is really worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from safe2real.errors import needed_for
from safe2real.figures.course import count_deployments, shade_unsafe, thinned
from safe2real.model.wording import Wording
from safe2real.preflight.rehearsal import Exact

with needed_for("figures", "report"):
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _RED = "#2563eb", "#ea580c", "#b91c1c"
_MOST_PANELS = 6


def draw_exact(exact: Exact, wordings: Sequence[Wording], bound: str) -> Figure:
    """What every deployment really does against its limit or threshold, with the bound of its certificate, called `bound`.

    A cost is drawn as a cost: more of it is higher.
    """
    panels = max(1, min(_MOST_PANELS, len(wordings)))
    figure = Figure(figsize=(10.5, 0.9 + 2.9 * panels), layout="constrained")
    for k, axes in enumerate(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]):
        if not wordings or not exact.numbers.size:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "no constraint, or no deployment", ha="center", transform=axes.transAxes)
            continue
        words = wordings[k]
        sign, offset = (-1.0, words.number(0.0)) if words.is_cost else (1.0, 0.0)
        values, bounds = (offset + sign * numbers[:, k] for numbers in (exact.values, exact.bounds))
        limit = words.number(exact.thresholds[k])
        kept = np.union1d(thinned(values), thinned(bounds))
        axes.plot(exact.numbers[kept], values[kept], ".", color=_BLUE, markersize=4, label="exact, on the reality")
        # Each deployment has a bound of its own: nothing lies between two of them.
        numbers = exact.numbers[kept]
        across = np.concatenate([numbers[:1] - 0.5, numbers, numbers[-1:] + 0.5])
        axes.step(across, bounds[np.r_[kept[0], kept, kept[-1]]], where="mid", color=_ORANGE, linewidth=3.0, alpha=0.5,
                  label=bound, zorder=1)  # fmt: skip
        broken = np.flatnonzero(sign * (values - limit) < -1e-9)
        if broken.size:
            axes.plot(exact.numbers[broken], values[broken], "x", color=_RED, markersize=7, label=f"{broken.size:,} unsafe")
        axes.axhline(limit, color="black", linestyle="--", linewidth=1.2, label=f"{words.bound_word} {limit:.5g}")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high)
        shade_unsafe(axes, words, limit)
        title = f"{words.label[:80]}: {'at most' if words.is_cost else 'at least'} {limit:.5g}, in expectation"
        axes.set_title(title, fontsize=10, parse_math=False)
        axes.set_ylabel(f"{words.quantity[:40]}\nof the deployed mixture", parse_math=False)
        count_deployments(axes)
        axes.set_axisbelow(True)
        axes.grid(axis="y", color="0.92")
        axes.legend(fontsize=8.5, loc="best")
        if k == panels - 1:
            axes.set_xlabel("deployment")
    return figure
