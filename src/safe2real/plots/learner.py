"""Picture of a learner: certified bounds over samples, above the map of where the simulator is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from safe2real.errors import needed_for
from safe2real.evidence.mismatch_map import MismatchMap
from safe2real.evidence.moments import Moment
from safe2real.evidence.row_rule import Separation
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count, rounded_down
from safe2real.plots import style
from safe2real.plots.map import draw_mismatch
from safe2real.plots.rewards import draw_interval
from safe2real.plots.style import GREEN, INK, LINES, MOST_PANELS, ORANGE
from safe2real.standing import Standing

with needed_for("figures", "report"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    """Draw floors of a policy on trial, else intervals of declared rewards, else the uncertainty; then the map.

    Args:
        moments: at least one.
        model: with the constraints as they were written.
        standing: of all bounds; it is written above.
        tolerance: the uncertainty at which a run stops.
        targets: floors at which a trial stops.
        found: the mismatch map; None leaves it out.
        separation: as for `draw_mismatch`.

    Returns:
        A figure; save it with `savefig`.
    """
    last = moments[-1]
    floors, declared = list(last.floors), [one.name for one in last.intervals]
    names = (floors or declared or [""])[:MOST_PANELS]
    above = _TOP + len(names) * (_TALL + _BETWEEN) + (_BELOW - _BETWEEN)
    figure = Figure(figsize=(_WIDTH, above + 0.1)) if found is None else draw_mismatch(found, separation, above=above + 0.1)
    width, height = figure.get_size_inches()
    for number, name in enumerate(names):
        below = height - _TOP - (number + 1) * _TALL - number * _BETWEEN
        axes = style.panel(figure, _LEFT, below, width - _LEFT - _RIGHT, _TALL)
        if floors:
            _draw_floor(axes, name, moments, model, (targets or {}).get(name))
        elif declared:
            draw_interval(axes, name, [(one.samples, one.intervals) for one in moments], worth=standing.value)
        else:
            _draw_uncertainty(axes, moments, tolerance)
        axes.legend(fontsize=8, loc="best", framealpha=0.85)
        axes.set_xlim(0, max(1, last.samples))
        style.count_deployments(axes)
        if number == len(names) - 1:
            axes.set_xlabel("samples of the real system")
    left_out = len(floors or declared) - len(names)
    more = f"; {left_out} more not shown" if left_out > 0 else ""
    style.write_title(figure, 0.12, 0.2, f"{_WORTH[standing]}{more}", 10, "bold")
    return figure


def _draw_uncertainty(axes: Axes, moments: Sequence[Moment], tolerance: float) -> None:
    """Draw the uncertainty of any policy's value, the tolerance, and the rows in doubt."""
    across = np.array([one.samples for one in moments])
    values = np.array([one.uncertainty for one in moments])
    style.draw_uncertainty(axes, across, values, tolerance)
    if not np.isfinite(values[-1]):
        axes.plot([], [], " ", label="unbounded now: the baseline alone is deployed")
    suspects = np.array([one.suspects for one in moments])
    style.draw_suspects(axes, across, suspects, ORANGE)
    axes.set_title(f"Uncertainty of any policy's value; {count(suspects[-1], 'row')} in doubt", fontsize=10, loc="left")


def _draw_floor(axes: Axes, name: str, moments: Sequence[Moment], model: CMDP, target: float | None) -> None:
    """Draw the certified bounds for the policy on trial alone: floors, or a ceiling of a cost."""
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
