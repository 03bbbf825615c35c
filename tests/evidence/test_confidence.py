"""Every radius is written twice, once compiled and once here from its statement: both must agree, whatever the sizes."""

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from safe2real import radii
from safe2real._compiled import radii as _kernels
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.rule import rule_of
from safe2real.model.kernel import Kernel
from safe2real.radii.base import Radius, System
from safe2real.radii.literal import beta_after, literal_constants, radius_after
from safe2real.radii.subsets import subset_costs
from tests.compiled.calling import radius_at

VISITS = [*range(300), *(int(n) for n in np.geomspace(300, 1e15, 200))]
SIZES = [1, 2, 3, 10, 11, 25, 716]
LONG = sorted({*range(1, 200), *(int(n) for n in np.geomspace(200, 1e15, 120))})
TIGHT = [radii.KL(), radii.Union(), radii.Stitched(), radii.Adaptive()]


def rule_for(radius: Radius, sizes: list[int], delta: float, system: System | None = None) -> _kernels.Rule:
    """As `HybridModel` makes it; the rest of the rule has no part in the radius."""
    return rule_of(radius, system or System(len(sizes), 1, 1), np.array(sizes, dtype=np.int64), delta)


# --------------------------------------------------------------------------- the radii as their docstrings state them


def kl_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    return math.sqrt((math.log(rows / delta) + (m - 1) * math.log(math.e * (1 + n / (m - 1)))) / (2 * n))


@cache
def log_subsets(m: int) -> float:
    """log(2^m - 2) by whole numbers of any length."""
    return math.log(2**m - 2)


def union_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    return math.sqrt((log_subsets(m) + math.log(rows / delta) + math.log(n * (n + 1))) / (2 * n))


def stitched_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    price = math.log(5.2) + log_subsets(m) + math.log(rows / delta)
    return 0.85 * math.sqrt((math.log(math.log(2 * n)) + 0.72 * price) / n)


@cache
def share_by_formula(m: int, members: int) -> float:
    """log(1 / share) of one set of so many of m successors: all alike up to ten, else 1 / (j (j + 1)) for each number j."""
    if m <= 10:
        return log_subsets(m)
    return math.log(math.comb(m, members) * members * (members + 1))


@cache
def dearest_by_formula(m: int, most: int) -> float:
    return max(share_by_formula(m, j) for j in range(1, most + 1))


def adaptive_by_formula(m: int, n: int, seen: int, rows: int, delta: float) -> float:
    """Boundary of the mean of two half-normal mixtures with variance proxies n / 4, tuned for 20 and 1000 visits.

    A mixture with prior precision rho over exponential supermartingales of variance v exceeds 1 / a while the deviation is
    above sqrt(2 (v + rho) log(1/2 + sqrt((v + rho) / rho) / (2 a))).
    """
    price = dearest_by_formula(m, min(seen, m - 1))
    level = math.log(2.0) + price + math.log(rows / delta)  # each mixture has half of the set's share
    squares = []
    for tuned in (20 / 4, 1000 / 4):
        total = n / 4 + tuned
        log_ratio = level + 0.5 * math.log(total / tuned)
        # for exponents that a float cannot hold, the 1/2 is lost in rounding
        inside = math.log(0.5 + 0.5 * math.exp(log_ratio)) if log_ratio < 700 else log_ratio - math.log(2.0)
        squares.append(2 * total * inside)
    return math.sqrt(min(squares)) / n


FORMULAS: dict[type, Callable[[int, int, int, int, float], float]] = {
    radii.KL: kl_by_formula,
    radii.Union: union_by_formula,
    radii.Stitched: stitched_by_formula,
    radii.Adaptive: adaptive_by_formula,
}


