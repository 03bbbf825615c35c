"""A radius from elsewhere as a table for compiled code: exact where visits are few, on the safe side beyond."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats
from safe2real.model.shown import count
from safe2real.radii import Radius, RowShape

_EXACTLY = 4096  # visits up to which a tabulated radius is kept for each number of them
_STEPS = 128  # and so many numbers for each doubling beyond: in between, the larger one holds
_DOUBLINGS = 40
_LARGEST_TABLE = 2**26  # numbers


def tabulated(radius: Radius, shapes: list[RowShape]) -> tuple[NDArray[np.int64], Floats]:
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
        raise InvalidInput(
            f"{radius} gives {found.shape} numbers for visits of shape {grid.shape}, or one below 0; give [n] >= 0"
        )
    found = np.minimum(found, 1.0)
    growing = np.flatnonzero(np.diff(found) > 1e-12)
    if growing.size:
        first = int(growing[0])
        raise InvalidInput(
            f"{radius} grows from {found[first]:g} after {count(int(grid[first]), 'visit')} to {found[first + 1]:g} after "
            f"{grid[first + 1]}; what holds at all times may only shrink: give the smallest so far"
        )
    return found
