"""What compiled functions that walk a model are given: transition rows, and a whole problem, as bare arrays."""

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
    """Where a row's mass could go besides the successors it has: a declared support, or everywhere (empty arrays)."""

    begin: Array  # [R] or [0]
    length: Array  # [R]; 0 means everywhere
    successor: Array


class Sets(NamedTuple):
    """Where the real rows lie: around each row of a model a TV ball and a KL ball, both of which hold."""

    rows: Rows
    reach: Reach
    gap: Array  # [R] TV distance; 1 says nothing
    divergence: Array  # [R] KL(row, real row) is at most this; inf says nothing
