"""Are rows that were declared alike, alike? Each is held against the rest of its class.

Problem: ties that are false would be believed before anything else objects. Test: by a confidence radius that holds at all
times at once, the observed law of a row lies within its radius of the row's real law, and that of the other rows of its
class within theirs of the law of the class. If the ties are true the two real laws are one, pushed through the row's map,
so the observed ones are never farther apart than both radii together. Once they are, the ties are false: that is final.
A true tie is refuted with probability at most `SHARE` of delta: a false alarm, which costs their use and no safety.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real.evidence.counts import Counts
from safe2real.evidence.pooling import Ints, Pooling
from safe2real.model.checks import Floats
from safe2real.problem.problem import Problem
from safe2real.radii.base import RowShape, System

SHARE = 0.1
_LOOKS = 8  # another look is due when the visits have grown by one part in so many


class TieTest:
    """Looks at rows of classes, and remembers which were refuted."""

    def __init__(self, problem: Problem, pooling: Pooling) -> None:
        self._pooling, self._radius = pooling, problem.settings.radius
        self.rows: Ints = np.flatnonzero(pooling.tied)  # [T] the rows that are tested
        model = problem.simulator
        self._system = System(max(model.num_states, pooling.leads.shape[1]), model.num_actions, model.horizon)
        self._delta = SHARE * problem.settings.delta
        self.refuted: NDArray[np.bool_] = np.zeros(self.rows.size, dtype=np.bool_)  # [T] never taken back
        self._next = 1  # visits to tested rows before which nobody looks

    @property
    def is_refuted(self) -> bool:
        return bool(self.refuted.any())

    def look(self, counts: Counts) -> None:
        """Hold every tested row against the rest of its class, if that is due: by visits alone, not by who asks."""
        visits = int(counts.tally.visits[self.rows].sum()) if self.rows.size else 0
        if visits < self._next or not self.rows.size:
            return
        self._next = visits + max(1, visits // _LOOKS)
        own, rest = self.observed(counts)
        n, others = own.sum(axis=1), rest.sum(axis=1)
        both = (n > 0) & (others > 0)
        apart = np.zeros(n.shape)
        apart[both] = 0.5 * np.abs(own[both] / n[both, None] - self._pushed(rest)[both] / others[both, None]).sum(axis=1)
        self.refuted |= both & (apart > self.radii(own) + self.radii(rest) + 1e-9)

    def observed(self, counts: Counts) -> tuple[Ints, Ints]:
        """([T, L] how often each row showed each label, [T, L] how often the other rows of its class did).

        Where labels look alike in a row, what it shows is put down to the first of them.
        """
        pooling, labels = self._pooling, self._pooling.leads.shape[1]
        every = np.zeros((pooling.unit.size, labels), dtype=np.int64)
        rows, successors, often = counts.transitions()
        here = pooling.tied[rows]
        rows, successors, often = rows[here], successors[here], often[here]
        shown = pooling.outcomes(rows, successors)
        np.add.at(every, (rows[shown >= 0], shown[shown >= 0]), often[shown >= 0])
        by_class = np.zeros((pooling.classes.size, labels), dtype=np.int64)
        counted = pooling.counted & pooling.tied
        np.add.at(by_class, pooling.unit[counted], every[counted])
        own = every[self.rows]
        return own, by_class[pooling.unit[self.rows]] - np.where(pooling.counted[self.rows, None], own, 0)

    def radii(self, shown: Ints) -> Floats:
        """[T] the radius of every row's own law, or of the rest's, after what was `shown` [T, L]; 1 without a visit."""
        possible = (self._pooling.leads[self.rows] >= 0).sum(axis=1)
        visits, seen = shown.sum(axis=1), (shown > 0).sum(axis=1)
        result = np.ones(visits.shape)
        for size in np.unique(possible):
            shape = RowShape(int(size), 2 * self.rows.size, self._system, self._delta)
            here = (possible == size) & (visits > 0)
            if size < 2:
                result[here] = 0.0
            elif here.any():
                result[here] = np.minimum(1.0, self._radius.after(visits[here], seen[here], shape))
        return result

    def _pushed(self, shown: Ints) -> Ints:
        """[T, L] counts of labels as the row itself would show them."""
        leads = self._pooling.leads[self.rows]
        first = (leads[:, :, None] == leads[:, None, :]).argmax(axis=2)  # [T, L] the first label that leads there
        result = np.zeros(shown.shape, dtype=np.int64)
        np.add.at(result, (np.arange(len(shown))[:, None], first), shown)
        return result
