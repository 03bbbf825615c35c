"""Constraints and numbers in the user's words: cost <= limit, bounds rounded conservatively, counts with their noun."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from safe2real.model.validation import ROUNDING

_DIGITS = 6
_LARGE = ((10**9, "billion"), (10**6, "million"))
_RELATIVE, _ABSOLUTE = 1e-13, ROUNDING  # what float rounding may have added, not to be passed on to the next digit


def rounded_down(limit: float, decimals: int | None = None, *, digits: int = _DIGITS) -> str:
    """Format an upper limit in some significant digits, or with `decimals`, rounded down: what is printed satisfies it."""
    return _rounded(limit, decimals, digits, ROUND_FLOOR, 1.0)


def rounded_up(limit: float, decimals: int | None = None, *, digits: int = _DIGITS) -> str:
    """Format a lower limit in some significant digits, or with `decimals`, rounded up: what is printed satisfies it."""
    return _rounded(limit, decimals, digits, ROUND_CEILING, -1.0)


def _rounded(limit: float, decimals: int | None, digits: int, rounding: str, sign: float) -> str:
    if not math.isfinite(limit):
        return f"{limit:g}"
    if decimals is None:
        return f"{float(Context(digits, rounding).create_decimal(limit + sign * _RELATIVE * abs(limit))):.{digits}g}"
    return f"{float(Decimal(limit + sign * _ABSOLUTE).quantize(Decimal(1).scaleb(-decimals), rounding)):.10g}"


def count(number: float, thing: str) -> str:
    """1 row, 2 rows; a mean as the nearest whole number."""
    whole = f"{number:,.0f}"
    return f"{whole} {thing}" if whole == "1" else f"{whole} {thing}s"


def roughly(number: float, thing: str = "") -> str:
    """Say a forecast in two significant digits, rounded up: "about 48,000 rounds", "about 38 million visits".

    Args:
        number: finite and not negative.
        thing: the noun of the forecast, in the singular; empty for the number alone.
    """
    whole = math.ceil(number - _ABSOLUTE - _RELATIVE * abs(number))
    rounded = int(Context(2, ROUND_CEILING).create_decimal(whole))
    scale, word = next(((scale, word) for scale, word in _LARGE if rounded >= scale), (1, ""))
    said = f"about {rounded:,}" if scale == 1 else f"about {rounded / scale:,.10g} {word}"
    if not thing:
        return said
    return f"{said} {thing}" if rounded == 1 else f"{said} {thing}s"


# A constraint in the words in which it was written: cost <= limit stays that, wherever a person reads it.
#
# Inside, every constraint is the sum of a utility over an episode, V_c, that is at least a threshold; a cost c is the
# utility 1 - c, so its expected sum is H - V_c. Everything here turns numbers about V_c into numbers of the user's,
# rounded to the side on which they are true.


@dataclass(frozen=True, slots=True)
class Wording:
    """How one constraint was written.

    Example:
        >>> falls = Wording("falls", horizon=20, is_cost=True)
        >>> falls.requirement(18.0), falls.proved(18.25)
        ('expected falls <= 2', 'expected falls <= 1.75')
    """

    label: str  # its name
    horizon: float  # of a cost: what its utility adds up to where it costs nothing
    is_cost: bool  # written as cost <= limit; otherwise as utility >= threshold

    @property
    def relation(self) -> str:
        return "<=" if self.is_cost else ">="

    @property
    def bound_word(self) -> str:
        """The word for its number: limit or threshold."""
        return "limit" if self.is_cost else "threshold"

    @property
    def quantity(self) -> str:
        return f"expected {self.label}"

    @property
    def loosen(self) -> str:
        """The change of its number that makes the constraint easier to satisfy."""
        return "raise the limit" if self.is_cost else "lower the threshold"

    def number(self, value: float) -> float:
        """The user's quantity where the utility's sum is `value`: the cost, or the value itself."""
        cost = self.horizon - float(value)
        return (0.0 if -ROUNDING < cost < 0.0 else cost) if self.is_cost else float(value)

    def requirement(self, threshold: float) -> str:
        """Return the constraint as text: quantity, relation and number."""
        return f"{self.quantity} {self.relation} {self.number(threshold):.6g}"

    def bound(self, threshold: float) -> str:
        """Return its number after the word for it."""
        return f"{self.bound_word} {self.number(threshold):.6g}"

    def proved(self, low: float) -> str:
        """Return a lower bound on V_c as text, rounded conservatively."""
        number = round(self.number(low), 9)
        return f"{self.quantity} {self.relation} {rounded_up(number) if self.is_cost else rounded_down(number)}"

    def loose(self, threshold: float) -> str:
        """A number for the constraint that is no tighter than `threshold`, in four decimals."""
        number = self.number(threshold)
        return rounded_up(number, 4) if self.is_cost else rounded_down(number, 4)

    def beside(self, value: float, threshold: float) -> str:
        """On which side of its number a value lies, and how far: shouted where that is the wrong one."""
        good, bad = ("below", "ABOVE") if self.is_cost else ("above", "BELOW")
        slack = value - threshold
        return f"{abs(slack):.4g} {good if slack >= 0.0 else bad} the {self.bound(threshold)}"

    def margin(self, xi: float) -> str:
        """Say in words what margin `xi` claims about the baseline."""
        side = "below its limit" if self.is_cost else "above its threshold"
        return f"{self.quantity} is at least {xi:g} {side}"


def bound_words(wordings: Iterable[Wording]) -> str:
    """Return the words of these constraints for their bounds: "limit", "threshold" or "limit or threshold"."""
    return " or ".join(sorted({words.bound_word for words in wordings}))
