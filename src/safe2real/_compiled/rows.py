"""Arguments of compiled functions on a model, as bare arrays: transition rows, possible successors, confidence sets."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any  # numba infers dtypes and dimensions


class Rows(NamedTuple):
    """R rows, S*A for stationary dynamics and H*S*A otherwise, and N stored transitions.

    The arrays are writable for every caller: a read-only array is another type to numba, and everything would be
    compiled once more. Nothing that is given rows writes to them.
    """

    begin: Array  # [R] first stored transition of each row
    length: Array  # [R] stored transitions of each row; 0 means uniform over all states
    successor: Array  # [N]
    probability: Array  # [N]


class Reach(NamedTuple):
    """The possible successors of each row besides its own: a declared support, or all states (empty arrays)."""

    begin: Array  # [R] or [0]
    length: Array  # [R]; 0 means everywhere
    successor: Array


class Sets(NamedTuple):
    """The confidence set of each real row: the intersection of a TV ball and a KL ball around the model's row."""

    rows: Rows
    reach: Reach
    gap: Array  # [R] upper bound on the TV distance; 1 if unknown
    divergence: Array  # [R] upper bound on KL(row, real row); inf if unknown
