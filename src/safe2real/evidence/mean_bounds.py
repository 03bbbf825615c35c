"""The mean of bounded values, however often one looks: confidence sequences by betting.

Problem: independent values X_1, X_2, ... in [0, 1] with mean mu. Find bounds on mu from the first n of them that hold for
EVERY n at once with probability 1 - alpha: they stay valid if the user looks after each value and stops at any time.

Algorithm: for a guess m of the mean and a fraction f in [0, 1], a gambler who begins with 1 and stakes f / m on every value
against m has the capital

    C_n(m, f) = product over i <= n of (1 - f + f X_i / m).

The gambler here splits the money over the fractions 1, 1/2, 1/4, ...: C_n(m) is the weighted mean over them. At m = mu it is
a nonnegative martingale that begins at 1 (each factor has mean 1 and is never negative), so by Ville's inequality it EVER
reaches 1 / alpha with probability at most alpha. Every factor falls as m rises, so the m with C_n(m) >= 1 / alpha are those
below some number, the lower bound, which bisection finds; while C_n(mu) < 1 / alpha it lies below mu. The upper bound is
one minus the lower bound of the 1 - X_i.

Nothing depends on the order of the values: sorting a log gains nothing. Bets that follow the variance seen so far (Waudby-
Smith and Ramdas, Journal of the Royal Statistical Society B 86, 2024, where the theory is) do not have that; they are
tighter for a hundred values and wider for ten thousand (docs/radii.md).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.archive import Archive
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import with_end
from safe2real.model.validation import ROUNDING, Floats, Indices, finite_floats, finite_number, probability_of_failure

# Halving the fraction loses at most 17 % of the growth of the best bet between two of them; sixteen reach to where a
# deviation of a few millionths of the range is seen. The weights favour large bets, which few values need.
_FRACTIONS: Floats = np.exp2(-np.arange(16.0))
_SHARES: Floats = 1.0 / np.arange(2.0, 18.0)
_LOG_WEIGHTS: Floats = np.log(_SHARES / _SHARES.sum())
_BISECTIONS = 60
_MOST = 2**39


def mean_bounds(values: ArrayLike, alpha: float, *, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
    """Return bounds on the mean of independent values.

    Args:
        values: [n] in [low, high].
        alpha: EACH of the two bounds holds for all numbers of values at once with probability at least 1 - alpha.
        low: what no value is below.
        high: what no value is above.

    Returns:
        (lower, upper); `low` and `high` without a value.

    Raises:
        InvalidInput: a value is outside its range, or `alpha` is no probability of failure.
    """
    given = _units(values, low, high)
    scale = high - low
    if scale == 0.0:
        return low, high
    alpha = probability_of_failure("alpha", alpha)
    return low + scale * _lower(given, alpha), high - scale * _lower(1.0 - given, alpha)


def values_needed(
    mean: float, spread: float, target: float, alpha: float, *, low: float = 0.0, high: float = 1.0
) -> int | None:
    """Return about how many values put the lower bound of `mean_bounds` at `target`: an expectation, not a bound.

    Args:
        mean: of the values.
        spread: their standard deviation.
        target: the value that the lower bound must reach.
        alpha: as in `mean_bounds`.
        low: what no value is below.
        high: what no value is above.

    Returns:
        None where no number of values does, because the mean is not clearly above the target.
    """
    alpha = probability_of_failure("alpha", alpha)
    ends = (finite_number("low", low), finite_number("high", high))
    scale = ends[1] - ends[0]
    if target <= ends[0]:
        return 1
    if mean <= target or scale <= 0.0:
        return None
    points, weights = _two_points((mean - ends[0]) / scale, spread / scale)
    goal = (target - ends[0]) / scale
    growth = weights @ np.log(np.maximum(_factors(points, goal), np.finfo(float).tiny))
    if growth.max() <= 0.0:
        return None
    needed = 1 + bisect_left(range(1, _MOST + 1), -math.log(alpha), key=lambda n: _log_sum(_LOG_WEIGHTS + n * growth))
    return needed if needed <= _MOST else None


def log_growth(units: Floats | float, m: float) -> Floats:
    """[n, fractions], or [fractions] of one value: logarithms of what values in [0, 1] multiply each bet against m by."""
    with np.errstate(divide="ignore"):  # a bet of everything is lost at the first 0
        growth = np.log(_factors(units, m))
    return growth if np.ndim(units) else np.asarray(growth[0])


def capital_reaches(growth: Floats, alpha: float) -> bool:
    """Return whether the capital has reached 1 / alpha, given its log `growth` [fractions] by bet size."""
    return _log_sum(_LOG_WEIGHTS + growth) >= ROUNDING - math.log(alpha)


def _lower(units: Floats, alpha: float) -> float:
    """The largest m at which the capital has reached 1 / alpha; 0 without such an m."""
    different, times = np.unique(units, return_counts=True)
    below, above = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2.0
        growth = times @ log_growth(different, middle) if different.size else np.zeros(_FRACTIONS.size)
        below, above = (middle, above) if capital_reaches(growth, alpha) else (below, middle)
    return below


def _factors(units: Floats | float, m: float) -> Floats:
    """[n, fractions] the factor of each bet by each value."""
    return np.asarray(1.0 - _FRACTIONS + np.outer(np.divide(units, m), _FRACTIONS))


def _two_points(mean: float, spread: float) -> tuple[Floats, Floats]:
    """Values in [0, 1] and their probabilities with this mean and deviation: evenly about the mean, or up to the end."""
    spread = min(spread, math.sqrt(max(0.0, mean * (1.0 - mean))))
    if spread <= min(mean, 1.0 - mean):
        return np.array([mean - spread, mean + spread]), np.array([0.5, 0.5])
    end = 1.0 if mean > 0.5 else 0.0
    other = mean + spread**2 / (mean - end)
    share = (mean - end) / (other - end)
    return np.array([other, end]), np.array([share, 1.0 - share])


def _log_sum(logarithms: Floats) -> float:
    largest = float(logarithms.max())
    return largest + math.log(float(np.exp(logarithms - largest).sum()))


def _units(values: ArrayLike, low: float, high: float) -> Floats:
    given = finite_floats("values", values)
    low, high = finite_number("low", low), finite_number("high", high)
    if given.ndim != 1 or low > high:
        raise InvalidInput(f"values have shape {given.shape}, in [{low:g}, {high:g}]; give numbers [n], and low <= high")
    outside = (given < low - ROUNDING) | (given > high + ROUNDING)
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidInput(
            f"values[{first}] is {given[first]:g}, outside [{low:g}, {high:g}]; give bounds that no value can leave"
        )
    return np.clip((given - low) / (high - low), 0.0, 1.0) if high > low else np.zeros(given.shape)


# The lower bound of `mean_bounds` as values come in, one after the other, at the price of one bet each.
#
# Problem: look at the lower bound on a mean after every one of a hundred thousand values. Algorithm: the bound is looked
# for on a fixed grid of guesses m_1 < m_2 < ..., fine near both ends of the range. The largest guess that was EVER refuted
# is kept, and the gambler's capital at the next one; a value changes that capital by one factor for each bet. Only when it
# reaches 1 / alpha are the values so far multiplied out again, to find how many more guesses are refuted.
#
# Why the largest ever: while the capital at the true mean stays below 1 / alpha, which it does for all n at once with
# probability 1 - alpha, no guess that is refuted at any n lies above the mean (every factor falls as m rises). So the
# bound never falls, holds whenever one stops, and is at most one step of the grid below the best of `mean_bounds` so far.

_PER_UNIT = 1024  # guesses for each unit of log(m / (1 - m)): a step is a thousandth of the distance to the nearer end
_LAST = 28 * _PER_UNIT  # up to a millionth from either end


class RunningLower:
    """An anytime-valid lower bound on the mean of independent values in [low, high]: for all sample sizes at once.

    Guarantee: with probability at least 1 - `alpha`, `bound` is at most the mean after every value and every block.
    Reference: Ville's inequality, for the betting capital that docs/trials.md defines.
    """

    def __init__(self, alpha: float, *, low: float = 0.0, high: float = 1.0) -> None:
        """Begin without values: the bound is `low`.

        Raises:
            InvalidInput: `alpha` is no probability, or the range is empty.
        """
        self.alpha = probability_of_failure("alpha", alpha)
        self.low, self.high = finite_number("low", low), finite_number("high", high)
        if self.low > self.high:
            raise InvalidInput(f"values are to lie in [{low:g}, {high:g}]; give low <= high")
        self.count, self.total = 0, 0.0
        self._times: dict[float, int] = {}  # how often each value came, scaled to [0, 1]
        self._index = 0  # of the largest guess that is refuted; 0 for none
        self._growth: Floats = np.zeros(log_growth(0.5, 0.5).shape)  # [bets] logarithms, at the next guess

    @property
    def bound(self) -> float:
        """The lower bound on the mean."""
        return self.low + (self.high - self.low) * _guess(self._index)

    @property
    def mean(self) -> float:
        """Of the values so far; `low` without any. No bound."""
        return self.total / self.count if self.count else self.low

    def add(self, value: float) -> bool:
        """One more value; says whether the bound has risen."""
        unit = self._unit(value)
        self._keep(value, unit)
        if self._index == _LAST:
            return False
        self._growth = self._growth + log_growth(unit, _guess(self._index + 1))
        return self._look()

    def add_block(self, values: Sequence[float]) -> bool:
        """Values whose order may have been chosen by their content: nothing is concluded before the last of them.

        Their product does not depend on the order, so as one step they are as good as any.
        """
        for value in values:
            self._keep(value, self._unit(value))
        if not len(values) or self._index == _LAST:
            return False
        self._growth = self._growth_at(self._index + 1)
        return self._look()

    def state(self) -> Archive:
        """Return the values and the bound; `restore` puts them into a bound of the same level and range."""
        archive = Archive("lower bound")
        archive.document = {"index": self._index}
        archive.put("values", np.array(list(self._times), dtype=np.float64))  # in the order in which sums are formed
        archive.put("times", np.array(list(self._times.values()), dtype=np.int64))
        archive.put("growth", self._growth)
        archive.put("total", np.array([self.total]))
        return archive

    def restore(self, archive: Archive) -> None:
        """Take in the `state` of a bound of the same level and range.

        Raises:
            InvalidInput: it cannot be one.
        """
        values = archive.array("values", np.float64, (None,)).tolist()
        times = archive.array("times", np.int64, (len(values),)).tolist()
        if any(one < 1 for one in times) or not all(0.0 <= one <= 1.0 for one in values):
            raise archive.wrong("values are outside their range")
        self._times, self.count = dict(zip(values, times, strict=True)), sum(times)
        self._index = archive.whole("index")
        (self.total,) = archive.array("total", np.float64, (1,)).tolist()
        self._growth = archive.array("growth", np.float64, self._growth.shape)

    def _keep(self, value: float, unit: float) -> None:
        self.count, self.total = self.count + 1, self.total + value
        self._times[unit] = self._times.get(unit, 0) + 1

    def _look(self) -> bool:
        """Move to the largest guess that is refuted by now."""
        if not capital_reaches(self._growth, self.alpha):
            return False
        refuted, step = self._index + 1, 1
        while refuted + step <= _LAST and self._refutes(refuted + step):  # first in strides that double, then by halving
            refuted, step = refuted + step, 2 * step
        beyond = min(refuted + step, _LAST + 1)
        while beyond - refuted > 1:
            middle = (refuted + beyond) // 2
            refuted, beyond = (middle, beyond) if self._refutes(middle) else (refuted, middle)
        self._index = refuted
        if refuted < _LAST:
            self._growth = self._growth_at(refuted + 1)
        return True

    def _refutes(self, index: int) -> bool:
        return capital_reaches(self._growth_at(index), self.alpha)

    def _growth_at(self, index: int) -> Floats:
        units = np.fromiter(self._times.keys(), dtype=np.float64, count=len(self._times))
        times = np.fromiter(self._times.values(), dtype=np.float64, count=len(self._times))
        return np.asarray(times @ log_growth(units, _guess(index)))

    def _unit(self, value: float) -> float:
        scale = self.high - self.low
        if not self.low - ROUNDING * max(1.0, scale) <= value <= self.high + ROUNDING * max(1.0, scale):
            raise InvalidInput(
                f"a value is {value:g}, outside [{self.low:g}, {self.high:g}]; give a range that no value can leave"
            )
        return min(1.0, max(0.0, (value - self.low) / scale)) if scale > 0.0 else 0.0


def _guess(index: int) -> float:
    """The guesses, as shares of the range; the one before the first is 0."""
    return 1.0 / (1.0 + math.exp(14.0 - index / _PER_UNIT)) if index else 0.0


# Lower bounds on ONE policy's values by the returns of its own episodes: they need no model.
#
# For every constraint and every named reward there is a lower bound on the candidate's value (`RunningLower`), from the
# sums of its own episodes alone. An unseen step counts as 0: an episode that was cut short, left the model or was given up
# counts with the smallest return that it can have had, and is never left out.


class CandidateReturns:
    """Lower bounds on the real value of one fixed candidate by the returns of its own episodes."""

    def __init__(self, model: CMDP, policies: Sequence[MarkovPolicy], rewards: Mapping[str, Floats], alpha: float) -> None:
        """Begin without episodes.

        Args:
            model: its constraints come first.
            policies: the candidate is a mixture of these; one of them makes each of its episodes.
            rewards: [1 or H, S, A] in [0, 1], by name.
            alpha: the probability with which each single bound may ever be false.
        """
        self.policies = tuple(policies)
        self.names = (*model.labels, *rewards)
        self.logged = 0  # episodes of the candidate that came in logs
        self._model, self._wordings = model, model.wordings
        self._tables: list[Floats] = [*model.utilities, *rewards.values()]  # [1 or H, S, A] each
        self.bounds = tuple(RunningLower(alpha, high=_most(table, model.horizon)) for table in self._tables)

    @property
    def floors(self) -> dict[str, float]:
        """Bounds on the candidate's real values by name: lower ones for utilities and rewards, upper ones for costs."""
        proved = [one.bound for one in self.bounds]
        for k, wording in enumerate(self._wordings):
            proved[k] = wording.number(proved[k])
        return dict(zip(self.names, proved, strict=True))

    def missing(self, goals: Mapping[str, float]) -> float:
        """Return the largest gap between a floor and its goal; inf without goals."""
        floors, costs = self.floors, {one.label for one in self._wordings if one.is_cost}
        return max(((floors[key] - goal) * (1.0 if key in costs else -1.0) for key, goal in goals.items()), default=np.inf)

    @property
    def lower_bounds(self) -> Floats:
        """[K] on the candidate's V_c."""
        return np.array([one.bound for one in self.bounds[: len(self._wordings)]])

    @property
    def episodes(self) -> int:
        """How many episodes of the candidate were counted, lost ones too."""
        return self.bounds[0].count if self.bounds else 0

    def take(self, states: Indices, actions: Indices) -> bool:
        """Count one episode of the candidate; return whether a bound rose."""
        return self._add(self._returns(states, actions))

    def count(
        self, states: Indices, actions: Indices, ends: NDArray[np.int64], of_candidate: NDArray[np.bool_], *, at_once: bool
    ) -> None:
        """Count the candidate's episodes, those `of_candidate`, among concatenated ones.

        With `at_once`, for a log whose order may depend on its content, bounds follow only after its last episode.
        """
        found = [
            self._returns(states[ends[i] + i : ends[i + 1] + i + 1], actions[ends[i] : ends[i + 1]])
            for i in np.flatnonzero(of_candidate)
        ]
        if not at_once:
            for returns in found:
                self._add(returns)
        elif found:
            self.logged += len(found)
            for one, values in zip(self.bounds, zip(*found, strict=True), strict=True):
                one.add_block(values)

    def lose(self) -> None:
        """Count an unseen episode of the candidate as worth 0."""
        self._add([0.0] * len(self.bounds))

    def state(self) -> Archive:
        """Return the state of all bounds; `restore` puts it into the returns of the same candidate."""
        archive = Archive("returns")
        archive.document = {"logged": self.logged, "number": len(self.bounds)}
        for i, one in enumerate(self.bounds):
            archive.put_part(str(i), one.state())
        return archive

    def restore(self, archive: Archive) -> None:
        """Take in the `state` of the returns of the same candidate.

        Raises:
            InvalidInput: it is of another number of constraints and rewards, or cannot be.
        """
        if archive.whole("number") != len(self.bounds):
            raise archive.wrong("there are returns of another number of constraints and rewards")
        self.logged = archive.whole("logged")
        for i, one in enumerate(self.bounds):
            one.restore(archive.part(str(i)))

    def _returns(self, states: Indices, actions: Indices) -> list[float]:
        """Return the return of an episode for every constraint and reward; missing steps count as 0."""
        before, taken = with_end(self._model, states, actions)
        steps, before = np.arange(taken.size), before[: taken.size]
        return [float(table[steps if len(table) > 1 else 0, before, taken].sum()) for table in self._tables]

    def _add(self, returns: Sequence[float]) -> bool:
        risen = [one.add(value) for one, value in zip(self.bounds, returns, strict=True)]  # all of them, whatever the first
        return any(risen)


def _most(table: Floats, horizon: int) -> float:
    """The largest sum that any H steps can have, on whatever system."""
    return (1 if len(table) > 1 else horizon) * float(table.max(axis=(1, 2)).sum())
