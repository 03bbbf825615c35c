"""Numbers in messages: limits are rounded to the side on which whoever types them in is right."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_DIGITS = 6
_LARGE = ((10**9, "billion"), (10**6, "million"))
_RELATIVE, _ABSOLUTE = 1e-13, 1e-9  # what float rounding may have added, not to be passed on to the next digit


def rounded_down(limit: float, decimals: int | None = None) -> str:
    """An upper limit in six digits, or with so many decimals; what is shown is at or below it."""
    return _rounded(limit, decimals, ROUND_FLOOR, 1.0)


def rounded_up(limit: float, decimals: int | None = None) -> str:
    """A lower limit in six digits, or with so many decimals; what is shown is at or above it."""
    return _rounded(limit, decimals, ROUND_CEILING, -1.0)


def _rounded(limit: float, decimals: int | None, rounding: str, sign: float) -> str:
    if not math.isfinite(limit):
        return f"{limit:g}"
    if decimals is None:
        return f"{float(Context(_DIGITS, rounding).create_decimal(limit + sign * _RELATIVE * abs(limit))):.{_DIGITS}g}"
    return f"{float(Decimal(limit + sign * _ABSOLUTE).quantize(Decimal(1).scaleb(-decimals), rounding)):.10g}"


def count(number: float, thing: str) -> str:
    """1 row, 2 rows; a mean as the nearest whole number."""
    whole = f"{number:,.0f}"
    return f"{whole} {thing}" if whole == "1" else f"{whole} {thing}s"


def roughly(number: float, thing: str = "") -> str:
    """Say a forecast in two significant digits, rounded up: "about 48,000 rounds", "about 38 million visits".

    Args:
        number: finite and not negative.
        thing: what is forecast, in the singular; empty for the number alone.
    """
    whole = math.ceil(number - _ABSOLUTE - _RELATIVE * abs(number))
    rounded = int(Context(2, ROUND_CEILING).create_decimal(whole))
    scale, word = next(((scale, word) for scale, word in _LARGE if rounded >= scale), (1, ""))
    said = f"about {rounded:,}" if scale == 1 else f"about {rounded / scale:,.10g} {word}"
    if not thing:
        return said
    return f"{said} {thing}" if rounded == 1 else f"{said} {thing}s"
