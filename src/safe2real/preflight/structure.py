"""Structure before the first deployment: realities that keep to it, and whether a stated one does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.pooling import Pooling, pooling_of
from safe2real.model.kernel import Kernel
from safe2real.model.validation import ROUNDING, Floats
from safe2real.preflight.findings import EVERY_CLAIM, Code, Finding, Level
from safe2real.problem.problem import Problem
from safe2real.problem.ties import laws_of, summed


def structure_findings(problem: Problem, real: Kernel) -> list[Finding]:
    """Whether `real` keeps to the ties; of ties that were not called exact it only warns."""
    found = []
    if problem.ties is not None:
        level = Level.FAILURE if problem.ties.exact else Level.WARNING
        affects = EVERY_CLAIM if problem.ties.exact else ()
        try:
            laws_of(replace(problem.ties, laws=None), real)
        except InvalidInput as error:
            said = f"rows that are tied are not alike in this reality: {error}"
            found.append(Finding(Code.TIES, level, said, "untie what is not alike", affects=affects))
        else:
            found.append(
                Finding(Code.TIES, Level.OK, f"this reality keeps to the ties of {problem.ties.num_classes} classes")
            )
    return found


def has_units(problem: Problem) -> bool:
    """Whether a guessed reality has to keep rows alike."""
    return problem.copies is not None or (problem.ties is not None and problem.ties.exact)


def moved_units(
    problem: Problem, order: NDArray[np.int64], gap: float, count: int | None, rng: np.random.Generator
) -> tuple[Kernel, NDArray[np.bool_]]:
    """(the simulator with the laws of some units `gap` away, [R] the rows that are wrong): rows that are alike stay so.

    The units are those of the rows in `order`; as many as have `count` rows or more, or all.
    """
    pooling = pooling_of(problem, ties=problem.ties is not None and problem.ties.exact)
    laws = {unit: _dense(pooling, unit) for unit in range(pooling.classes.size)}
    touched = np.zeros(pooling.classes.size, dtype=np.bool_) if count is None else _stated_nearer(problem, pooling, gap)
    wrong = np.zeros(pooling.unit.size, dtype=np.bool_)
    for row in order.tolist():
        unit = int(pooling.shared[row] if pooling.shared[row] >= 0 else pooling.unit[row])
        if count is not None and int(wrong.sum()) >= count:
            break
        moved = None if touched[unit] or pooling.known[unit] else _moved(pooling, unit, laws[unit], gap, rng)
        touched[unit] = True
        if moved is not None:
            laws[unit] = moved
            wrong |= (pooling.shared == unit) | ((pooling.unit == unit) & (pooling.shared < 0))
    return _pushed(problem.simulator.kernel, pooling, laws), wrong


def _stated_nearer(problem: Problem, pooling: Pooling, gap: float) -> NDArray[np.bool_]:
    """[U] units with a row that is stated to be less than `gap` off: a guess of ours leaves them as they are."""
    nearer, within = np.zeros(pooling.classes.size, dtype=np.bool_), problem.within_rows()
    if within is not None:
        near = within < gap - ROUNDING
        nearer[np.where(pooling.shared >= 0, pooling.shared, pooling.unit)[near]] = True
    return nearer


def _moved(pooling: Pooling, unit: int, law: Floats, gap: float, rng: np.random.Generator) -> Floats | None:
    """The law mixed with one of its least likely outcomes; None where none is so far away."""
    possible = np.arange(law.size)
    if pooling.support is not None and pooling.support.length[unit]:
        possible = pooling.support.row(unit)[0].astype(np.int64)
    free = possible[law[possible] <= law[possible].min()]
    target = int(rng.choice(free))
    if 1.0 - law[target] < gap - ROUNDING:
        return None
    share = min(1.0, gap / (1.0 - law[target]))
    return np.asarray((1.0 - share) * law + share * (np.arange(law.size) == target))


def _dense(pooling: Pooling, unit: int) -> Floats:
    return summed(*pooling.kernel.row(unit), pooling.kernel.num_states)


def _pushed(kernel: Kernel, pooling: Pooling, laws: dict[int, Floats]) -> Kernel:
    """Every row as its unit's law makes it."""
    dense = np.zeros((kernel.num_rows, kernel.num_states))
    for row in range(kernel.num_rows):
        if pooling.shared[row] < 0:
            dense[row] = laws[int(pooling.unit[row])][: kernel.num_states]
            continue
        labels = np.flatnonzero(pooling.leads[row] >= 0)
        dense[row] = summed(pooling.leads[row, labels], laws[int(pooling.shared[row])][labels], kernel.num_states)
    return Kernel.from_dense(dense.reshape((*kernel.shape, kernel.num_states)))
