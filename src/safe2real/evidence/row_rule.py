"""The rule by which a row's confidence set follows from its counts: radius, near successors, clearing and likelihood balls.

`rule_of` turns settings and sizes into numbers that compiled code reads; a radius from outside the package is tabulated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import codes, row_update
from safe2real._compiled.rows import Reach
from safe2real.errors import InvalidInput
from safe2real.evidence.counts import distinct, places_of
from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.validation import Floats
from safe2real.radii import ALL, Radius, RowShape, System, literal_constants, near_costs, subset_costs
from safe2real.refinements import BelowGap, LikelihoodBalls, OpenRows, Refinement, SequentialClearing, find


def near_of(simulator: Kernel, reach: Reach) -> Reach:
    """The near successors of every row [R], sorted; none (length 0) where they would be all that are possible.

    Rows of one state, at one step, have the same. A row whose support is declared has none: that is worth more.
    """
    states, actions = simulator.num_states, simulator.num_actions
    stored = np.repeat(
        (simulator.length.reshape(-1, actions) > 0).all(axis=1), actions
    )  # else a row is uniform: all are near
    owner = np.repeat(np.arange(stored.size)[stored] // actions, simulator.length[stored])
    successor = simulator.successor[places_of(simulator.begin[stored], simulator.length[stored])]
    pairs = distinct(owner * states + successor)
    size = np.bincount(pairs // states, minlength=stored.size // actions)
    pairs, size = pairs[(size < states)[pairs // states]], np.where(size < states, size, 0)
    begin, length = np.repeat(np.cumsum(size) - size, actions), np.repeat(size, actions)
    if reach.length.size:
        length[reach.length > 0] = 0
    near = (pairs % states).astype(np.uint32) if pairs.size else np.zeros(1, dtype=np.uint32)
    return Reach(begin.astype(np.uint32), length.astype(np.uint32), near)


_EXACTLY = 4096  # visits up to which a tabulated radius is kept for each number of them
_STEPS = 128  # tabulated numbers for each doubling beyond; in between, the larger radius is used
_DOUBLINGS = 40
_LARGEST_TABLE = 2**26  # numbers


def tabulated(radius: Radius, shapes: list[RowShape]) -> tuple[NDArray[np.int64], Floats]:
    """(visits [G], radii [D, L, G] by shape of the row and different successors; L is 1 if those do not count)."""
    few = np.arange(1, _EXACTLY + 1, dtype=np.int64)
    many = np.rint(_EXACTLY * 2.0 ** (np.arange(1, _STEPS * _DOUBLINGS + 1) / _STEPS)).astype(np.int64)
    grid = np.concatenate([few, many])
    longest = max(shape.possible for shape in shapes) if radius.counts_successors else 1
    if len(shapes) * longest * grid.size > _LARGEST_TABLE:
        raise InvalidInput(
            f"{radius} counts successors, of which a row can have {longest}: too many to tabulate; declare a support, or "
            "set counts_successors = False and give the radius for all of them"
        )
    table = np.ones((len(shapes), longest, grid.size))
    for line, shape in zip(table, shapes, strict=True):
        if shape.possible < 2:
            continue
        most = shape.possible if radius.counts_successors else 1
        for seen in range(1, most + 1):
            line[seen - 1] = _checked(radius, grid, np.full(grid.size, seen, dtype=np.int64), shape)
        line[most:] = line[most - 1]  # rows of other shapes can have more; this one cannot
        everything = _checked(radius, grid, np.full(grid.size, shape.possible, dtype=np.int64), shape)
        if not radius.counts_successors and not np.array_equal(line[0], everything):
            raise InvalidInput(f"{radius} depends on how many successors were seen; say so: counts_successors = True")
    return grid, table


def _checked(radius: Radius, grid: NDArray[np.int64], seen: NDArray[np.int64], shape: RowShape) -> Floats:
    found = np.asarray(radius.after(grid, seen, shape), dtype=np.float64)
    if found.shape != grid.shape or not (found >= 0.0).all():  # NaN is not
        raise InvalidInput(
            f"{radius} gives {found.shape} numbers for visits of shape {grid.shape}, or one below 0; give [n] >= 0"
        )
    found = np.minimum(found, 1.0)
    growing = np.flatnonzero(np.diff(found) > 1e-12)
    if growing.size:
        first = int(growing[0])
        raise InvalidInput(
            f"{radius} grows from {found[first]:g} after {count(int(grid[first]), 'visit')} to {found[first + 1]:g} after "
            f"{grid[first + 1]}; what holds at all times may only shrink: give the smallest so far"
        )
    return found


KNOWN_SHARE = 0.1
"""Known rows refute a true declaration with probability at most this share of delta."""
_BET = 0.3  # where between the two gaps the sequential test expects a right row to look: the best for few visits
_BY_SUBSETS = (codes.UNION, codes.STITCHED, codes.ADAPTIVE)


@dataclass(frozen=True, slots=True)
class Separation:
    """Assumption 2: every row's TV distance to the simulator is at most `calibrated_gap` or at least `mismatch_gap`."""

    calibrated_gap: float  # eps_s
    mismatch_gap: float  # sigma_s


