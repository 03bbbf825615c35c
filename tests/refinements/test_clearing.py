"""The sequential test: against all sets one by one, against rows that are wrong by exactly the gap, and by hand."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numba import njit

import safe2real as s2r
from safe2real import refinements
from safe2real._compiled import clearing
from safe2real._compiled.tally import Tally
from safe2real.evidence.mismatch_map import map_mismatch
from tests.compiled.calling import clears, growth

Array = np.ndarray[Any, Any]


def tally_of(right: Array, counts: Array) -> Tally:
    """One row: the simulator's probabilities [m], and how often each successor was seen [m]."""
    states = right.size
    has, seen = np.flatnonzero(right), np.flatnonzero(counts)
    stored = has.size + states
    successor, probability = np.zeros(stored, dtype=np.uint32), np.zeros(stored)
    count = np.zeros(stored, dtype=np.int64)
    successor[: has.size], probability[: has.size] = has, right[has]
    successor[has.size : has.size + seen.size], count[has.size : has.size + seen.size] = seen, counts[seen]
    return Tally(
        simulator_begin=np.zeros(1, dtype=np.uint32),
        simulator_length=np.array([has.size], dtype=np.uint32),
        begin=np.array([has.size], dtype=np.uint32),
        length=np.array([seen.size], dtype=np.uint32),
        capacity=np.array([states], dtype=np.uint32),
        successor=successor,
        probability=probability,
        count=count,
        visits=np.array([counts.sum()], dtype=np.int64),
    )


def slowest_set(right: Array, counts: Array, eta: float, sigma: float) -> float:
    """min over ALL sets of successors, of those that are neither likely nor seen too, of n g: by the definition."""
    n = counts.sum()
    least = n * math.log((1.0 - eta) / (1.0 - sigma)) if sigma < 1.0 else math.inf
    for size in range(1, right.size + 1):
        for chosen in itertools.combinations(range(right.size), size):
            x, y = counts[list(chosen)].sum() / n, right[list(chosen)].sum()
            if y + sigma > 1.0 + 1e-9:
                continue
            value = x * math.log((y + eta) / (y + sigma))
            if x < 1.0:
                value += (1.0 - x) * math.log((1.0 - y - eta) / (1.0 - y - sigma)) if y + sigma < 1.0 - 1e-12 else math.inf
            least = min(least, n * value)
    return float(least)


def test_a_row_is_cleared_when_every_set_passes_and_only_then() -> None:
    rng = np.random.default_rng(0)
    both = {True: 0, False: 0}
    for case in range(1500):
        m = int(rng.integers(1, 7))
        right = rng.dirichlet(np.full(m, rng.choice([0.3, 1.0, 5.0])))
        right[rng.random(m) < 0.15] = 0.0
        right = right / right.sum() if right.sum() > 0.0 else np.eye(m)[0]
        sigma = float(rng.choice([0.05, 0.3, 0.7, 1.0]))
        eps = float(rng.choice([0.0, 0.0, 0.1])) * sigma
        eta = eps + 0.3 * (sigma - eps)
        law = 0.8 * right + 0.2 * rng.dirichlet(np.ones(m)) if rng.random() < 0.3 else right
        counts = rng.multinomial(int(rng.integers(1, 400)), law)
        level = float(rng.uniform(0.5, 12.0))
        expected = slowest_set(right, counts, eta, sigma) >= level
        if eps == 0.0 and counts[right == 0.0].any():
            expected = False
        assert clears(tally_of(right, counts), 0, m, eps, eta, sigma, level) == expected, case
        both[expected] += 1
    assert min(both.values()) > 200


def test_growth_falls_in_what_was_seen_and_rises_in_what_is_likely() -> None:
    for eta, sigma in ((0.1, 0.3), (0.01, 0.5), (0.3, 0.9)):
        grid = np.linspace(0.0, 1.0 - sigma - 1e-6, 7)
        values = np.array([[growth(x, y, eta, sigma) for x in np.linspace(0.0, 1.0, 9)] for y in grid])
        assert (np.diff(values, axis=1) < 0.0).all()
        assert (np.diff(values, axis=0) > 0.0).all()


def test_many_successors_are_cleared_by_the_bound_from_below() -> None:
    """25 successors: too many to look at every set; the curve decides."""
    right = np.full(25, 0.04)
    counts = np.full(25, 40)
    assert clears(tally_of(right, counts), 0, 25, 0.0, 0.15, 0.5, math.log(1e3))
    assert not clears(tally_of(right, counts), 0, 25, 0.0, 0.15, 0.5, 1e6)
    assert slowest_set(right[:12] / right[:12].sum(), counts[:12], 0.15, 0.5) > math.log(1e3)


