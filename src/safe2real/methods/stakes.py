"""Which rows are worth a visit for declared rewards: what is at stake there, times how fast a visit settles it.

The stake of a row is how far the two ends of a reward's interval hang on it: the occupancy of the policy that attains an
end, times what the row's set leaves open about the values behind it, summed over steps. Three parts: the optimistic values
of the policy that attains the upper end; the pessimistic values of that same policy, for what keeps it from being the plan;
and those of the plan. All on a guess of the real system, which decides where to look and nothing else: what is certified
never rests on it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import kinds, pessimistic
from safe2real._compiled import radii as compiled_radii
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.mismatch_map import visits_to_clear
from safe2real.evidence.tied import evidence_for
from safe2real.methods.intervals import Found
from safe2real.model.checks import Floats
from safe2real.model.cmdp import CMDP
from safe2real.planning.evaluate import occupancy
from safe2real.planning.optimistic import optimistic_policy, worst_values
from safe2real.planning.robust import RowSets
from safe2real.problem.problem import Problem

_FALL = 0.8  # the radius that is waited for, as a share of the present one
_SETTLED = 0.9  # of what is at stake, by clearing a row
_VISITS = np.unique(np.rint(np.geomspace(1.0, 1e8, 160)))  # [G] at which radii are tabulated
_NOISE = 0.4  # expected TV distance of n observations to their own distribution: this times sum sqrt(p (1 - p) / n)
_CLEARLY = 1e-9
_LUCK = 1.3  # the sequential test takes longer than its slowest set is expected to


def guess_of(evidence: Evidence) -> CMDP:
    """A guess of the real system: the simulator's rows, and the observed ones where the simulator's are proved wrong.

    Where nobody has been, the simulator is a better guess than a uniform row, which would make everything reachable.
    """
    return evidence.problem.simulator.with_kernel(evidence.view(proved_wrong(evidence)))


def proved_wrong(evidence: Evidence) -> NDArray[np.bool_]:
    """[R] suspect rows that lie farther from the simulator's than a right one may."""
    belief = evidence.belief
    return np.asarray(belief.suspect & (belief.low > evidence.rule.cleared_gap + _CLEARLY))


def stake_of(sets: RowSets, guess: CMDP, reward: Floats, found: Found) -> Floats:
    """[R] what hangs on each row for one reward [1 or H, S, A], as a share of its upper end."""
    model, stake = sets.model, np.zeros(sets.gaps.size)
    unit = 1.0 / max(found.top.value, 1e-9)
    utilities, rows = list(model._arrays.utilities), guess.kernel._rows

    def add(values: Floats, visits: Floats, weight: float) -> None:
        if weight > 0.0:
            pessimistic.add_stakes(sets.arrays, rows, values, visits, weight, stake)

    prices = found.top.prices
    weighted = reward + np.tensordot(prices, model.utilities, axes=1) if prices.size else reward
    best, values = optimistic_policy(sets, weighted)
    visits = occupancy(guess, best)
    add(-values, visits, unit)
    add(worst_values(sets, best, reward), visits, unit)
    for price, utility in zip(prices, utilities, strict=True):
        if price > 0.0:
            add(worst_values(sets, best, utility), visits, unit * price)
    first = found.plan.columns[0]
    for column, share in zip(found.plan.columns, found.plan.weights, strict=True):
        if share <= 0.0:
            continue
        visits = occupancy(guess, column.policy)
        add(worst_values(sets, column.policy, reward), visits, unit * share)
        for price, utility in zip(found.plan.prices if column is not first else (), utilities, strict=False):
            if price > 0.0:  # of the baseline, V_c is trusted
                add(worst_values(sets, column.policy, utility), visits, unit * share * price)
    return stake


def rates(evidence: Evidence) -> Floats:
    """[R] the share of a row's stake that one visit is expected to settle; 0 where visits change nothing."""
    visits, belief = evidence.visits.reshape(-1).astype(np.float64), evidence.belief
    radius, clearing = _tables(evidence.problem, evidence.reuses_simulator)
    target = _FALL * np.minimum(belief.gap, 1.0)
    shrinks = _visits_for(radius, target) - visits
    cleared = clearing - visits
    rate = (1.0 - _FALL) / np.maximum(shrinks, 1.0)
    rate = np.maximum(rate, np.where(proved_wrong(evidence), 0.0, _SETTLED / np.maximum(cleared, 1.0)))
    return np.where(belief.suspect & (belief.gap > 0.0), rate, 0.0)


@lru_cache(maxsize=8)
def _tables(problem: Problem, reuses_simulator: bool) -> tuple[Floats, Floats]:
    """(radii [G, R] by visits, visits [R] after which a row that is right is expected to be cleared)."""
    evidence = evidence_for(problem, reuses_simulator=reuses_simulator, keeps_safe=True)
    rule, tally = evidence.rule, evidence.counts.tally
    seen = np.maximum(tally.simulator_length.astype(np.int64), 1)
    radius = np.empty((_VISITS.size, seen.size))
    for line, visits in zip(radius, _VISITS, strict=True):
        compiled_radii.radii(rule, np.full(seen.size, visits), seen, np.ones(seen.size, dtype=np.bool_), line)
    kernel = problem.simulator.kernel
    rows, _, probability = kernel.transitions()
    noise = np.bincount(rows, np.sqrt(probability * (1.0 - probability)), minlength=seen.size)
    expected = radius + _NOISE * noise / np.sqrt(_VISITS)[:, None]
    if rule.clearing == kinds.SEQUENTIAL:
        return radius, _LUCK * visits_to_clear(evidence, np.zeros(seen.size), as_seen=False)
    limit = rule.threshold if rule.clearing == kinds.HALFWAY else rule.clearing_gap
    return radius, _visits_for(expected, np.full(seen.size, limit))


def _visits_for(table: Floats, target: Floats) -> Floats:
    """[R] visits at which the falling columns of `table` [G, R] reach `target` [R]; inf where they do not."""
    at = (table > target).sum(axis=0)
    return np.where(at < _VISITS.size, _VISITS[np.minimum(at, _VISITS.size - 1)], np.inf)
