"""Every radius is written twice, once compiled and once here from its statement: both must agree, whatever the sizes."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from experiments.oracles.run_length_bounds import literal_beta, radius_after
from safe2real import radii
from safe2real._compiled import row_update as _kernels
from safe2real.evidence.row_rule import RowFacts, rule_of
from safe2real.radii import Radius, System, literal_constants, subset_costs
from tests.compiled.calling import radius_at
from tests.radii.formulas import FORMULAS, TIGHT

VISITS = [*range(300), *(int(n) for n in np.geomspace(300, 1e15, 200))]
SIZES = [1, 2, 3, 10, 11, 25, 716]
LONG = sorted({*range(1, 200), *(int(n) for n in np.geomspace(200, 1e15, 120))})


def rule_for(radius: Radius, sizes: list[int], delta: float, system: System | None = None) -> _kernels.Rule:
    """As `HybridModel` makes it; the rest of the rule has no part in the radius."""
    return rule_of(radius, system or System(len(sizes), 1, 1), RowFacts(np.array(sizes, dtype=np.int64)), delta)


def numbers_seen(m: int) -> list[int]:
    """1 to m; for hundreds of successors those near the ends and the middle."""
    return list(range(1, m + 1)) if m <= 25 else [1, 2, 3, 10, 100, m // 2 - 1, m // 2, m // 2 + 1, m - 1, m]


def compiled_radii(rule: _kernels.Rule, visits: np.ndarray[Any, Any], seen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = np.empty(visits.size)
    _kernels.radii(rule, visits, seen, np.ones(visits.size, dtype=np.bool_), out)
    return out


@pytest.mark.parametrize("delta", [1e-9, 0.05, 0.99])
@pytest.mark.parametrize("radius", TIGHT)
def test_the_compiled_radius_is_its_formula(radius: Radius, delta: float) -> None:
    """One rule for rows of all sizes: a row for every size, number of successors seen, and n."""
    cases = [(m, seen) for m in SIZES for seen in numbers_seen(m)]
    sizes, seen = (np.repeat(part, len(LONG)) for part in zip(*cases, strict=True))
    rule = rule_of(radius, System(1, 1, 1), RowFacts(sizes), delta)
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


@pytest.mark.parametrize("radius", TIGHT)
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


@pytest.mark.parametrize("radius", TIGHT)
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


def test_every_radius_has_a_name_and_says_whether_it_is_certified() -> None:
    names = {kind.name: kind.certified for kind in radii.ALL}
    assert names == {"literal": True, "scaled": False, "kl": True, "union": True, "stitched": True, "adaptive": True}
    assert len({str(radius) for radius in (*TIGHT, radii.Literal(), radii.Scaled(0.5))}) == len(radii.ALL)


# ----------------------------------------------------------------------------------------------- the paper's literal one


@pytest.mark.parametrize("delta", [1e-9, 0.05, 0.99])
@pytest.mark.parametrize("radius", [radii.Literal(), *map(radii.Scaled, (1e-3, 0.05, 0.4, 1.0, 2.5))])
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
    assert (rule.constant[0], rule.weight) == literal_constants(system, delta)
    assert (rule.constant == rule.constant[0]).all()
    compiled = np.array([radius_at(rule, n % 2, n, 1) for n in VISITS])
    in_python = [radius_after(radius, n, system, delta) for n in VISITS]
    betas = [math.log(2 * S * A * H / delta) + S * math.log(8 * math.e * (n + 1)) for n in VISITS]
    printed = [min(1.0, radius.scale * math.sqrt(beta / max(2 * n, 1))) for n, beta in zip(VISITS, betas, strict=True)]
    np.testing.assert_allclose(compiled, in_python, rtol=1e-14)
    np.testing.assert_allclose(in_python, printed, rtol=1e-14)
    assert (np.diff(compiled) <= 0.0).all()  # Lemma beta-monotone
    assert (compiled < 1.0).any()
    public = [literal_beta(n, num_states=S, num_actions=A, horizon=H, delta=delta) for n in VISITS[::10]]
    np.testing.assert_allclose(public, betas[::10], rtol=1e-14)


def test_without_data_the_literal_radius_is_one_and_a_scaled_one_may_be_less() -> None:
    # S = A = H = 1, delta = 0.5: beta(0) = log 4 + log 8e = 4.4657359028
    system = System(1, 1, 1)
    assert radius_after(radii.Literal(), 0, system, 0.5) == 1.0
    assert radius_after(radii.Scaled(0.1), 0, system, 0.5) == pytest.approx(0.1 * math.sqrt(4.4657359028), rel=1e-10)
