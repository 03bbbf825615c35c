"""What a learner knows: what is certain as samples came in, above the map of where the simulator is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from safe2real.errors import needed_for
from safe2real.evidence.mismatch_map import MismatchMap
from safe2real.evidence.row_rule import Separation
from safe2real.figures.course import count_deployments
from safe2real.figures.history import Moment
from safe2real.figures.mismatch import draw_mismatch, panel
from safe2real.figures.rewards import MOST_PANELS, draw_interval
from safe2real.figures.style import BLUE, GREEN, INK, LINES, ORANGE
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count, rounded_down
from safe2real.standing import Standing

with needed_for("figures", "report"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

_TOP, _TALL, _BETWEEN = 0.7, 1.75, 0.55  # inches: above the first panel, of a panel, from one to the next
_LEFT, _RIGHT, _BELOW = 0.95, 0.95, 0.6
_WIDTH = 9.0
_WORTH = {
    Standing.CERTIFIED: "Certified, if the assumptions are true",
    Standing.HEURISTIC: "HEURISTIC: no guarantee",
    Standing.REFUTED: "An assumption is REFUTED: no guarantee",
    Standing.INCOMPLETE: "Incomplete: no guarantee",
}


def draw_learning(
    moments: Sequence[Moment],
    model: CMDP,
    *,
    standing: Standing,
    tolerance: float,
    targets: Mapping[str, float] | None = None,
    found: MismatchMap | None = None,
    separation: Separation | None = None,
) -> Figure:
    """Over samples: floors of a policy on trial, else intervals of declared rewards, else the uncertainty; then the map.

    Args:
        moments: at least one.
        model: with the constraints as they were written.
        standing: what all of it is worth; it is written above.
        tolerance: the uncertainty at which a run stops.
        targets: floors at which a trial stops.
        found: the mismatch map; None leaves it out.
        separation: as for `draw_mismatch`.
    """
    last = moments[-1]
    floors, declared = list(last.floors), [one.name for one in last.intervals]
    names = (floors or declared or [""])[:MOST_PANELS]
    above = _TOP + len(names) * (_TALL + _BETWEEN) + (_BELOW - _BETWEEN)
    figure = Figure(figsize=(_WIDTH, above + 0.1)) if found is None else draw_mismatch(found, separation, above=above + 0.1)
    width, height = figure.get_size_inches()
    for number, name in enumerate(names):
        below = height - _TOP - (number + 1) * _TALL - number * _BETWEEN
        axes = panel(figure, _LEFT, below, width - _LEFT - _RIGHT, _TALL)
        if floors:
            _draw_floor(axes, name, moments, model, (targets or {}).get(name))
        elif declared:
            draw_interval(axes, name, [(one.samples, one.intervals) for one in moments], worth=standing.value)
        else:
            _draw_uncertainty(axes, moments, tolerance)
        axes.legend(fontsize=8, loc="best", framealpha=0.85)
        axes.set_xlim(0, max(1, last.samples))
        count_deployments(axes)
        if number == len(names) - 1:
            axes.set_xlabel("samples of the real system")
    left_out = len(floors or declared) - len(names)
    more = f"; {left_out} more not shown" if left_out > 0 else ""
    figure.text(0.12 / width, 1.0 - 0.2 / height, f"{_WORTH[standing]}{more}", fontsize=10, weight="bold", va="center")
    return figure


def _draw_uncertainty(axes: Axes, moments: Sequence[Moment], tolerance: float) -> None:
    """How far the value of any policy may be off, on its way to the tolerance; beside it the rows in doubt."""
    across = np.array([one.samples for one in moments])
    values = np.array([one.uncertainty for one in moments])
    shown = np.isfinite(values)
    dots = "." if shown.sum() <= 1 else ""
    axes.plot(across[shown], values[shown], color=BLUE, linewidth=1.3, marker=dots, label="uncertainty of a value")
    axes.axhline(tolerance, color="black", linestyle="--", linewidth=1.0, label=f"tolerance {tolerance:.4g}: the stop")
    if not shown[-1]:
        axes.plot([], [], " ", label="unbounded now: the baseline alone is deployed")
    if tolerance > 0.0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("sum over an episode", color=BLUE)
    axes.grid(axis="y", color=LINES)
    suspects = np.array([one.suspects for one in moments])
    right = axes.twinx()
    right.step(across, suspects, where="post", color=ORANGE, linewidth=1.3)
    right.set_ylim(0, max(1.0, 1.06 * suspects.max()))
    right.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    right.set_ylabel("rows in doubt", color=ORANGE)
    axes.set_title(f"How uncertain any value is, and {count(suspects[-1], 'row')} in doubt", fontsize=10, loc="left")


def _draw_floor(axes: Axes, name: str, moments: Sequence[Moment], model: CMDP, target: float | None) -> None:
    """What the policy on trial alone is worth at least; of a cost what it is at most."""
    moments = [one for one in moments if name in one.floors]  # a trial may begin in the middle of a run
    k = model.labels.index(name) if name in model.labels else None
    wording = None if k is None else model.wordings[k]
    values = [one.floors[name] for one in moments]
    side = "at most" if wording is not None and wording.is_cost else "at least"
    across, dots = [one.samples for one in moments], "." if len(moments) == 1 else ""
    axes.step(across, values, where="post", color=GREEN, linewidth=1.6, marker=dots, label=f"the policy alone: {side} this")
    if wording is not None and k is not None:
        asked = wording.number(float(model.thresholds[k]))
        axes.axhline(asked, color="black", linestyle="--", linewidth=1.0, label=f"{wording.bound_word} {asked:.4g}")
    if target is not None:
        axes.axhline(target, color=INK, linestyle=":", linewidth=1.2, label=f"target {target:.4g}")
    last = moments[-1].floors[name]
    said = f"expected {name} >= {rounded_down(last)}" if wording is None else wording.proved(wording.number(last))
    axes.set_title(f"The policy alone: {said[:90]}", fontsize=10, loc="left", parse_math=False)
    axes.set_ylabel("sum over an episode")
    axes.grid(axis="y", color=LINES)
