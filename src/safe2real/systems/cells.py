"""How a box is cut up: its bounds, the inner edges along each dimension, and representative actions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.validation import Floats, finite_floats, frozen, positive_integer, shown

MOST_CELLS = 100_000  # more than can be planned with, so a slip
_HUGE = 1e6  # a bound beyond this says "any number": some spaces have the largest float instead of infinity


def read_bounds(space: Any, low: ArrayLike | None, high: ArrayLike | None, featured: bool) -> tuple[Floats, Floats]:
    """The lower and upper bounds [d] of what is cut up: features, or observations of `space`."""
    if featured:
        if low is None or high is None:
            raise InvalidInput("with `features` the bounds of the space do not apply; give low and high, one per feature")
        found = finite_floats("low", low).reshape(-1), finite_floats("high", high).reshape(-1)
        if found[0].size != found[1].size or not found[0].size:
            raise InvalidInput(f"low has {found[0].size} numbers and high {found[1].size}; give one of each per feature")
        names = ("the feature", "the features")
    else:
        found = _box_bounds(space, low, high)
        names = ("the observation", "the observations")
    for i, (lower, upper) in enumerate(zip(*found, strict=True)):
        for name, bound in (("low", lower), ("high", upper)):
            if not abs(bound) <= _HUGE:
                raise InvalidInput(
                    f"dimension {i} of {names[0]} has {name} = {bound:g}, which cannot be cut into cells; give low and high "
                    f"with the range that {names[1]} keep to there (values beyond it count as in the outer cell)"
                )
        if not lower < upper:
            raise InvalidInput(f"dimension {i} goes from {lower:g} to {upper:g}; low must be below high")
    return frozen(found[0]), frozen(found[1])


def _box_bounds(space: Any, low: ArrayLike | None, high: ArrayLike | None) -> tuple[Floats, Floats]:
    if isinstance(space, Discrete):
        raise InvalidInput(f"the observation space is {space}, which is discrete already; use the environment as it is")
    if not isinstance(space, Box):
        raise InvalidInput(
            f"the observation space is a {type(space).__name__}: {shown(space)}; if it is made of whole numbers, use "
            "safe2real.systems.Enumerated(env); otherwise give `features`, a function from an observation to a short vector"
        )
    if len(space.shape) > 1:
        raise InvalidInput(
            f"observations have shape {space.shape}, like an image; cells need a few numbers: give `features`, a function "
            "from an observation to a short vector"
        )
    result = []
    for name, given, bound in (("low", low, space.low), ("high", high, space.high)):
        values = np.asarray(bound if given is None else finite_floats(name, given), dtype=np.float64)
        if values.shape != space.shape:
            raise InvalidInput(f"{name} has shape {values.shape}; give one number per dimension, shape {space.shape}")
        result.append(values)
    return result[0], result[1]


def inner_edges(bins: Any, low: Floats, high: Floats) -> tuple[Floats, ...]:
    """The inner edges along each dimension, from numbers of bins or as given."""
    given = _per_dimension("bins", bins, low.size, "a number of bins, or the inner edges")
    edges = []
    for i, (entry, lower, upper) in enumerate(zip(given, low, high, strict=True)):
        if np.ndim(entry) == 0:
            inner = np.linspace(lower, upper, positive_integer(f"bins[{i}]", entry) + 1)[1:-1]
        else:
            inner = finite_floats(f"bins[{i}]", entry)
            if inner.ndim != 1 or (np.diff(inner) <= 0.0).any():
                raise InvalidInput(f"bins[{i}] is {shown(entry)}; inner edges are a list of increasing numbers")
            if inner.size and not (lower < inner[0] and inner[-1] < upper):
                raise InvalidInput(
                    f"bins[{i}] has edges from {inner[0]:g} to {inner[-1]:g}; inner edges lie strictly between "
                    f"low = {lower:g} and high = {upper:g}, which are edges already"
                )
        edges.append(frozen(inner))
    return tuple(edges)


def representatives(space: Any, action_bins: Any) -> Floats | None:
    """The actions [A, k] that stand for a Box of them; None where actions are discrete already."""
    if isinstance(space, Discrete):
        if action_bins is not None:
            raise InvalidInput(f"the action space is {space}, which is discrete already; leave action_bins out")
        return None
    if not isinstance(space, Box):
        raise InvalidInput(f"the action space is a {type(space).__name__}; it must be Discrete or Box: wrap the environment")
    if action_bins is None:
        raise InvalidInput(
            f"the action space is {space}; give action_bins, for each of its {math.prod(space.shape)} dimensions how many "
            "representative values to use, or the values"
        )
    lows, highs = (np.asarray(bound, dtype=np.float64).reshape(-1) for bound in (space.low, space.high))
    given = _per_dimension("action_bins", action_bins, lows.size, "how many representative values, or the values")
    columns: list[NDArray[np.float64]] = []
    for i, (entry, lower, upper) in enumerate(zip(given, lows, highs, strict=True)):
        if np.ndim(entry) == 0:
            count = positive_integer(f"action_bins[{i}]", entry)
            if not (abs(lower) <= _HUGE and abs(upper) <= _HUGE):
                raise InvalidInput(
                    f"dimension {i} of the actions goes from {lower:g} to {upper:g}; give the representative values"
                )
            columns.append(np.linspace(lower, upper, count) if count > 1 else np.array([0.5 * (lower + upper)]))
        else:
            values = finite_floats(f"action_bins[{i}]", entry)
            if values.ndim != 1 or not values.size or (values < lower).any() or (values > upper).any():
                raise InvalidInput(f"action_bins[{i}] is {shown(entry)}; give values from {lower:g} to {upper:g}")
            columns.append(values)
    total = math.prod(column.size for column in columns)
    if total > MOST_CELLS:
        raise InvalidInput(f"action_bins make {total} actions; at most {MOST_CELLS} are allowed: use fewer values")
    return frozen(np.array(list(itertools.product(*columns))))


def _per_dimension(name: str, given: Any, dimensions: int, what: str) -> list[Any]:
    listed = isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim > 0)
    if not listed:
        raise InvalidInput(f"{name} is {shown(given)}; give a list with, for each of the {dimensions} dimensions, {what}")
    entries = list(given)
    if len(entries) != dimensions:
        raise InvalidInput(f"{name} has {len(entries)} entries for {dimensions} dimensions; give for each {what}")
    return entries
