"""The paper's instances of the windy grid: which cells are windy, how strong the wind is, and Figure 1(a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path

from safe2real.errors import InvalidInput
from safe2real.model.validation import finite_number, is_whole, positive_integer
from safe2real.systems.windy_grid import Cell, WindyGrid


def with_mismatch(
    num_windy: int, wind: float | Sequence[float] = 0.8, seed: int = 0, *, size: int = 5, horizon: int = 12
) -> WindyGrid:
    """The first `num_windy` cells of `windy_order` are windy: for one seed, fewer windy cells are a subset of more."""
    calm = WindyGrid(size=size, horizon=horizon)
    order = windy_order(calm, seed)
    if not is_whole(num_windy) or not 0 <= num_windy <= len(order):
        raise InvalidInput(f"num_windy is {num_windy!r}; this grid can have 0 to {len(order)} windy cells")
    return WindyGrid(size=size, horizon=horizon, windy=order[:num_windy], wind=wind)


def windy_order(grid: WindyGrid, seed: int) -> tuple[Cell, ...]:
    """All cells in the order in which the paper makes them windy (appendix on |B|).

    First the cells that are neither wall nor start, by increasing Manhattan distance to the centre of the wall, ties in a
    random order fixed by `seed`; then the wall cells; then the start.
    """
    if not grid.wall:
        raise InvalidInput("the grid has no wall, so no cell is closest to it; give the windy cells yourself")
    if not is_whole(seed) or seed < 0:
        raise InvalidInput(f"seed is {seed!r}; it must be a whole number of at least 0")
    every = [grid.cell(state) for state in range(grid.num_states)]
    regular = [cell for cell in every if cell not in grid.wall and cell != grid.start]
    shuffled = [regular[i] for i in np.random.default_rng(seed).permutation(len(regular))]
    # The centre is the mean of the wall cells; distances are multiplied by their number to compare whole numbers.
    count, rows, columns = len(grid.wall), sum(r for r, _ in grid.wall), sum(c for _, c in grid.wall)
    shuffled.sort(key=lambda cell: abs(count * cell[0] - rows) + abs(count * cell[1] - columns))  # stable: keeps the shuffle
    return (*shuffled, *grid.wall, grid.start)


def equispaced_wind(num_windy: int, weakest: float = 0.2, strongest: float = 0.8) -> tuple[float, ...]:
    """Wind of the heterogeneous instance III: equispaced along the order of windy cells, the weakest closest to the wall."""
    count = positive_integer("num_windy", num_windy)
    low, high = finite_number("weakest", weakest), finite_number("strongest", strongest)
    if not 0.0 < low <= high <= 1.0:
        raise InvalidInput(f"the wind goes from {low:g} to {high:g}; choose 0 < weakest <= strongest <= 1")
    return tuple(float(value) for value in np.linspace(low, high, count))


def draw_grid(grid: WindyGrid, axes: Axes) -> None:
    """Draw Figure 1(a): a star at the start, the wall hatched, windy cells red (redder in stronger wind).

    Cell (row, column) is the unit square centred at x = column, y = row, as `imshow` has it, so heat maps can lie under it.
    The legend goes to the right of the axes; make room for it, e.g. with a constrained layout.
    """

    def square(cell: tuple[int, int], **style: Any) -> None:
        axes.add_patch(Rectangle((cell[1] - 0.5, cell[0] - 0.5), 1.0, 1.0, **style))

    def red(strength: float) -> tuple[float, float, float, float]:
        return (0.84, 0.15, 0.16, 0.15 + 0.75 * strength)

    hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.25", "hatch": "///", "linewidth": 0.0}
    for cell, strength in zip(grid.windy, grid.wind, strict=True):
        square(cell, facecolor=red(strength), edgecolor="none", zorder=1)
    for cell in grid.wall:
        square(cell, **hatched, zorder=2)
    for line in range(grid.size + 1):
        style: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "zorder": 3, "clip_on": False}
        axes.plot([line - 0.5, line - 0.5], [-0.5, grid.size - 0.5], **style)
        axes.plot([-0.5, grid.size - 0.5], [line - 0.5, line - 0.5], **style)
    star = Path.unit_regular_star(5, 0.42)
    points = np.asarray(star.vertices) * (0.26, -0.26) + (grid.start[1], grid.start[0])  # y grows downwards here
    axes.add_patch(PathPatch(Path(points, star.codes), facecolor="gold", edgecolor="black", linewidth=0.8, zorder=4))
    axes.set(xlim=(-0.5, grid.size - 0.5), ylim=(grid.size - 0.5, -0.5), aspect="equal", xlabel="column", ylabel="row")
    ticks = range(0, grid.size, -(-grid.size // 10))  # at most ten
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    handles: list[Artist] = [
        Line2D([], [], marker="*", linestyle="none", markersize=14, color="gold", markeredgecolor="black", label="start")
    ]
    if grid.wall:
        handles.append(Patch(**hatched, label="unsafe wall"))
    strengths = sorted(set(grid.wind))
    if len(strengths) > 4:  # the ends of the scale say enough
        strengths = [strengths[0], strengths[-1]]
    handles += [Patch(facecolor=red(p), edgecolor="none", label=f"wind {p:.3g}") for p in strengths]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, frameon=False)
