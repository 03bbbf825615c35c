"""The lower bound of `betting.py` as values come in, one after the other, at the price of one bet each.

Problem: look at the lower bound on a mean after every one of a hundred thousand values. Algorithm: the bound is looked for
on a fixed grid of guesses m_1 < m_2 < ..., fine near both ends of the range. The largest guess that was EVER refuted is
kept, and the gambler's capital at the next one; a value changes that capital by one factor for each bet. Only when it
reaches 1 / alpha are the values so far multiplied out again, to find how many more guesses are refuted.

Why the largest ever: while the capital at the true mean stays below 1 / alpha, which it does for all n at once with
probability 1 - alpha, no guess that is refuted at any n lies above the mean (every factor falls as m rises). So the bound
never falls, holds whenever one stops, and is at most one step of the grid below the best of `mean_bounds` so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.evidence.betting import capital_reaches, log_growth
from safe2real.model.checks import Floats, finite_number, probability_of_failure

_PER_UNIT = 1024  # guesses for each unit of log(m / (1 - m)): a step is a thousandth of the distance to the nearer end
_LAST = 28 * _PER_UNIT  # up to a millionth from either end


class RunningLower:
    """A lower bound on the mean of independent values in [low, high] that holds after every number of them.

    Guarantee: with probability at least 1 - `alpha`, `bound` is at most the mean after every value and every block.
    Reference: Ville's inequality for the capital of docs/trials.md.
    """

    def __init__(self, alpha: float, *, low: float = 0.0, high: float = 1.0) -> None:
        """Nothing is known yet: the bound is `low`.

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
        """What the mean is at least."""
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
        if not self.low - 1e-9 * max(1.0, scale) <= value <= self.high + 1e-9 * max(1.0, scale):
            raise InvalidInput(
                f"a value is {value:g}, outside [{self.low:g}, {self.high:g}]; give a range that no value can leave"
            )
        return min(1.0, max(0.0, (value - self.low) / scale)) if scale > 0.0 else 0.0


def _guess(index: int) -> float:
    """The guesses, as shares of the range; the one before the first is 0."""
    return 1.0 / (1.0 + math.exp(14.0 - index / _PER_UNIT)) if index else 0.0
