"""Which rows are learnt together: every row belongs to one unit, and units are counted and bounded.

A unit is a class of ties, whose outcomes are labels, or rows that are one row by construction, whose outcomes are states;
mostly that is a single row. The real law of a class is one distribution over labels, and row r of it is that law pushed
through its map. Counting needs care where a map is not injective: a visit there shows a successor and not a label. Which
visits are counted for a class is therefore decided by the row and never by the outcome (docs/structure.md has the proof and
a counterexample). A row whose map is not injective is also a unit of its own: its visits shrink its own set, and the smaller
of the two sets is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled.rows import Reach, Rows
from safe2real.errors import InvalidInput
from safe2real.evidence.row_rule import near_of
from safe2real.model.kernel import Kernel
from safe2real.model.validation import ROUNDING, Floats
from safe2real.planning.robust import reach_of
from safe2real.problem.problem import Problem
from safe2real.problem.ties import Ties, tells_apart
from safe2real.radii import System

Ints = NDArray[np.int64]
_NOTHING_SAID = 1.0 - ROUNDING  # a TV distance that every pair of rows keeps to, as far as data can tell


class UnitKernel(Kernel):
    """One row for each of U units; its "states" are the outcomes, of which there may be more or fewer than units."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.num_rows,)


@dataclass(frozen=True, eq=False, slots=True)
class Pooling:
    """R rows as U units; labels are numbered from 0 to L - 1, L = 1 where there are no classes."""

    unit: Ints  # [R] the unit for which visits to the row are counted
    shared: Ints  # [R] the unit of the row's class, whether it is counted for it or not; -1: it has none
    classes: Ints  # [U] the class that a unit is; -1: its outcomes are states
    leads: Ints  # [R, L] where a label leads from a row of a class; -1: nowhere
    kernel: UnitKernel  # [U] the simulator's law of every unit
    support: UnitKernel | None  # [U] the outcomes that are possible
    known: NDArray[np.bool_]  # [U]
    within: Floats  # [U] how far the simulator's law is off at most
    near: Reach  # [U] the near outcomes: of units whose outcomes are states
    reach: Reach  # [R] the states that are possible after a row
    system: System  # whose states are the outcomes: what the radii of units are made for

    @property
    def tied(self) -> NDArray[np.bool_]:
        """[R] rows of classes."""
        return np.asarray(self.shared >= 0, dtype=np.bool_)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """[R] rows of classes whose visits count for the class."""
        return np.asarray(self.tied & (self.shared == self.unit), dtype=np.bool_)

    def labels(self, rows: Ints, successors: Ints) -> Ints:
        """[n] the first label that leads from each of `rows` [n] to its successor; -1: none does."""
        leads = self.leads[rows] == successors[:, None]
        return np.where(leads.any(axis=1), leads.argmax(axis=1), -1)

    def outcomes(self, rows: Ints, successors: Ints) -> Ints:
        """[n] what visits to `rows` [n] show to the units they are counted for: a label, or the state; -1: no label."""
        return np.where(self.counted[rows], self.labels(rows, successors), successors)


def pooling_of(problem: Problem, ties: Ties | None) -> Pooling:
    """The units of a problem: with its `ties` taken for true, or by its copies alone if they are None."""
    kernel, known = problem.simulator.kernel, problem.known_rows()
    classes, leads = _classes(problem, ties, known)
    every, apart, shown = np.arange(kernel.num_rows), classes.max(initial=-1) + 1, tells_apart(leads)
    alone = np.where(known, kernel.num_rows + every, _representatives(problem))  # a known row is no copy of another
    alone = np.where(classes >= 0, 2 * kernel.num_rows + every, alone)
    key = np.where((classes >= 0) & shown, classes, apart + alone)
    keys, first, unit = np.unique(key, return_index=True, return_inverse=True)
    unlearnt = np.setdiff1d(classes[classes >= 0], keys)  # classes of which only reports can say anything
    keys, first = np.append(keys, unlearnt), np.append(first, [int(np.flatnonzero(classes == c)[0]) for c in unlearnt])
    of_unit = np.where(keys < apart, keys, -1)  # [U]
    number = np.full(apart + 1, -1, dtype=np.int64)
    number[of_unit[of_unit >= 0]] = np.flatnonzero(of_unit >= 0)
    first = first.astype(np.int64)
    laws = problem.laws if ties is not None and problem.laws is not None else np.zeros((0, 1))
    outcomes = max(kernel.num_states, leads.shape[1])
    reach, declared = _reach(problem, classes, leads), reach_of(problem.support, kernel)
    rows = [_law(kernel, int(row), laws, int(one)) for row, one in zip(first, of_unit, strict=True)]
    support = None
    if declared.length.size or (of_unit >= 0).any():
        listed = [_possible(reach, leads, int(row), int(one)) for row, one in zip(first, of_unit, strict=True)]
        support = _unit_kernel([(one, np.ones(one.size)) for one in listed], outcomes)
    # Where all labels lead to one state there is nothing to learn: the row is the simulator's. (Where a declared support
    # leaves one state it need not be: the simulator may know nothing of the support.)
    merged = np.asarray((classes[first] >= 0) & (of_unit < 0))  # [U] rows of classes that are not counted for them
    settled = merged & np.array([np.unique(leads[row][leads[row] >= 0]).size == 1 for row in first], dtype=np.bool_)
    near = near_of(kernel, declared)
    return Pooling(
        unit=unit.reshape(-1).astype(np.int64),
        shared=number[classes],
        classes=of_unit,
        leads=leads,
        kernel=_unit_kernel(rows, outcomes),
        support=support,
        known=(known[first] & (of_unit < 0)) | settled,
        within=_within(problem.within_rows(), unit.reshape(-1), merged, of_unit.size),
        near=Reach(near.begin[first], np.where(of_unit >= 0, 0, near.length[first]).astype(np.uint32), near.successor),
        reach=reach,
        system=System(outcomes, kernel.num_actions, problem.simulator.horizon),
    )


