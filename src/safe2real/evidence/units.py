"""A hybrid model of units, and their laws as rows: label by label, with the successor that each label has there."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.rows import Reach
from safe2real.evidence.alternatives import share_of_sets
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.pooling import Ints, Pooling
from safe2real.evidence.rule import Separation
from safe2real.model.checks import Floats, Indices
from safe2real.problem.problem import Problem
from safe2real.radii import System


class UnitModel(HybridModel):
    """The hybrid model of the units of a problem; a visit is an episode of one step, from its unit to its outcome."""

    def __init__(self, problem: Problem, pooling: Pooling, *, reuses_simulator: bool) -> None:
        settings, model = problem.settings, problem.simulator
        self._pooling = pooling
        self._sizes_of = System(max(model.num_states, pooling.leads.shape[1]), model.num_actions, model.horizon)
        super().__init__(
            pooling.kernel,
            model.horizon,
            separation=Separation(settings.calibrated_gap, settings.mismatch_gap) if reuses_simulator else None,
            radius=settings.radius,
            delta=settings.delta * share_of_sets(problem),
            bonus_scale=settings.bonus_scale,
            known=pooling.known,
            support=pooling.support,
            within=pooling.within,
            refinements=settings.refinements,
        )

    def _system(self) -> System:
        return self._sizes_of

    def _near(self) -> Reach:
        return self._pooling.near

    def visit(self, units: Ints, outcomes: Ints) -> None:
        """Visits one after the other, the deletion rule after each."""
        pairs = np.stack([units, outcomes], axis=1).astype(np.uint32).reshape(-1)
        self.observe_all(pairs, np.zeros(units.size, dtype=np.uint32), np.arange(units.size + 1))

    def visit_at_once(self, units: Ints, outcomes: Ints, often: Ints) -> None:
        """Visits of which no order is known: nothing is concluded before all of them are counted."""
        self.counts.add(units, outcomes, often)
        self.update()


class Store:
    """Successors and probabilities of all rows: the units' own, then every tied row label by label, seen and simulated."""

    def __init__(self, pooling: Pooling, units: UnitModel) -> None:
        tally, kernel = units.counts.tally, pooling.kernel
        tied = np.flatnonzero(pooling.tied)
        possible = pooling.leads[tied] >= 0  # [T, L]
        at, label = np.nonzero(possible)
        unit = pooling.shared[tied[at]]
        self._classes, self._tied, self._length = pooling.classes, tied, possible.sum(axis=1)
        self._first, self._simulated = tally.successor.size, kernel._rows.successor.size
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
