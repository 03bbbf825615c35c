"""The KL ball of a row: n KL(observed, real) <= D for all n at once, by mixtures of likelihoods (docs/samples.md).

For every p the ratio of a mixture of likelihoods to p's own is a nonnegative martingale under p, so it stays below 1 / level
with probability 1 - level, over all n. The mixture has the simulator's row, Dirichlet(1/2) laws, and laws that are local
around p itself; each of its parts gives a D, and the smallest holds.
"""

from __future__ import annotations

import math

import numpy as np

from safe2real._compiled.cache import borrowing, compiled, inner
from safe2real._compiled.tally import simulator_probability

SIMULATOR, DIRICHLET = 0.25, 0.25  # weights of the parts; with those of the local ones they sum to 1
RUNS = np.array([300.0, 5_000.0, 80_000.0])  # how sharply a local part is concentrated around p, in visits
LOCAL = np.array([0.2, 0.2, 0.1])
PRIOR = 0.5  # of every successor, in every Dirichlet law
TURNS = 10


@inner
def digamma(x):
    """The derivative of log Gamma for x > 0: recurrence to x >= 6, then the asymptotic series (error below 1e-11)."""
    found = 0.0
    while x < 6.0:
        found -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (
        1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0 - square / 132.0)))
    )
    return found + math.log(x) - 0.5 / x - series


@inner
def dirichlet_cost(counts, n, size):
    """- log of the probability of a sequence with these counts under Dirichlet(1/2) on `size` successors."""
    total = math.lgamma(PRIOR * size + n) - math.lgamma(PRIOR * size)
    for i in range(counts.size):
        total -= math.lgamma(counts[i] + PRIOR) - math.lgamma(PRIOR)
    return total


@inner
def local_bound(counts, n, near, size, run, level):
    """D of the part that is Dirichlet(run p + prior); `near` [k] says which seen successors have the prior, of `size`.

    The test is convex in -log p, so its tangent at the observed row bounds it from below: sum_i tau_i log(o_i / p_i) <= B
    for all p in the set, o the observed row. Then for every multiplier > max counts_i / tau_i the sum of counts_i
    log(o_i / p_i) is at most multiplier B + sum_i v_i log(v_i / (o_i sum v)), v = multiplier tau - counts.
    """
    k = counts.size
    tau, prior = np.empty(k), PRIOR * size
    bound = level + math.lgamma(run + prior + n) - math.lgamma(run + prior)
    least = 0.0
    for i in range(k):
        o = counts[i] / n
        b = run * o + (PRIOR if near[i] else 0.0)
        bound -= math.lgamma(b + counts[i]) - math.lgamma(b) - counts[i] * math.log(o)
        tau[i] = counts[i] - run * o * (digamma(b + counts[i]) - digamma(b))
        if tau[i] <= 1e-9 * counts[i]:
            return np.inf  # rounding: no bound
        least = max(least, counts[i] / tau[i])
    best, excess = np.inf, 0.5
    for turn in range(TURNS):
        multiplier = least * (1.0 + excess)
        total, slope, bend, taus = 0.0, bound, 0.0, 0.0
        for i in range(k):
            total += multiplier * tau[i] - counts[i]
        found = multiplier * bound
        for i in range(k):
            v = multiplier * tau[i] - counts[i]
            if v > 0.0:
                gain = math.log(v * n / (counts[i] * total))
                found += v * gain
                slope += tau[i] * gain
                bend += tau[i] * tau[i] / v
            taus += tau[i]
        best = min(best, found)
        bend -= taus * taus / total
        if abs(slope) * least * excess < 1e-3 * max(1.0, best) and turn > 0:
            break
        # Newton in log(excess), where the multiplier may range over many sizes
        curve = slope * least * excess + bend * (least * excess) ** 2
        step = -slope * least * excess / curve if curve > 0.0 else (-1.5 if slope > 0.0 else 1.5)
        excess *= math.exp(min(2.0, max(-2.0, step)))
    return best


@inner
def likelihood_bound(counts, right, near, n, size, near_size, all_near, level):
    """D: n KL(observed, real) is at most this. `counts` [k] > 0 of the seen successors, `right` [k] their probabilities in
    the simulator, `near` [k] whether they are among the `near_size` likely ones (0: there are no such), of `size` possible.
    """
    k = counts.size
    observed, simulated, possible = 0.0, 0.0, True
    for i in range(k):
        observed += counts[i] * math.log(counts[i] / n)
        if right[i] > 0.0:
            simulated += counts[i] * math.log(right[i])
        else:
            possible = False
    best = np.inf
    if possible:
        best = level - math.log(SIMULATOR) + observed - simulated
    if near_size > 0:
        half = level - math.log(0.5 * DIRICHLET)
        best = min(best, half + observed + dirichlet_cost(counts, n, size))
        if all_near:
            best = min(best, half + observed + dirichlet_cost(counts, n, near_size))
    else:
        best = min(best, level - math.log(DIRICHLET) + observed + dirichlet_cost(counts, n, size))
    for j in range(RUNS.size):
        prior = near_size if near_size > 0 else size
        best = min(best, local_bound(counts, n, near, prior, RUNS[j], level - math.log(LOCAL[j])))
    return best


@inner
def gather(tally, rule, row, S, counts, right, near):
    """Write a row's counts, simulator probabilities and near flags by successor; return whether all are near."""
    first, all_near = np.int64(tally.begin[row]), True
    for i in range(counts.size):
        successor = tally.successor[first + i]
        counts[i] = np.float64(tally.count[first + i])
        right[i] = simulator_probability(tally, row, successor, S)
        near[i] = is_near(rule, row, successor)
        all_near = all_near and near[i]
    return all_near


@borrowing
def is_near(rule, row, successor):
    """Return whether the simulator can reach a successor from the same state by any action; true without near sets."""
    if rule.near_length.size == 0 or rule.near_length[row] == 0:
        return True
    low = np.int64(rule.near_begin[row])
    end = low + np.int64(rule.near_length[row])
    high = end
    while low < high:
        middle = (low + high) // 2
        if rule.near_successor[middle] < successor:
            low = middle + 1
        else:
            high = middle
    return low < end and rule.near_successor[low] == successor


@borrowing
def near_size_of(rule, row):
    return np.int64(rule.near_length[row]) if rule.near_length.size > 0 else 0


@compiled
def bounds(rule, rows, is_right, visits, out):
    """D / n of rows with these probabilities after `visits` [R], into `out` [R]: for forecasts, with fractions of visits.

    `is_right` [R]: whether the row is the simulator's.
    """
    for row in range(out.size):
        out[row] = np.inf
        k, n = np.int64(rows.length[row]), visits[row]
        if k == 0 or n < 1.0 or rule.size[row] == 1:
            continue
        first = np.int64(rows.begin[row])
        kept = 0
        counts, right, near = np.empty(k), np.empty(k), np.ones(k, dtype=np.bool_)
        for i in range(k):
            if rows.probability[first + i] > 0.0:
                counts[kept] = n * rows.probability[first + i]
                right[kept] = rows.probability[first + i] if is_right[row] else 0.0
                kept += 1
        found = likelihood_bound(
            counts[:kept], right[:kept], near[:kept], n, rule.size[row], near_size_of(rule, row), True,
            rule.likelihood[row],
        )  # fmt: skip
        out[row] = found / n