@dataclass(frozen=True, eq=False, slots=True)
class StatedRows:
    """What a user declares of rows: exact rows, possible successors, TV bounds. The two gaps are in `Settings`."""

    known: NDArray[np.bool_] | None = None  # [R] rows that are exact
    support: Kernel | None = (
        None  # whose successors are the possible ones; of the simulator's shape, a uniform row allows all
    )
    within: Floats | None = None  # [R] TV distance within which a row is right for sure; 1: nothing is known


NOTHING_STATED = StatedRows()


@dataclass(frozen=True, eq=False, slots=True)
class RowFacts:
    """Inputs of `rule_of` for each row: possible successors, known rows, near successors, declared TV bounds."""

    sizes: NDArray[np.int64]  # [R] possible successors
    known: NDArray[np.bool_] | None = None  # [R] rows that are exact, and only tested
    near: Reach | None = None  # [R] near successors
    within: Floats | None = None  # [R] as in `StatedRows`


def rule_of(
    radius: Radius,
    system: System,
    rows: RowFacts,
    delta: float,
    *,
    refinements: Sequence[Refinement] = (),
    separation: Separation | None = None,
    bonus_scale: float = 1.0,
) -> row_update.Rule:
    """Return what compiled code needs to bound rows by a radius.

    A radius from elsewhere is tabulated: exactly where visits are few, and at the next smaller number of visits of a fine
    grid beyond, which is conservative because a radius never grows with the visits. That is checked here.

    Args:
        radius: bounds the distance of a row to its observations.
        system: the sizes of the system that the rows are of.
        rows: R of them.
        delta: the probability of failure that all rows share.
        refinements: each takes its share of delta.
        separation: the two gaps; without them no row is ever cleared.
        bonus_scale: times the bonus of suspect rows.

    Raises:
        InvalidInput: a radius from elsewhere grows with the visits, or has values below 0.
    """
    sizes, near, within = rows.sizes, rows.near, rows.within
    known = np.zeros(sizes.size, dtype=np.bool_) if rows.known is None else rows.known
    if within is None or (within == 1.0).all():
        within = np.empty(0)  # nothing is stated
    kind = radius.kind if type(radius) in ALL else None  # the `kind` of a user's own class is ignored
    clearing = find(refinements, SequentialClearing) or find(refinements, BelowGap)
    balls = find(refinements, LikelihoodBalls)
    gaps = Separation(0.0, 0.0) if separation is None else separation
    threshold = -1.0 if separation is None else 0.5 * (gaps.calibrated_gap + gaps.mismatch_gap)
    gap = gaps.mismatch_gap / clearing.protection if clearing is not None else gaps.mismatch_gap

    # Each refinement spends its share of delta, and the radius has the rest. Open rows share a level; known ones, and those
    # with one possible successor, are no part of that union: they are tested at a level of their own.
    clears = clearing is not None and threshold >= 0.0
    spent = (balls.share if balls else 0.0) + (clearing.share if clearing is not None and clears else 0.0)
    apart = known | (sizes == 1) if find(refinements, OpenRows) else np.zeros(sizes.size, dtype=np.bool_)
    open_level = (max(1, int((~apart).sum())), delta * (1.0 - spent))  # (rows, probability of failure of all of them)
    known_level = (max(1, int(known.sum())), 0.5 * KNOWN_SHARE * delta)  # half for each kind of ball
    known_cost = math.log(known_level[0] / known_level[1])
    constant, weight = np.where(apart, known_cost, math.log(open_level[0] / open_level[1])), 0.0
    if kind == codes.LITERAL:
        value, weight = literal_constants(system, open_level[1])
        constant = np.full(sizes.size, value)
    likelihood = np.empty(0)
    if balls is not None:
        likelihood = np.where(apart, known_cost, math.log(open_level[0] / (balls.share * delta)))

    by_subsets = kind in _BY_SUBSETS
    cost, profile, near_profile = _costs(
        sizes, near if by_subsets else None, adaptive=kind == codes.ADAPTIVE, used=by_subsets
    )
    grid, table = np.zeros(1, dtype=np.int64), np.zeros((1, 1, 1))
    if kind is None:
        kinds, profile = np.unique(np.stack([sizes, apart]), axis=1, return_inverse=True)
        levels = [known_level if is_apart else open_level for is_apart in kinds[1]]
        shapes = [RowShape(int(size), among, system, part) for size, (among, part) in zip(kinds[0], levels, strict=True)]
        grid, table = tabulated(radius, shapes)
    nothing = np.empty(0, dtype=np.uint32)
    around = near if near is not None else Reach(nothing, nothing, nothing)
    return row_update.Rule(
        kind=codes.TABLE if kind is None else kind,
        scale=float(getattr(radius, "scale", 1.0)) if kind == codes.LITERAL else 1.0,
        constant=constant,
        weight=weight,
        size=sizes.astype(np.int64),
        profile=profile.reshape(-1).astype(np.int64),
        cost=cost,
        grid=grid,
        table=table,
        near_profile=near_profile,
        near_begin=around.begin,
        near_length=around.length,
        near_successor=around.successor,
        likelihood=likelihood,
        within=within,
        clearing=_kind_of(clearing),
        clearing_gap=float(gap),
        clearing_eta=float(gaps.calibrated_gap + _BET * (gap - gaps.calibrated_gap)),
        clearing_level=math.log(open_level[0] / (SequentialClearing.share * delta)),
        threshold=float(threshold),
        suspect_bonus=float(bonus_scale * system.horizon),
        cleared_bonus=float(system.horizon * gaps.calibrated_gap),
        cleared_gap=float(gaps.calibrated_gap),
        mismatch_gap=float(gaps.mismatch_gap),
        proves=bool(radius.certified),
    )


def _kind_of(clearing: Refinement | None) -> int:
    if isinstance(clearing, SequentialClearing):
        return codes.SEQUENTIAL
    return codes.HALFWAY if clearing is None else codes.BELOW_GAP


def _costs(
    sizes: NDArray[np.int64], near: Reach | None, *, adaptive: bool, used: bool
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """(log 1 / share [D, L], the line of each row [R], the line of each row for its near sets [R] or [0])."""
    distinct, profile = np.unique(sizes, return_inverse=True)
    around = np.unique(near.length) if near is not None else np.empty(0, dtype=np.int64)
    longest = int(max(distinct[-1], around.max(initial=0))) + 1 if used else 2
    cost = np.zeros((distinct.size + around.size, longest))
    if used:
        for line, size in zip(cost, distinct, strict=False):
            line[:] = subset_costs(int(size), longest, adaptive=adaptive)
        for line, size in zip(cost[distinct.size :], around, strict=True):
            line[:] = near_costs(int(size), longest, adaptive=adaptive)
    near_profile = np.empty(0, dtype=np.int64)
    if near is not None:
        near_profile = np.asarray(distinct.size + np.searchsorted(around, near.length), dtype=np.int64)
    return cost, profile, near_profile
