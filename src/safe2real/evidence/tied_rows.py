"""The rows of classes as a planner sees them: label by label, beside those of the other units."""

from __future__ import annotations

import numpy as np

from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.pooling import Ints, Pooling
from safe2real.model.checks import Floats, Indices


class TiedRows:
    """Successors and probabilities of all rows: the units' own, then every tied row label by label, seen and simulated."""

    def __init__(self, pooling: Pooling, units: HybridModel) -> None:
        tally, kernel = units.counts.tally, pooling.kernel
        tied = np.flatnonzero(pooling.tied)
        possible = pooling.leads[tied] >= 0  # [T, L]
        at, label = np.nonzero(possible)
        unit = pooling.shared[tied[at]]
        self._classes, self._tied, self._length = pooling.classes, tied, possible.sum(axis=1)
        self._first, self._simulated = tally.successor.size, kernel.rows.successor.size
        self._each = at.size
        seen, simulated = (
            _laws(pooling, tally.successor, tally.probability, *pointers)
            for pointers in ((tally.begin, tally.length), (tally.simulator_begin, tally.simulator_length))
        )
        successor = pooling.leads[tied[at], label].astype(np.uint32)
        self.successor = np.concatenate([tally.successor, successor, successor])
        self.probability = np.concatenate([tally.probability, seen[unit, label], simulated[unit, label]])

    def places(self, begin: Indices, length: Indices, shown: Ints) -> tuple[Indices, Indices]:
        """[R] where the rows lie that show the units `shown` [R], whose own are at `begin`, `length` [U]."""
        rows, lengths = begin[shown], length[shown]
        by_label = self._classes[shown[self._tied]] >= 0
        first = (np.cumsum(self._length) - self._length)[by_label]
        here = self._tied[by_label]
        learnt = rows[here].astype(np.int64) >= self._simulated  # else it points at the simulator's law
        rows[here] = self._first + first + np.where(learnt, 0, self._each)
        lengths[here] = self._length[by_label]
        return rows, lengths


def _laws(pooling: Pooling, successor: Indices, probability: Floats, begin: Indices, length: Indices) -> Floats:
    """[U, L] of every class that is stored there; uniform over what is possible where nothing is stored."""
    classes = np.flatnonzero(pooling.classes >= 0)
    result = np.zeros((pooling.classes.size, pooling.leads.shape[1]))
    sizes = length[classes].astype(np.int64)
    unit = np.repeat(classes, sizes)
    at = begin.astype(np.int64)[unit] + np.arange(unit.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    result[unit, successor[at]] = probability[at]
    for empty in classes[sizes == 0]:
        row = int(np.flatnonzero(pooling.shared == empty)[0])
        result[empty] = (pooling.leads[row] >= 0) / (pooling.leads[row] >= 0).sum()
    return result
