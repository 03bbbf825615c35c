"""Whoever types in a number that a message shows is on the right side of the limit."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safe2real.model.constraint_text import count, rounded_down, rounded_up

LIMITS = st.floats(-1e6, 1e6, allow_nan=False)


@given(LIMITS, st.sampled_from([None, 3, 4]))
def test_limits_are_rounded_to_the_right_side(limit, decimals):
    room = 1e-9 if decimals is not None else 1e-12 * abs(limit)
    assert float(rounded_down(limit, decimals)) <= limit + room
    assert float(rounded_up(limit, decimals)) >= limit - room


@pytest.mark.parametrize(
    ("limit", "decimals", "down", "up"),
    [
        (0.3, None, "0.3", "0.3"),
        (0.1 + 0.2, None, "0.3", "0.3"),
        (0.1 + 0.2, 4, "0.3", "0.3"),
        (1 / 3, None, "0.333333", "0.333334"),
        (1 / 3, 3, "0.333", "0.334"),
        (123.45678, 4, "123.4567", "123.4568"),
        (0.00001, 4, "0", "0.0001"),
    ],
)
def test_examples(limit, decimals, down, up):
    assert (rounded_down(limit, decimals), rounded_up(limit, decimals)) == (down, up)
    assert Decimal(down) <= Decimal(up)


def test_what_is_not_finite_is_said():
    for decimals in (None, 4):
        shown = [function(end, decimals) for end in (float("inf"), float("-inf")) for function in (rounded_down, rounded_up)]
        assert shown == ["inf", "inf", "-inf", "-inf"]


def test_one_row_and_more():
    assert [count(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
