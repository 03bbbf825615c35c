"""The comparison table: every row by hand, and every formula against its value."""

import re
from typing import Any

import numpy as np
import pytest

from experiments.oracles.bound_comparison import Bound, comparison
from tests.cases import each
from tests.problem.checking import Setting, assert_frozen, assert_refused, wrong_uses

TABLE: Setting = {
    "num_states": 5,
    "num_actions": 3,
    "horizon": 2,
    "margin": 0.5,
    "epsilon": 0.1,
    "mismatch_size": 7,
    "mismatch_gap": 0.6,
    "calibrated_gap": 0.1,
    "reachability": 0.2,
    "return_dimension": 4,
}


def table(**changes: Any) -> dict[str, Bound]:
    return {bound.key: bound for bound in comparison(**{**TABLE, **changes})}


@each(
    ("key", "value"),
    [
        ("menard2021fast", 120_000),  # 16 x 25 x 3 / 0.01
        ("miryoosefi2022simple", 204_000),  # 4 x 32 x 5 x 3 / 0.01 + 16 x 25 x 3 / 0.1 = 192000 + 12000
        ("huang2023safe", 30_720_000),  # 3 x 25 x 256 / (0.01 x 0.0625)
        ("yu2025improved", 1_920_000),  # 3 x 25 x 64 / (0.01 x 0.25)
        ("ni2025learning", 1_000_000),  # 1 / min(1e-6, 0.015625)
        ("wagenmaker2024overcoming", 6.5536e12),  # 65536 / 1e-8
        ("qu2025hybrid", 24_000),  # min(16 x 3 x 5 / 0.01, 8 x 7 / 0.01 + 8 x 25 x 3 / (0.36 x 0.04) = 5600 + 41666.7)
        ("wu2026unified", 24_000),  # 16 x 3 x 5 / 0.01
        # min(128 x 25 x 3 / 0.0025 = 3840000, 64 x 5 x 7 / 0.0025 + 32 x 5 x 23 x (1 + 1 / (0.5 x 4)) / 0.05)
        ("ours", 1_006_400),  # 896000 + 3680 x 1.5 / 0.05 = 896000 + 110400
    ],
)
def test_comparison_by_hand(key: Any, value: Any) -> None:
    assert table()[key].value == pytest.approx(value, rel=1e-12)


def test_the_other_side_of_every_minimum() -> None:
    assert table(return_dimension=6)["miryoosefi2022simple"].value == pytest.approx(252_000)  # d = 6 > S: 240000 + 12000
    assert table(margin=0.01)["ni2025learning"].value == pytest.approx(1e12)  # xi^6 is the smaller
    assert table(reachability=0.9)["qu2025hybrid"].value == pytest.approx(5600 + 600 / (0.36 * 0.81))
    assert table(mismatch_gap=0.1 + 1e-9)["ours"].value == pytest.approx(3_840_000)


def test_gaps_of_nothing() -> None:
    assert table(mismatch_gap=0.1)["ours"].value == pytest.approx(3_840_000)  # the second bound is infinite
    assert table(mismatch_gap=0.1, mismatch_size=30)["ours"].value == pytest.approx(3_840_000)  # no row to clear
    assert table(mismatch_gap=0.0, calibrated_gap=0.0)["qu2025hybrid"].value == pytest.approx(24_000)


def test_the_columns_of_the_table() -> None:
    """Sim-to-real, any reward, constraints, safe exploration, as printed; ours is the only row with all four."""
    columns = {
        key: "".join(
            "x" if mark else "-" for mark in (bound.sim_to_real, bound.any_reward, bound.constraints, bound.safe_exploration)
        )
        for key, bound in table().items()
    }
    assert columns == {
        "menard2021fast": "-x--",
        "miryoosefi2022simple": "-xx-",
        "huang2023safe": "-xxx",
        "yu2025improved": "--xx",
        "ni2025learning": "--xx",
        "wagenmaker2024overcoming": "x---",
        "qu2025hybrid": "x---",
        "wu2026unified": "x---",
        "ours": "xxxx",
    }
    for key, bound in table().items():
        year = re.search(r"\d{4}", key)
        if year is not None:
            assert re.search(rf"\([A-Za-z]+ {year[0]}\)$", bound.citation)
            assert bound.citation.lower().startswith(re.split(r"\d", key)[0])
    assert "miss the constraint by eps" in table()["miryoosefi2022simple"].note  # the table's dagger


@each("changes", [{}, {"reachability": 0.9, "margin": 1.7, "epsilon": 0.3}, {"mismatch_size": 29, "mismatch_gap": 0.11}])
def test_every_formula_evaluates_to_its_value(changes: Any) -> None:
    """What is printed and what is computed are the same: the text is turned into Python and evaluated."""
    given = {**TABLE, **changes}
    letters = {
        "S": given["num_states"],
        "A": given["num_actions"],
        "H": given["horizon"],
        "B": given["mismatch_size"],
        "d": given["return_dimension"],
        "xi": given["margin"],
        "eps": given["epsilon"],
        "sigma_s": given["mismatch_gap"],
        "eps_s": given["calibrated_gap"],
        "sigma_r": given["reachability"],
        "min": min,
    }
    for bound in comparison(**given):
        text = bound.formula.replace("|B|", "B").replace("^", "**").replace("{", "(").replace("}", ")")
        python = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text)
        assert bound.value == pytest.approx(eval(python, {"__builtins__": {}}, letters), rel=1e-12), bound.formula


@each(("function", "setting", "argument", "value"), wrong_uses((comparison, TABLE)))
def test_wrong_input_is_refused_with_its_name_and_value(function: Any, setting: Any, argument: Any, value: Any) -> None:
    assert_refused(function, setting, argument, value)


def test_numpy_numbers_do_as_well_as_pythons() -> None:
    """Also where powers of the horizon leave 64 bits."""
    many: Setting = {**TABLE, "horizon": 60_000}
    assert comparison(**{**many, "horizon": np.int64(60_000)}) == comparison(**many)


def test_rows_are_frozen() -> None:
    assert_frozen(comparison(**TABLE)[0])
