"""Which rows are learnt together: every row belongs to one unit, and a unit is what is counted and bounded.

A unit is a class of ties, whose outcomes are labels, or rows that are one row by construction, whose outcomes are states;
mostly that is a single row. The real law of a class is one distribution over labels, and row r of it is that law pushed
through its map. Counting needs care where a map is not injective: a visit there shows a successor and not a label. Which
visits are counted for a class is therefore decided by the row and never by the outcome (docs/structure.md has the proof, and
what goes wrong otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled.rows import Reach, Rows
from safe2real.errors import InvalidInput
from safe2real.evidence.near import near_of
from safe2real.model.checks import Floats
from safe2real.model.kernel import Kernel
from safe2real.planning.robust import reach_of
from safe2real.problem.problem import Problem
from safe2real.problem.ties import laws_of, tells_apart

Ints = NDArray[np.int64]


class UnitKernel(Kernel):
    """One row for each of U units; its "states" are the outcomes, of which there may be more or fewer than units."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.num_rows,)


@dataclass(frozen=True, eq=False, slots=True)
class Pooling:
    """R rows as U units; labels are numbered from 0 to L - 1, L = 1 where there are no classes."""

    unit: Ints  # [R] the unit of each row
    classes: Ints  # [U] the class that a unit is; -1: its outcomes are states
    leads: Ints  # [R, L] where a label leads from a row of a class; -1: nowhere
    counted: NDArray[np.bool_]  # [R] whether a visit to the row shows its outcome
    kernel: UnitKernel  # [U] the simulator's law of every unit
    support: UnitKernel | None  # [U] the outcomes that are possible
    known: NDArray[np.bool_]  # [U]
    within: Floats | None  # [U] how far the simulator's law is off at most
    near: Reach  # [U] the near outcomes: of units whose outcomes are states
    reach: Reach  # [R] the states that are possible after a row

    @property
    def tied(self) -> NDArray[np.bool_]:
        """[R] rows of classes."""
        return np.asarray(self.classes[self.unit] >= 0, dtype=np.bool_)

    def outcomes(self, rows: Ints, successors: NDArray[np.integer]) -> Ints:
        """[n] the outcome that shows in visits to `rows` [n]: the first label that leads there, or the state; -1: none."""
        leads = self.leads[rows] == successors[:, None]
        labels = np.where(leads.any(axis=1), leads.argmax(axis=1), -1)
        return np.where(self.classes[self.unit[rows]] >= 0, labels, successors)


def pooling_of(problem: Problem, *, ties: bool) -> Pooling:
    """The units of a problem: with its `ties` taken for true, or by its copies alone."""
    kernel, known = problem.simulator.kernel, problem.known_rows()
    stated = problem.ties if ties else None
    classes, leads = _classes(problem, known) if stated is not None else _untied(kernel)
    every = np.arange(kernel.num_rows)
    alone = np.where(known, kernel.num_rows + every, _representatives(problem))  # a known row is nobody's copy
    key = np.where(classes >= 0, classes, classes.max(initial=-1) + 1 + alone)
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    of_unit = classes[first]  # [U]
    laws = np.zeros((0, 1)) if stated is None else laws_of(stated, kernel)
    outcomes = max(kernel.num_states, leads.shape[1])
    reach, declared = _reach(problem, classes, leads), reach_of(problem.support, kernel)
    rows = [_law(kernel, int(row), laws, int(number)) for row, number in zip(first, of_unit, strict=True)]
    support = None
    if declared.length.size or (of_unit >= 0).any():
        listed = [_possible(declared, leads, int(row), int(number)) for row, number in zip(first, of_unit, strict=True)]
        support = _unit_kernel([(one, np.ones(one.size)) for one in listed], outcomes)
    counted = (classes < 0) | tells_apart(leads)
    within = problem.within_rows()
    near = near_of(kernel, declared)
    return Pooling(
        unit=unit.reshape(-1).astype(np.int64),
        classes=of_unit,
        leads=leads,
        counted=counted,
        kernel=_unit_kernel(rows, outcomes),
        support=support,
        known=known[first],
        within=None if within is None else _least(within, unit.reshape(-1), counted, of_unit.size),
        near=Reach(near.begin[first], np.where(of_unit >= 0, 0, near.length[first]).astype(np.uint32), near.successor),
        reach=reach,
    )


def _classes(problem: Problem, known: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """(the class [R] of rows that are learnt with it, else -1; where labels lead [R, L]).

    A known row needs no class. A class that no row shows and no episode reports cannot be learnt: its rows are on their own.
    """
    ties, kernel = problem.ties, problem.simulator.kernel
    if ties is None:
        return _untied(kernel)
    classes, leads = (array.copy() for array in ties.flat(kernel))
    classes[known] = -1
    shown = np.zeros(ties.num_classes, dtype=np.bool_)
    shown[classes[(classes >= 0) & tells_apart(leads)]] = True
    if ties.reported:
        shown |= ~np.isnan(laws_of(ties, kernel)).any(axis=1)
    classes[(classes >= 0) & ~shown[classes]] = -1
    leads[classes < 0] = -1
    return classes, leads


def _untied(kernel: Kernel) -> tuple[Ints, Ints]:
    return np.full(kernel.num_rows, -1, dtype=np.int64), np.full((kernel.num_rows, 1), -1, dtype=np.int64)


def _representatives(problem: Problem) -> Ints:
    """[R] the row that each is by construction."""
    kernel = problem.simulator.kernel
    rows = np.arange(kernel.num_rows).reshape(kernel.shape)
    return np.take(rows, problem.copied_states(), axis=-2).reshape(-1)


def _law(kernel: Kernel, row: int, laws: Floats, number: int) -> tuple[Ints, Floats]:
    """The simulator's (outcomes, probabilities) of a unit."""
    if number < 0:
        successors, probabilities = kernel.row(row)
        return successors.astype(np.int64), probabilities
    labels = np.flatnonzero(laws[number] > 0.0)
    return labels, laws[number, labels]


def _possible(declared: Reach, leads: Ints, row: int, number: int) -> Ints:
    """The outcomes that a unit can have; none means all."""
    if number >= 0:
        return np.flatnonzero(leads[row] >= 0)
    return _declared(declared, row)


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
    rows = _unit_kernel(listed, kernel.num_states).rows
    return Reach(rows.begin, rows.length, rows.successor)


def _unit_kernel(rows: list[tuple[Ints, Floats]], outcomes: int) -> UnitKernel:
    length = np.array([one.size for one, _ in rows], dtype=np.int64)
    begin = np.cumsum(length) - length
    successor = np.concatenate([one for one, _ in rows]).astype(np.uint32)
    probability = np.concatenate([share for _, share in rows]).astype(np.float64)
    stored = Rows(begin.astype(np.uint32), length.astype(np.uint32), successor, probability)
    return UnitKernel(outcomes, 1, None, stored)


def _least(within: Floats, unit: Ints, counted: NDArray[np.bool_], units: int) -> Floats:
    """[U] the least that is stated of a row that shows its outcomes: in one that does not, labels could be farther off."""
    least = np.ones(units)
    np.minimum.at(least, unit[counted], within[counted])
    return least
