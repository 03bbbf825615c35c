"""Plans by their worst case: the best mixture that is certified over sets of rows, as far as it can be found.

Problem: over all mixtures of policies, maximise the worst V_r subject to a worst V_ck of at least threshold k, each worst
over the kernels of the sets and on its own; a certificate adds up these values. Algorithm: column generation. A column is
a policy with its worst values. A small linear program mixes the columns, its prices lambda say how much the next policy
gains, and one backward induction finds a policy that is greedy for L_r + sum_k lambda_k L_ck while it carries every L
under its own worst kernel: the carried numbers ARE the policy's certificates, whatever the greedy choice was worth.
Stopping rule: the new policy gains nothing, or eight of them were tried. The greedy choice need not be the best response,
because the worst kernels of the parts differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safe2real._compiled import column_generation
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats, bare, frozen
from safe2real.planning.robust import RowSets, greedy

ROUNDS = 8  # policies that one search tries
_GAIN = 1e-4  # of the value: less than that is not worth another policy


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """A policy with its certified bounds."""

    policy: MarkovPolicy
    line: Floats  # [1 + K] lower bounds on V_r and on every V_c


@dataclass(frozen=True, eq=False, slots=True)
class CertifiedMixture:
    """The best mixture of some columns that meets every threshold."""

    columns: tuple[Column, ...]  # all that were mixed; the first is the one that meets every threshold alone
    weights: Floats  # [C]
    value: float  # lower bound on V_r
    lower_bounds: Floats  # [K] on V_c
    prices: Floats  # [K] the reward lost per unit of each threshold

    @property
    def policy(self) -> Mixture:
        return Mixture.of(self.weights, [column.policy for column in self.columns])

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that have weight."""
        return tuple(column for column, weight in zip(self.columns, self.weights, strict=True) if weight > 0.0)


def column_of(balls: RowSets, policy: MarkovPolicy, reward: Floats, reward_balls: RowSets | None = None) -> Column:
    """A policy as a column: its worst V_r (over `reward_balls` where they are given) and its worst V_c over `balls`."""
    value = (balls if reward_balls is None else reward_balls).worst(policy, reward)
    return Column(policy, np.array([value, *balls.worst_constraints(policy)]))


def trusted_column(
    balls: RowSets, baseline: MarkovPolicy, reward: Floats, trusted: Floats, reward_balls: RowSets | None = None
) -> Column:
    """Return the baseline as a column: each V_c is bounded by the larger of `trusted` [K] and its worst value."""
    column = column_of(balls, baseline, reward, reward_balls)
    return Column(baseline, np.array([column.line[0], *np.maximum(trusted, column.line[1:])]))


def greedy_column(balls: RowSets, reward: Floats, prices: Floats, reward_balls: RowSets | None = None) -> Column:
    """The policy of one robust backward induction at `prices` [K], or [1 + K] with the reward's own price in front."""
    model = balls.model
    weights = prices if prices.size == model.num_constraints + 1 else np.concatenate([[1.0], prices])
    actions, line = greedy(balls, balls if reward_balls is None else reward_balls, reward, weights)
    return Column(MarkovPolicy(*model.shape, frozen(actions), None), line)


def mix(columns: Sequence[Column], thresholds: Floats) -> CertifiedMixture:
    """The best mixture of `columns`, the first of which must meet every threshold, by the simplex method.

    Its `lower_bounds` meet the thresholds to the last bit, and are the same bits on every processor (`_totals`).
    """
    lines = np.array([column.line for column in columns])  # [C, 1 + K]
    weights, dual = np.zeros(len(columns)), np.zeros(thresholds.size + 1)
    column_generation.best_mixture(lines, bare(thresholds), weights, dual)
    totals = _totals(weights, lines)
    # What rounding has left below a threshold is paid for by the first column, which is above or on it.
    slack, share = np.maximum(lines[0, 1:] - totals[1:], np.finfo(float).tiny), 0.0
    while share < 1.0 and (totals[1:] < thresholds).any():
        needed = float(np.max(np.maximum(thresholds - totals[1:], 0.0) / slack))
        share = min(1.0, max(needed, 2.0 * share, np.finfo(float).eps))
        weights *= 1.0 - share
        weights[0] += share
        totals = _totals(weights, lines)
    if totals[0] < lines[0, 0] or not np.isfinite(totals).all():  # the first column alone is never worse than nothing
        weights[:] = 0.0
        weights[0] = 1.0
        totals = lines[0].copy()
    return CertifiedMixture(tuple(columns), weights, float(totals[0]), totals[1:], np.maximum(-dual[:-1], 0.0))


def _totals(weights: Floats, lines: Floats) -> Floats:
    """[1 + K] the weighted sum of `lines`, term after term: a product of matrices rounds as the processor's BLAS likes."""
    return np.asarray((weights[:, None] * lines).sum(axis=0))


def best_mixture(
    balls: RowSets,
    reward: Floats,
    columns: Sequence[Column],
    *,
    prices: Floats | None = None,
    reward_balls: RowSets | None = None,
    rounds: int = ROUNDS,
    gain: float = _GAIN,
) -> CertifiedMixture:
    """The best certified mixture that was found from `columns` on, in at most `rounds` backward inductions.

    Args:
        balls: where the real rows lie.
        reward: [1 or H, S, A], checked.
        columns: what there is to mix; the first must meet every threshold, like `trusted_column`.
        prices: [K] a guess of the last prices, tried first.
        reward_balls: where the reward is judged, if not over `balls`: an index on a guessed system, say.
        rounds: policies to try.
        gain: a policy that adds a smaller share of the value ends the search.

    Returns:
        A mixture whose stated value and V_c are lower bounds on every kernel of the sets; never below any of `columns`
        that meets the thresholds.
    """
    thresholds, found = balls.model.thresholds, list(columns)
    best = mix(found, thresholds)
    guesses = [prices] if prices is not None and prices.size and np.isfinite(prices).all() else []
    for turn in range(rounds):
        guess = guesses.pop() if guesses else best.prices
        column = greedy_column(balls, reward, guess, reward_balls)
        worth = column.line[0] + float(best.prices @ (column.line[1:] - thresholds))
        if worth <= best.value + gain * max(abs(best.value), 1e-6):
            if turn == 0 and guess is not best.prices:
                continue  # a guess may be poor; the prices themselves are not
            break
        found.append(column)
        best = mix(found, thresholds)
    return best
