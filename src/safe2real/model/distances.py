"""How far apart the rows of two kernels are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from safe2real.model.checks import Floats

if TYPE_CHECKING:
    from safe2real.model.kernel import Kernel

_AT_ONCE = 2**22  # transitions that are compared at once


def distances(one: Kernel, other: Kernel) -> Floats:
    """[R] total variation distance of every row to the same row of another kernel of the same shape."""
    result, states = np.empty(one.num_rows), one.num_states
    written = np.zeros(one.num_rows, dtype=np.int64)  # transitions of both up to a row, uniform rows written out
    for kernel in (one, other):
        written += np.cumsum(np.where(kernel._rows.length == 0, states, kernel._rows.length.astype(np.int64)))
    first = 0
    while first < one.num_rows:  # as many rows at once as a few million transitions
        before = written[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(written, before + _AT_ONCE)))
        (mine, here, p), (yours, there, q) = one.transitions(first, last), other.transitions(first, last)
        place = np.concatenate([(mine - first) * states + here, (yours - first) * states + there])
        order = np.argsort(place, kind="stable")
        begins = np.flatnonzero(np.diff(place[order], prepend=-1))
        apart = np.abs(np.add.reduceat(np.concatenate([p, -q])[order], begins))
        result[first:last] = np.bincount(place[order][begins] // states, apart, minlength=last - first) / 2.0
        first = last
    return result