@njit
def ever_cleared(seed, laws, right, eps, eta, sigma, level, visits):  # type: ignore[no-untyped-def]
    """How many of the rows with `laws` [rows, m] are ever cleared against `right` [rows, m] within so many visits."""
    np.random.seed(seed)
    rows, m = laws.shape
    found = 0
    for row in range(rows):
        successor, probability = np.empty(2 * m, dtype=np.uint32), np.zeros(2 * m)
        count = np.zeros(2 * m, dtype=np.int64)
        for i in range(m):
            successor[i], probability[i] = i, right[row, i]
        begin, length = np.array([m], dtype=np.uint32), np.zeros(1, dtype=np.uint32)
        whole, zero = np.array([m], dtype=np.uint32), np.zeros(1, dtype=np.uint32)
        tally = Tally(zero, whole, begin, length, whole, successor, probability, count, np.zeros(1, dtype=np.int64))
        place = np.full(m, -1)
        for _ in range(visits):
            u, drawn = np.random.random(), 0
            while drawn < m - 1 and u >= laws[row, drawn]:
                u -= laws[row, drawn]
                drawn += 1
            if place[drawn] < 0:
                place[drawn] = m + length[0]
                successor[place[drawn]] = drawn
                length[0] += np.uint32(1)
            count[place[drawn]] += 1
            tally.visits[0] += 1
            if clearing.clears(tally, 0, m, eps, eta, sigma, level):
                found += 1
                break
    return found


def wrong_rows(rng: np.random.Generator, rows: int, m: int, sigma: float, shape: str) -> tuple[Array, Array]:
    """(laws, simulator's rows), each pair at TV distance sigma exactly: mass sigma moves from `lost` to `gained`."""
    laws, right = np.zeros((rows, m)), np.zeros((rows, m))
    for row in range(rows):
        gains = rng.random(m) < 0.5 if shape == "spread" else np.arange(m) == rng.integers(m)
        gains[rng.integers(m)] = False
        if not gains.any():
            gains = ~gains & (np.arange(m) == np.argmin(gains))
        loses = ~gains if gains.sum() < m else np.arange(m) > 0
        lost, gained = np.zeros(m), np.zeros(m)
        lost[np.flatnonzero(loses) if shape != "one to one" else rng.choice(np.flatnonzero(loses), 1)] = 1.0
        lost *= rng.gamma(0.5, size=m)
        lost /= lost.sum()
        gained[gains] = rng.dirichlet(np.ones(int(gains.sum())))
        rest = rng.dirichlet(np.full(m, rng.choice([0.2, 1.0, 10.0])))
        if shape == "rare":  # to where the simulator never goes
            rest[gains] = 0.0
            rest = rest / rest.sum() if rest.sum() > 0.0 else lost
        right[row] = sigma * lost + (1.0 - sigma) * rest
        laws[row] = sigma * gained + (1.0 - sigma) * rest
    return laws, right


@pytest.mark.parametrize("rows", [40, pytest.param(1_400, marks=pytest.mark.slow)])
def test_rows_that_are_wrong_by_exactly_the_gap_are_rarely_ever_cleared(rows: int) -> None:
    """At level 0.1, a row each; the share of those EVER cleared must be at most that. In `make slow` 10^5 rows."""
    rng, alpha = np.random.default_rng(3), 0.1
    for shape in ("one to one", "spread", "rare"):
        ever, followed = 0, 0
        for m in (2, 3, 5, 12, 38):
            for sigma in (0.05, 0.2, 0.4, 0.7, 0.9):
                laws, right = wrong_rows(rng, rows, m, sigma, shape)
                np.testing.assert_allclose(0.5 * np.abs(laws - right).sum(axis=1), sigma, atol=1e-9)
                ever += ever_cleared(7, laws, right, 1e-9, 0.3 * sigma, sigma, math.log(1.0 / alpha), 600)
                followed += rows
        assert ever <= alpha * followed, shape
        assert ever >= 0.001 * followed or rows < 100, "the test says nothing if nothing can happen"


def test_right_rows_are_cleared_soon() -> None:
    """The figures people plan with: about a tenth of the paper's visits."""
    grid = s2r.systems.WindyGrid.paper()
    case = grid.cmdp(grid.simulator(), 10.8)
    baseline = s2r.MarkovPolicy.uniform(horizon=case.horizon, num_states=25, num_actions=4)
    needed = {}
    for name, used in (("paper", ()), ("sequential", (refinements.SequentialClearing(),))):
        settings = s2r.Settings(
            margin=0.1, calibrated_gap=0.0, mismatch_gap=grid.mismatch_gap(), tolerance=0.02, refinements=used
        )
        evidence = s2r.Learner(s2r.Problem(case, baseline, settings)).evidence
        needed[name] = float(np.median(map_mismatch(evidence).visits_needed))
    assert needed["sequential"] <= needed["paper"] / 6.0


def test_protection_clears_later_and_must_leave_something_to_clear() -> None:
    right, counts = np.array([0.5, 0.5]), np.array([8, 8])
    tally = tally_of(right, counts)
    assert clears(tally, 0, 2, 0.0, 0.3 * 0.5, 0.5, math.log(20.0))
    assert not clears(tally, 0, 2, 0.0, 0.3 * 0.25, 0.25, math.log(20.0))
    with pytest.raises(s2r.Safe2RealError, match=r"protection is 0\.5"):
        refinements.SequentialClearing(protection=0.5)
    clearing_twice = (refinements.SequentialClearing(), refinements.BelowGap())
    for used, said in (
        ((refinements.SequentialClearing(protection=10.0),), "lower it"),
        (clearing_twice, "one way of clearing"),
        (("near-sets",), "give a tuple of"),
    ):
        with pytest.raises(s2r.Safe2RealError, match=said):
            s2r.Settings(margin=0.1, calibrated_gap=0.1, mismatch_gap=0.5, tolerance=0.02, refinements=used)
