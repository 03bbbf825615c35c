"""Are rows that were declared alike, alike?

Problem: ties that are false would be believed before anything else objects. Two tests, each with half of `SHARE` of delta.
Each row against the rest of its class: by a confidence radius that holds at all times at once, the observed law of a row
lies within its radius of the row's real law, and that of the other rows of its class within theirs of the law of the class;
if the ties are true these are one, pushed through the row's map, and what was observed is never farther apart than both
radii. All of a class at once: the likelihood of what was seen under laws of their own, a free mixture for each row or for
each state, over that under the best single law; if the ties are true that is at most a nonnegative martingale that begins at
1, which by Ville's inequality hardly ever becomes large. What refutes is final. True ties are refuted with probability at
most `SHARE` of delta: a false alarm, which costs their use and no safety. Proofs: docs/structure.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real.evidence.alternatives import mixtures
from safe2real.evidence.counts import Counts
from safe2real.evidence.pooling import Ints, Pooling
from safe2real.model.checks import Floats
from safe2real.problem.problem import Problem
from safe2real.problem.ties import summed
from safe2real.radii import RowShape, System

SHARE = 0.1
_LOOKS = 8  # another look is due when the visits have grown by one part in so many


class TieTest:
    """Looks at rows of classes, and remembers which were refuted."""

    def __init__(self, problem: Problem, pooling: Pooling) -> None:
        self._pooling, self._radius = pooling, problem.settings.radius
        self.rows: Ints = np.flatnonzero(pooling.tied)  # [T] the rows that are tested
        model = problem.simulator
        self._system = System(max(model.num_states, pooling.leads.shape[1]), model.num_actions, model.horizon)
        self._delta = 0.5 * SHARE * problem.settings.delta  # of each test
        counted = np.flatnonzero(pooling.counted)
        self._groups = [counted, counted // model.num_actions * model.num_actions]  # by row, by state
        self._classes = np.unique(pooling.shared[counted])  # [C]
        self.refuted: NDArray[np.bool_] = np.zeros(self.rows.size, dtype=np.bool_)  # [T] never taken back
        self._next = 1  # visits to tested rows before which nobody looks

    @property
    def refuted_classes(self) -> list[int]:
        """The classes whose rows are not alike."""
        found = np.unique(self._pooling.classes[self._pooling.shared[self.rows[self.refuted]]])
        return [int(number) for number in found]

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
        beyond = self._classes[self.evidence(counts) >= np.log(max(1, self._classes.size) / self._delta)]
        self.refuted |= np.isin(self._pooling.shared[self.rows], beyond)

    def evidence(self, counts: Counts) -> Floats:
        """[C] log of the likelihood of each class under laws of their own over that under the best single law."""
        pooling, own = self._pooling, self._shown(counts)
        counted = np.flatnonzero(pooling.counted)
        possible = (pooling.leads[counted] >= 0).sum(axis=1)
        every = []
        for group in self._groups:  # rows of one group that are of one class share a law in the numerator
            keys, first, at = np.unique(
                np.stack([pooling.shared[counted], group]), axis=1, return_index=True, return_inverse=True
            )
            together = np.zeros((first.size, own.shape[1]), dtype=np.int64)
            np.add.at(together, at.reshape(-1), own[counted])
            every.append(
                summed(np.searchsorted(self._classes, keys[0]), mixtures(together, possible[first]), self._classes.size)
            )
        numerator = np.logaddexp.reduce(every, axis=0) - np.log(len(every))
        total = np.zeros((self._classes.size, own.shape[1]), dtype=np.int64)
        np.add.at(total, np.searchsorted(self._classes, pooling.shared[counted]), own[counted])
        share = total / np.maximum(1, total.sum(axis=1, keepdims=True))
        best = (total * np.log(np.where(total > 0, share, 1.0))).sum(axis=1)
        return np.asarray(numerator - best)

    def observed(self, counts: Counts) -> tuple[Ints, Ints]:
        """([T, L] how often each row showed each label, [T, L] how often the other rows of its class did).

        Where labels look alike in a row, what it shows is put down to the first of them.
        """
        pooling, every = self._pooling, self._shown(counts)
        by_class = np.zeros((pooling.classes.size, every.shape[1]), dtype=np.int64)
        counted = pooling.counted
        np.add.at(by_class, pooling.shared[counted], every[counted])
        own = every[self.rows]
        return own, by_class[pooling.shared[self.rows]] - np.where(counted[self.rows, None], own, 0)

    def _shown(self, counts: Counts) -> Ints:
        """[R, L] how often every row of a class showed each label."""
        pooling = self._pooling
        rows, successors, often = counts.transitions()
        labels = np.where(pooling.tied[rows], pooling.labels(rows, successors), -1)
        every = np.zeros(pooling.leads.shape, dtype=np.int64)
        np.add.at(every, (rows[labels >= 0], labels[labels >= 0]), often[labels >= 0])
        return every

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
