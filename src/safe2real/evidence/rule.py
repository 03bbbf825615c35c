"""A radius, what refines it, and the deletion rule as numbers for compiled code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import kinds
from safe2real._compiled import radii as compiled_radii
from safe2real._compiled.rows import Reach
from safe2real.evidence.tabulated import tabulated
from safe2real.model.checks import Floats
from safe2real.radii import ALL, Radius, RowShape, System, literal_constants, near_costs, subset_costs
from safe2real.refinements import BelowGap, LikelihoodBalls, OpenRows, Refinement, SequentialClearing, find

KNOWN_SHARE = 0.1
"""Rows that are known refute what was declared of them falsely with probability at most this share of delta."""
_BET = 0.3  # where between the two gaps the sequential test expects a right row to look: the best for few visits
_BY_SUBSETS = (kinds.UNION, kinds.STITCHED, kinds.ADAPTIVE)


@dataclass(frozen=True, slots=True)
class Separation:
    """Assumption 2: every row's TV distance to the simulator is at most `calibrated_gap` or at least `mismatch_gap`."""

    calibrated_gap: float  # eps_s
    mismatch_gap: float  # sigma_s


def rule_of(
    radius: Radius,
    system: System,
    sizes: NDArray[np.int64],
    delta: float,
    *,
    refinements: Sequence[Refinement] = (),
    known: NDArray[np.bool_] | None = None,
    near: Reach | None = None,
    within: Floats | None = None,
    threshold: float = -1.0,
    suspect_bonus: float = 1.0,
    cleared_bonus: float = 0.0,
    cleared_gap: float = 0.0,
    mismatch_gap: float = 1.0,
) -> compiled_radii.Rule:
    """What the compiled code needs of a radius, for rows with `sizes` [R] possible successors each.

    A radius from elsewhere is tabulated: exactly where visits are few, and at the next smaller number of visits of a fine
    grid beyond, which is on the safe side because a radius never grows with the visits. That is looked at here.
    `refinements` each take their share of delta. `near` names the near successors of rows, `within` [R] the TV distances
    within which the simulator's rows are right for sure; rows that are `known` [R] are only tested.
    """
    kind = radius.kind if type(radius) in ALL else None  # what a class from elsewhere says of compiled code is not believed
    exact = np.zeros(sizes.size, dtype=np.bool_) if known is None else known
    clearing = find(refinements, SequentialClearing) or find(refinements, BelowGap)
    balls = find(refinements, LikelihoodBalls)
    clears = clearing is not None and threshold >= 0.0
    spent = (balls.share if balls else 0.0) + (clearing.share if clearing is not None and clears else 0.0)
    own = delta * (1.0 - spent)
    open_rows = sizes.size
    apart = np.zeros(sizes.size, dtype=np.bool_)  # rows that are tested at a level of their own
    if find(refinements, OpenRows):
        apart = exact | (sizes == 1)
        open_rows = max(1, int((~apart).sum()))
    shared, tested = (open_rows, own), (max(1, int(exact.sum())), 0.5 * KNOWN_SHARE * delta)  # half for each kind of ball
    constant = np.where(apart, math.log(tested[0] / tested[1]), math.log(shared[0] / shared[1]))
    weight = 0.0
    if kind == kinds.LITERAL:
        value, weight = literal_constants(system, own)
        constant = np.full(sizes.size, value)
    by_subsets = kind in _BY_SUBSETS
    cost, profile, near_profile = _costs(
        sizes, near if by_subsets else None, adaptive=kind == kinds.ADAPTIVE, used=by_subsets
    )
    grid, table = np.zeros(1, dtype=np.int64), np.zeros((1, 1, 1))
    if kind is None:
        distinct, profile = np.unique(np.stack([sizes, apart]), axis=1, return_inverse=True)
        levels = [tested if own_level else shared for own_level in distinct[1]]
        shapes = [RowShape(int(size), rows, system, share) for size, (rows, share) in zip(distinct[0], levels, strict=True)]
        grid, table = tabulated(radius, shapes)
    gap = mismatch_gap / clearing.protection if clearing is not None else mismatch_gap
    nothing = np.empty(0, dtype=np.uint32)
    around = near if near is not None else Reach(nothing, nothing, nothing)
    level = np.empty(0)
    if balls is not None:
        level = np.where(apart, math.log(tested[0] / tested[1]), math.log(open_rows / (balls.share * delta)))
    return compiled_radii.Rule(
        kind=kinds.TABLE if kind is None else kind,
        scale=float(getattr(radius, "scale", 1.0)) if kind == kinds.LITERAL else 1.0,
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
        likelihood=level,
        within=np.empty(0) if within is None else within,
        clearing=_kind_of(clearing),
        clearing_gap=float(gap),
        clearing_eta=float(cleared_gap + _BET * (gap - cleared_gap)),
        clearing_level=math.log(open_rows / (SequentialClearing.share * delta)),
        threshold=float(threshold),
        suspect_bonus=float(suspect_bonus),
        cleared_bonus=float(cleared_bonus),
        cleared_gap=float(cleared_gap),
        mismatch_gap=float(mismatch_gap),
        proves=bool(radius.certified),
    )


def _kind_of(clearing: Refinement | None) -> int:
    if isinstance(clearing, SequentialClearing):
        return kinds.SEQUENTIAL
    return kinds.HALFWAY if clearing is None else kinds.BELOW_GAP


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
