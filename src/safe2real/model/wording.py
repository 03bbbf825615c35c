"""A constraint in the words in which it was written: cost <= limit stays that, wherever a person reads it.

Inside, every constraint is the sum of a utility over an episode, V_c, that is at least a threshold; a cost c is the utility
1 - c, so its expected sum is H - V_c. Everything here turns numbers about V_c into numbers of the user's, rounded to the
side on which they are true.
"""

from __future__ import annotations

from dataclasses import dataclass

from safe2real.model.shown import rounded_down, rounded_up


@dataclass(frozen=True, slots=True)
class Wording:
    """How one constraint was written.

    Example:
        >>> falls = Wording("falls", horizon=20, is_cost=True)
        >>> falls.requirement(18.0), falls.proved(18.25)
        ('expected falls <= 2', 'expected falls <= 1.75')
    """

    label: str  # what it is called
    horizon: int
    is_cost: bool  # written as cost <= limit; otherwise as utility >= threshold

    @property
    def relation(self) -> str:
        return "<=" if self.is_cost else ">="

    @property
    def bound_word(self) -> str:
        """What its number is called: a limit or a threshold."""
        return "limit" if self.is_cost else "threshold"

    @property
    def quantity(self) -> str:
        return f"expected {self.label}"

    def number(self, value: float) -> float:
        """The user's quantity where the utility's sum is `value`: the cost, or the value itself."""
        return self.horizon - float(value) if self.is_cost else float(value)

    def requirement(self, threshold: float) -> str:
        """What is asked for."""
        return f"{self.quantity} {self.relation} {self.number(threshold):.6g}"

    def proved(self, low: float) -> str:
        """What a lower bound on V_c says; what is shown is never better than what is proved."""
        shown = rounded_up(self.number(low)) if self.is_cost else rounded_down(self.number(low))
        return f"{self.quantity} {self.relation} {shown}"

    def margin(self, xi: float) -> str:
        """What a margin of `xi` means of the trusted policy."""
        side = "below its limit" if self.is_cost else "above its threshold"
        return f"{self.quantity} is at least {xi:g} {side}"
