"""Inner compiled functions that tests call from Python."""

from typing import Any

import numpy as np
from numba import njit

from safe2real._compiled import radii, robust


def radius_at(rule: radii.Rule, row: int, visits: int, seen: int) -> float:
    out = np.empty(rule.size.size)
    radii.radii(rule, np.full(out.size, float(visits)), np.full(out.size, seen), np.ones(out.size, dtype=np.bool_), out)
    return float(out[row])


@njit
def worst_expectation(sets: Any, row: Any, values: Any, lowest: Any, left: Any) -> Any:
    return robust.worst_expectation(sets, row, values, lowest, left)
