"""A reality that differs from its simulator by exactly as much as the assumptions allow, where it hurts.

Problem: given a simulator, two gaps and rows that are declared exact, choose the real rows. Each row is exact, or within
the calibrated gap, or at the mismatch gap; the last two are used up to the last digit: mass moves from the successors that
are worth most to the constraint to the one that is worth least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real.model.validation import Floats


@dataclass(frozen=True, eq=False, slots=True)
class Shift:
    """How the real rows are made from the simulator's."""

    calibrated_gap: float  # by how much right rows are moved
    mismatch_gap: float  # by how much wrong rows are moved
    known: NDArray[np.bool_]  # [S, A] or [H, S, A]: not moved at all
    wrong: NDArray[np.bool_]  # [S, A] or [H, S, A]: to be moved by the mismatch gap, where the row has as much mass to move


def moved_row(row: Floats, worth: Floats, distance: float) -> Floats | None:
    """The row [S] after moving mass `distance` from its best successors to the worst; None where it has not got as much.

    The TV distance of the two rows is `distance`: one successor gains it, and all others only lose. Where the worst
    successor has so much already that less is left, the next worst is moved to.
    """
    order = np.argsort(worth, kind="stable")
    for target in order:
        if 1.0 - row[target] < distance:
            continue
        result, left = row.copy(), distance
        for source in order[::-1]:
            if source != target:
                taken = min(left, result[source])
                result[source] -= taken
                left -= taken
        result[target] += distance - left
        return np.asarray(result / result.sum())
    return None


def shifted(rows: Floats, worth: Floats, shift: Shift) -> tuple[Floats, NDArray[np.bool_]]:
    """(the real rows [..., S, A, S], which of them are wrong); `worth` [..., S] is what successors are worth, step by step.

    A row that is to be wrong but has too little mass to move is right instead, and moved as far as right rows may be.
    """
    real, wrong = rows.copy(), np.zeros(shift.wrong.shape, dtype=np.bool_)
    for place in np.ndindex(shift.wrong.shape):
        if shift.known[place]:
            continue
        here = worth[place[:-2]]
        far = moved_row(rows[place], here, shift.mismatch_gap) if shift.wrong[place] else None
        wrong[place] = far is not None
        near = moved_row(rows[place], here, shift.calibrated_gap) if far is None else far
        real[place] = rows[place] if near is None else near
    return real, wrong
