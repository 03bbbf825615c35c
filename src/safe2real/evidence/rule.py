"""A radius and the deletion rule as numbers for compiled code."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import kinds
from safe2real._compiled import radii as compiled_radii
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats
from safe2real.radii import ALL
from safe2real.radii.base import Radius, RowShape, System
from safe2real.radii.literal import literal_constants
from safe2real.radii.subsets import subset_costs

_EXACTLY = 4096  # visits up to which a tabulated radius is kept for each number of them
_STEPS = 128  # and so many numbers for each doubling beyond: in between, the larger one holds
_DOUBLINGS = 40
_LARGEST_TABLE = 2**26  # numbers
_BY_SUBSETS = (kinds.UNION, kinds.STITCHED, kinds.ADAPTIVE)


def rule_of(
    radius: Radius,
    system: System,
    sizes: NDArray[np.int64],
    delta: float,
    *,
    threshold: float = -1.0,
    suspect_bonus: float = 1.0,
    cleared_bonus: float = 0.0,
    cleared_gap: float = 0.0,
    mismatch_gap: float = 1.0,
) -> compiled_radii.Rule:
    """What the compiled code needs of a radius, for rows with `sizes` [R] possible successors each.

    A radius from elsewhere is tabulated: exactly where visits are few, and at the next smaller number of visits of a fine
    grid beyond, which is on the safe side because a radius never grows with the visits. That is looked at here.
    """
    kind = radius.kind if type(radius) in ALL else None  # what a class from elsewhere says of compiled code is not believed
    distinct, profile = np.unique(sizes, return_inverse=True)
    constant, weight = literal_constants(system, delta) if kind == kinds.LITERAL else (math.log(sizes.size / delta), 0.0)
    longest = int(distinct[-1]) + 1 if kind in _BY_SUBSETS else 2
    cost = np.zeros((distinct.size, longest))
    for line, size in zip(cost, distinct if kind in _BY_SUBSETS else (), strict=False):
        line[:] = subset_costs(int(size), longest, adaptive=kind == kinds.ADAPTIVE)
    grid, table = np.zeros(1, dtype=np.int64), np.zeros((1, 1, 1))
    if kind is None:
        shapes = [RowShape(int(size), sizes.size, system, delta) for size in distinct]
        grid, table = _tabulated(radius, shapes)
    return compiled_radii.Rule(
        kind=kinds.TABLE if kind is None else kind,
        scale=float(getattr(radius, "scale", 1.0)) if kind == kinds.LITERAL else 1.0,
        constant=constant,
        weight=weight,
        size=sizes.astype(np.int64),
        profile=profile.astype(np.int64),
        cost=cost,
        grid=grid,
        table=table,
        threshold=float(threshold),
        suspect_bonus=float(suspect_bonus),
        cleared_bonus=float(cleared_bonus),
        cleared_gap=float(cleared_gap),
        mismatch_gap=float(mismatch_gap),
        proves=bool(radius.certified),
    )


def _tabulated(radius: Radius, shapes: list[RowShape]) -> tuple[NDArray[np.int64], Floats]:
    """(visits [G], radii [D, L, G] by shape of the row and different successors; L is 1 if those do not count)."""
    few = np.arange(1, _EXACTLY + 1, dtype=np.int64)
    many = np.rint(_EXACTLY * 2.0 ** (np.arange(1, _STEPS * _DOUBLINGS + 1) / _STEPS)).astype(np.int64)
    grid = np.concatenate([few, many])
    longest = max(shape.possible for shape in shapes) if radius.counts_successors else 1
    if len(shapes) * longest * grid.size > _LARGEST_TABLE:
        raise InvalidInput(
            f"{radius} counts successors, of which a row can have {longest}: too many to tabulate; declare a support, or "
            "set counts_successors = False and give the radius for all of them"
        )
    table = np.ones((len(shapes), longest, grid.size))
    for line, shape in zip(table, shapes, strict=True):
        if shape.possible < 2:
            continue
        most = shape.possible if radius.counts_successors else 1
        for seen in range(1, most + 1):
            line[seen - 1] = _checked(radius, grid, np.full(grid.size, seen, dtype=np.int64), shape)
        line[most:] = line[most - 1]  # rows of other shapes can have more; this one cannot
        everything = _checked(radius, grid, np.full(grid.size, shape.possible, dtype=np.int64), shape)
        if not radius.counts_successors and not np.array_equal(line[0], everything):
            raise InvalidInput(f"{radius} depends on how many successors were seen; say so: counts_successors = True")
    return grid, table


def _checked(radius: Radius, grid: NDArray[np.int64], seen: NDArray[np.int64], shape: RowShape) -> Floats:
    found = np.asarray(radius.after(grid, seen, shape), dtype=np.float64)
    if found.shape != grid.shape or not (found >= 0.0).all():  # NaN is not
        raise InvalidInput(f"{radius} gives {found.shape} numbers for {grid.shape} visits, or one below 0; give [n] >= 0")
    found = np.minimum(found, 1.0)
    growing = np.flatnonzero(np.diff(found) > 1e-12)
    if growing.size:
        first = int(growing[0])
        raise InvalidInput(
            f"{radius} grows from {found[first]:g} after {grid[first]} visits to {found[first + 1]:g} after "
            f"{grid[first + 1]}; what holds at all times may only shrink: give the smallest so far"
        )
    return found