def numbers_seen(m: int) -> list[int]:
    """1 to m; for hundreds of successors those near the ends and the middle."""
    return list(range(1, m + 1)) if m <= 25 else [1, 2, 3, 10, 100, m // 2 - 1, m // 2, m // 2 + 1, m - 1, m]


def compiled_radii(rule: _kernels.Rule, visits: np.ndarray[Any, Any], seen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = np.empty(visits.size)
    _kernels.radii(rule, visits, seen, out)
    return out


@pytest.mark.parametrize("delta", [1e-9, 0.05, 0.99])
@pytest.mark.parametrize("radius", TIGHT, ids=lambda radius: radius.name)
def test_the_compiled_radius_is_its_formula(radius: Radius, delta: float) -> None:
    """One rule for rows of all sizes: a row for every size, number of successors seen, and n."""
    cases = [(m, seen) for m in SIZES for seen in numbers_seen(m)]
    sizes, seen = (np.repeat(part, len(LONG)) for part in zip(*cases, strict=True))
    rule = rule_of(radius, System(1, 1, 1), sizes, delta)
    rows = compiled_radii(rule, np.tile(LONG, len(cases)), seen).reshape(len(cases), -1)
    for (m, k), compiled in zip(cases, rows, strict=True):
        if m == 1:
            assert (compiled == 0.0).all()
            continue
        stated = [min(1.0, FORMULAS[type(radius)](m, n, k, sizes.size, delta)) for n in LONG]
        np.testing.assert_allclose(compiled, stated, rtol=1e-12, atol=0.0)  # none exceeds 1, so within 1e-12 as well
        assert (np.diff(compiled) <= 0.0).all()
        assert (compiled <= 1.0).all()
        assert compiled[-1] < 1e-4


@pytest.mark.parametrize("radius", TIGHT, ids=lambda radius: radius.name)
def test_radii_by_hand(radius: Radius) -> None:
    """One row, two possible successors, delta = 0.05, n = 100: log(1 / delta) = 2.9957322736."""
    hand = {
        # sqrt((2.9957322736 + log 101 + 1) / 200) = sqrt((2.9957322736 + 5.6151205168) / 200)
        "kl": 0.2074952143,
        # sqrt((log 2 + 2.9957322736 + log 10100) / 200) = sqrt((0.6931471806 + 2.9957322736 + 9.2202907028) / 200)
        "union": 0.2540587546,
        # 0.85 sqrt((log log 200 = 1.6673892921 + 0.72 (log 5.2 = 1.6486586256 + 0.6931471806 + 2.9957322736)) / 100)
        "stitched": 0.1995313527,
        # 1 / a = 2 x 2 x 20 = 80; tuned for 20: sqrt(2 x 30 log(1/2 + 40 sqrt(30 / 5))) / 100 = sqrt(60 log 98.47959) / 100
        # (tuned for 1000: sqrt(2 x 275 log(1/2 + 40 sqrt(275 / 250))) / 100 = 0.454, the larger of the two)
        "adaptive": 0.1659490762,
    }
    rule = rule_for(radius, [2], 0.05)
    assert radius_at(rule, 0, 100, 2) == pytest.approx(hand[radius.name], rel=1e-9)


@pytest.mark.parametrize("radius", TIGHT, ids=lambda radius: radius.name)
def test_without_data_nothing_is_known(radius: Radius) -> None:
    """Not even where one successor is possible: until it is seen, the model's row is uniform over all states."""
    rule = rule_for(radius, [1, 2, 25], 0.05)
    assert [radius_at(rule, row, 0, 0) for row in range(3)] == [1.0, 1.0, 1.0]


def test_only_the_adaptive_radius_looks_at_the_successors_seen() -> None:
    for radius in (*TIGHT, radii.Literal()):
        rule = rule_for(radius, [10, 11, 25], 0.05)
        for row, m in enumerate((10, 11, 25)):
            values = np.array([radius_at(rule, row, 1000, seen) for seen in range(1, m + 1)])
            assert (np.diff(values) >= 0.0).all()
            adapts = radius.counts_successors and m > 10
            assert (values[0] < values[-1]) == adapts


@pytest.mark.parametrize("m", range(2, 13))
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_shares_of_all_subsets_sum_to_at_most_one(m: int, adaptive: bool) -> None:
    """And the price of having seen k successors is that of the dearest set of at most k of them."""
    costs = subset_costs(m, m + 1, adaptive=adaptive)
    equal = not adaptive or m <= 10

    def cost_of(members: int) -> float:
        choose = sum(1 for _ in combinations(range(m), members))
        return math.log(2**m - 2) if equal else math.log(choose) + math.log(members * (members + 1))

    total = math.fsum(math.exp(-cost_of(j)) for j in range(1, m) for _ in combinations(range(m), j))
    assert total <= 1.0 + 1e-12
    assert total == pytest.approx(1.0 if equal else 1.0 - 1.0 / m, rel=1e-12)
    for k in range(1, m):
        assert costs[k] == pytest.approx(max(cost_of(j) for j in range(1, k + 1)), rel=1e-13)
    charged = math.fsum(math.comb(m, j) * math.exp(-costs[j]) for j in range(1, m))
    assert charged <= total + 1e-12  # what is charged is never less than the set's own price


@pytest.mark.parametrize("m", SIZES)
def test_costs_are_the_same_whatever_room_the_table_has(m: int) -> None:
    for adaptive in (False, True):
        short, long = (subset_costs(m, length, adaptive=adaptive) for length in (m + 1, 2 * m + 50))
        np.testing.assert_array_equal(short[1:m], long[1:m])
        assert (np.diff(long[1:]) >= 0.0).all()
        assert (long >= 0.0).all()


@pytest.mark.parametrize("radius", TIGHT, ids=lambda radius: radius.name)
def test_a_declared_support_shrinks_the_radius(radius: Radius) -> None:
    """Rows with 1, 2, 3 and all of 25 possible successors, in one system; the literal radius takes no notice."""
    S = 25
    simulator = Kernel.from_dense(np.broadcast_to(np.eye(S)[0], (S, 1, S)))
    declared = np.full((S, 1, S), 1.0 / S)
    for row, m in enumerate((1, 2, 3)):
        declared[row, 0] = np.where(np.arange(S) < m, 1.0 / m, 0.0)
    support = Kernel.from_dense(declared)
    delta, n = 0.1, 5000
    for kind in (radius, radii.Literal()):
        plain, shrunk = (
            HybridModel(simulator, 1, separation=None, radius=kind, delta=delta, support=given) for given in (None, support)
        )
        for model in (plain, shrunk):
            model.counts.tally.visits[:] = n
            model.counts.tally.length[:] = 3
        difference = (plain.radii - shrunk.radii)[:, 0]
        if kind is not radius:
            assert (difference == 0.0).all()
            continue
        assert shrunk.radii[0, 0] == 0.0
        assert (np.diff(shrunk.radii[:4, 0]) > 0.0).all()
        assert (difference[:3] > 0.0).all()
        assert (difference[3:] == 0.0).all()
        for row, m in ((1, 2), (2, 3), (3, S)):
            stated = FORMULAS[type(radius)](m, n, 3, S, delta)
            assert shrunk.radii[row, 0] == pytest.approx(stated, rel=1e-12)


def test_the_levels_of_pooled_and_separate_rows() -> None:
    """delta is shared by the rows there are: S A pooled, H S A per step."""
    dense = np.full((3, 2, 3), 1 / 3)
    for kernel, rows in ((Kernel.from_dense(dense), 6), (Kernel.from_dense(dense).repeated(4), 24)):
        model = HybridModel(kernel, 4, separation=None, radius=radii.Union(), delta=0.1)
        model.counts.tally.visits[:] = 1000
        np.testing.assert_allclose(model.radii, union_by_formula(3, 1000, 3, rows, 0.1), rtol=1e-12)


def test_every_radius_has_a_name_and_says_whether_it_is_certified() -> None:
    names = {kind.name: kind.certified for kind in radii.ALL}
    assert names == {"literal": True, "scaled": False, "kl": True, "union": True, "stitched": True, "adaptive": True}
    assert len({str(radius) for radius in (*TIGHT, radii.Literal(), radii.Scaled(0.5))}) == len(radii.ALL)


# ----------------------------------------------------------------------------------------------- the paper's literal one


@pytest.mark.parametrize("delta", [1e-9, 0.05, 0.99])
@pytest.mark.parametrize("radius", [radii.Literal(), *map(radii.Scaled, (1e-3, 0.05, 0.4, 1.0, 2.5))], ids=str)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (2, 3, 5), (25, 4, 12), (300, 1, 1), (1, 50, 1), (1, 1, 1000), (10_000, 18, 500)]
)
def test_the_compiled_radius_is_the_python_radius_and_the_papers(
    sizes: tuple[int, int, int], radius: radii.Literal | radii.Scaled, delta: float
) -> None:
    S, A, H = sizes
    system = System(S, A, H)
    # the literal radius depends on S, not on what the rows can do
    rule = rule_for(radius, [1, S], delta, system)
    assert (rule.constant, rule.weight) == literal_constants(system, delta)
    compiled = np.array([radius_at(rule, n % 2, n, 1) for n in VISITS])
    in_python = [radius_after(radius, n, system, delta) for n in VISITS]
    betas = [math.log(2 * S * A * H / delta) + S * math.log(8 * math.e * (n + 1)) for n in VISITS]
    printed = [min(1.0, radius.scale * math.sqrt(beta / max(2 * n, 1))) for n, beta in zip(VISITS, betas, strict=True)]
    np.testing.assert_allclose(compiled, in_python, rtol=1e-14)
    np.testing.assert_allclose(in_python, printed, rtol=1e-14)
    assert (np.diff(compiled) <= 0.0).all()  # Lemma beta-monotone
    assert (compiled < 1.0).any()
    public = [beta_after(n, System(S, A, H), delta) for n in VISITS[::10]]
    np.testing.assert_allclose(public, betas[::10], rtol=1e-14)


def test_without_data_the_literal_radius_is_one_and_a_scaled_one_may_be_less() -> None:
    # S = A = H = 1, delta = 0.5: beta(0) = log 4 + log 8e = 4.4657359028
    system = System(1, 1, 1)
    assert radius_after(radii.Literal(), 0, system, 0.5) == 1.0
    assert radius_after(radii.Scaled(0.1), 0, system, 0.5) == pytest.approx(0.1 * math.sqrt(4.4657359028), rel=1e-10)


def test_the_hybrid_model_uses_the_same_radius() -> None:
    simulator = Kernel.from_dense(np.full((3, 2, 3), 1 / 3))
    model = HybridModel(simulator, 4, separation=None, radius=radii.Scaled(0.3), delta=0.1)
    model.counts.tally.visits[:] = [0, 1, 2, 10, 500, 10**9]
    expected = [radius_after(radii.Scaled(0.3), float(n), System(3, 2, 4), 0.1) for n in model.counts.visits.reshape(-1)]
    np.testing.assert_allclose(model.radii.reshape(-1), expected, rtol=1e-14)