def _classes(problem: Problem, ties: Ties | None, known: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """(the class [R] of rows that are learnt with it, else -1; where labels lead [R, L]).

    A known row needs no class. A class that no row shows and no episode reports cannot be learnt: its rows are on their own.
    """
    kernel = problem.simulator.kernel
    if ties is None:
        return np.full(kernel.num_rows, -1, dtype=np.int64), np.full((kernel.num_rows, 1), -1, dtype=np.int64)
    classes, leads = (array.copy() for array in ties.flat(kernel))
    classes[known] = -1
    shown = np.zeros(ties.num_classes, dtype=np.bool_)
    shown[classes[(classes >= 0) & tells_apart(leads)]] = True
    if ties.reported and problem.laws is not None:
        shown |= ~np.isnan(problem.laws).any(axis=1)
    classes[(classes >= 0) & ~shown[classes]] = -1
    leads[classes < 0] = -1
    return classes, leads


def _representatives(problem: Problem) -> Ints:
    """[R] the row that each is by construction."""
    kernel = problem.simulator.kernel
    rows = np.arange(kernel.num_rows)
    return rows if problem.copies is None else rows.reshape(kernel.shape).take(problem.copies, axis=-2).reshape(-1)


def _law(kernel: Kernel, row: int, laws: Floats, number: int) -> tuple[Ints, Floats]:
    """The simulator's (outcomes, probabilities) of a unit."""
    if number < 0:
        successors, probabilities = kernel.row(row)
        return successors.astype(np.int64), probabilities
    labels = np.flatnonzero(laws[number] > 0.0)
    return labels, laws[number, labels]


def _possible(reach: Reach, leads: Ints, row: int, number: int) -> Ints:
    """The outcomes that a unit can have; none means all."""
    return np.flatnonzero(leads[row] >= 0) if number >= 0 else _declared(reach, row)


def _declared(declared: Reach, row: int) -> Ints:
    if not declared.length.size:
        return np.empty(0, dtype=np.int64)
    first = int(declared.begin[row])
    return np.sort(declared.successor[first : first + int(declared.length[row])]).astype(np.int64)


def _reach(problem: Problem, classes: Ints, leads: Ints) -> Reach:
    """The states that are possible after every row: where its labels lead, and what its support allows."""
    kernel = problem.simulator.kernel
    declared = reach_of(problem.support, kernel)
    if not (classes >= 0).any():
        return declared
    listed = []
    for row in range(kernel.num_rows):
        here = _declared(declared, row)
        if classes[row] >= 0:
            image = np.unique(leads[row][leads[row] >= 0])
            here = np.intersect1d(image, here) if here.size else image
            if not here.size:
                raise InvalidInput(
                    f"row {row} is tied, and no label leads to a successor that its declared support names; correct the one "
                    "or the other"
                )
        listed.append((here, np.ones(here.size)))
    rows = _unit_kernel(listed, kernel.num_states).compiled_rows
    return Reach(rows.begin, rows.length, rows.successor)


def _unit_kernel(rows: list[tuple[Ints, Floats]], outcomes: int) -> UnitKernel:
    length = np.array([one.size for one, _ in rows], dtype=np.int64)
    begin = np.cumsum(length) - length
    successor = np.concatenate([one for one, _ in rows]).astype(np.uint32)
    probability = np.concatenate([share for _, share in rows]).astype(np.float64)
    stored = Rows(begin.astype(np.uint32), length.astype(np.uint32), successor, probability)
    return UnitKernel(outcomes, 1, None, stored)


def _within(stated: Floats, unit: Ints, merged: NDArray[np.bool_], units: int) -> Floats:
    """[U] the least that is stated of a row that is counted for the unit: outcomes are as far off there as successors.

    Where labels look alike, a class that is wrong by the mismatch gap is off by less. So no such row is ever cleared by
    itself: it is kept among those whose distance alone is known, by a statement that says nothing.
    """
    least = np.ones(units)
    np.minimum.at(least, unit, stated)
    return np.where(merged, np.minimum(least, _NOTHING_SAID), least)


def separated_rows(problem: Problem) -> NDArray[np.bool_]:
    """[R] the rows of which the separation is assumed: all, but those of which a distance is stated, and where exact ties
    make labels look alike. None of these is ever cleared.
    """
    open_rows = np.asarray(problem.within_rows() >= 1.0)
    if problem.exact_ties is None:
        return open_rows
    pooling = pooling_of(problem, problem.exact_ties)
    return np.asarray(open_rows & (~pooling.tied | pooling.counted), dtype=np.bool_)
