"""What is certain of one reward: a plan that is worth at least so much, and that no safe policy is worth more than so much.

Both follow from the confidence sets of the rows. Lower: the certified mixture with the best worst case
(`planning.pessimistic`). Upper: Lagrangian duality over the optimistic kernels (`planning.optimistic`). Both are functions
of the evidence; where a search begins may be remembered from the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats
from safe2real.planning.certified_mixture import CertifiedMixture, best_mixture, column_of, trusted_column
from safe2real.planning.robust import Ceiling, RowSets, ceiling
from safe2real.planning.solve import solve
from safe2real.tables import Row

_NEAR = 0.02  # of the accuracy that is asked for: nearer the two ends need not be sought


@dataclass(frozen=True, eq=False, slots=True)
class Interval:
    """One declared reward: the best safe policy is worth something in [lower, upper], and `policy` at least `lower`."""

    name: str
    reward: Floats  # [1 or H, S, A]
    lower: float
    upper: float
    policy: Mixture  # certified feasible, and worth at least `lower` in reality
    lower_bounds: Floats  # [K] on V_c of `policy`
    allowed: float  # upper - lower that is accurate enough

    @property
    def is_accurate(self) -> bool:
        return self.upper - self.lower <= self.allowed

    def is_about(self, reward: ArrayLike) -> bool:
        """Whether this is the interval of `reward` ([S, A] or [H, S, A])."""
        given = np.asarray(reward, dtype=np.float64)
        return np.array_equal(self.reward, given[None] if given.ndim == 2 else given)

    def to_row(self) -> Row:
        """One line of a table; see `tables.to_table`."""
        return {"reward": self.name, "lower": self.lower, "upper": self.upper, "allowed": self.allowed,
                "accurate": self.is_accurate}  # fmt: skip

    @property
    def gap(self) -> float:
        """upper - lower, as a multiple of what is allowed: at most 1 where it is accurate."""
        return (self.upper - self.lower) / self.allowed if self.allowed > 0.0 else float(self.upper > self.lower)


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What two searches found for a reward, to go on from."""

    plan: CertifiedMixture
    top: Ceiling

    @property
    def start(self) -> Start:
        policies = tuple(column.policy for column in self.plan.used if column is not self.plan.columns[0])
        return Start(self.plan.prices, self.top.prices, policies)


@dataclass(frozen=True, eq=False, slots=True)
class Start:
    """Where to begin: what was found last time."""

    plan_prices: Floats  # [K]
    top_prices: Floats  # [K]
    policies: Sequence[MarkovPolicy]


def search(
    sets: RowSets, reward: Floats, baseline: MarkovPolicy, trusted: Floats, accuracy: float, start: Start | None
) -> Found:
    """Both bounds of one reward [1 or H, S, A]; without a `start` the model's own optimum says where to begin.

    `trusted` [K] is what the baseline's V_c is at least, `accuracy` the share of the value that matters.
    """
    if start is None:
        optimum = solve(sets.model, reward if reward.shape[0] > 1 else reward[0])
        prices = np.where(np.isfinite(optimum.multipliers), optimum.multipliers, 0.0)
        start = Start(prices, prices, optimum.policy.policies)
    first = trusted_column(sets, baseline, reward, trusted)
    columns = [first, *(column_of(sets, policy, reward) for policy in start.policies)]
    plan = best_mixture(sets, reward, columns, prices=start.plan_prices, gain=_NEAR * accuracy)
    return Found(plan, ceiling(sets, reward, start.top_prices, near=_NEAR * accuracy))


def interval_of(name: str, reward: Floats, found: Found, accuracy: float, *, relative: bool) -> Interval:
    """The interval in words that last: `accuracy` is a share of the upper end where it is `relative`."""
    lower = found.plan.value
    upper = max(lower, found.top.value)
    allowed = accuracy * upper if relative else accuracy
    return Interval(name, reward, lower, upper, found.plan.policy, found.plan.lower_bounds, allowed)
