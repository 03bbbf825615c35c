"""What Theorem 1 of the paper promises, and when it applies; nothing here touches data.

With horizon H, margin xi, gaps eps_s (calibrated) <= sigma_s (mismatch) and probability of failure delta, a run that stops
at the tolerance tau = xi eps / (4 H) + H^3 eps_s is safe throughout, ends within the bounds of `bounds.py`, and leaves a
model that plans to within eps + 4 eps_s H^4 / xi for any reward, with probability 1 - delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from safe2real.errors import InvalidInput
from safe2real.model.checks import finite_number, positive_integer, unit_number
from safe2real.model.shown import rounded_down, rounded_up

_ROUNDING = 1e-12  # relative room for float rounding where a condition compares computed numbers
_MARGIN_FIRST = "give a positive margin first"


class Guarantee(StrEnum):
    """The three claims of Theorem 1, which do not all rest on the same conditions."""

    SAFETY = "safe exploration"
    ACCURACY = "planning accuracy"
    TERMINATION = "termination bound"


class ConditionName(StrEnum):
    """The conditions of Theorem 1."""

    SEPARATION = "separation"
    MARGIN = "margin"
    DELTA = "delta"
    CALIBRATED_GAP = "calibrated_gap"
    EPSILON = "epsilon"
    TOLERANCE_AGAINST_MARGIN = "tolerance against margin"
    TOLERANCE_AGAINST_CALIBRATED_GAP = "tolerance against calibrated_gap"
    TOLERANCE_AGAINST_EPSILON = "tolerance against epsilon"


_EVERY = tuple(Guarantee)
_AFTERWARDS = (Guarantee.ACCURACY, Guarantee.TERMINATION)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of Theorem 1: whether it holds, the numbers behind that, and what to change if it does not."""

    name: ConditionName
    holds: bool
    explanation: str
    cure: str  # empty when the condition holds
    needed_for: tuple[Guarantee, ...]

    def __str__(self) -> str:
        if self.holds:
            return f"holds  {self.name}: {self.explanation}"
        needed = ", ".join(self.needed_for)
        return f"FAILS  {self.name} (needed for {needed}): {self.explanation}. Cure: {self.cure}"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Every condition of Theorem 1, in the order in which to mend them."""

    items: tuple[Condition, ...]

    @property
    def hold(self) -> bool:
        """Whether the whole of Theorem 1 applies."""
        return not self.failing

    @property
    def failing(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.items if not condition.holds)

    def hold_for(self, guarantee: Guarantee) -> bool:
        """Whether every condition that `guarantee` rests on holds."""
        return not any(guarantee in condition.needed_for for condition in self.failing)

    def describe(self) -> str:
        """One line per claim of the theorem, then one per condition."""
        claims = [f"{guarantee}: {'applies' if self.hold_for(guarantee) else 'NOT guaranteed'}" for guarantee in Guarantee]
        return "\n  ".join(["Theorem 1", *claims, *map(str, self.items)])

    __str__ = describe


def tolerance_for(epsilon: float, *, horizon: int, margin: float, calibrated_gap: float) -> float:
    """tau = xi eps / (4 H) + H^3 eps_s: where a run stops so that planning is accurate (Theorem 1)."""
    horizon = positive_integer("horizon", horizon)
    epsilon, margin = positive_number("epsilon", epsilon), margin_within(horizon, margin)
    return _tolerance(epsilon, horizon, margin, unit_number("calibrated_gap", calibrated_gap))


def accuracy_of(tolerance: float, horizon: int, margin: float) -> float:
    """2 H tau / xi + 2 tau: how far from the optimum planning can be after stopping at tau.

    Lemma "Connection between estimation error and CMDPs", which is stated for tau in (0, xi / 4].
    """
    horizon = positive_integer("horizon", horizon)
    tolerance, margin = positive_number("tolerance", tolerance), margin_within(horizon, margin)
    if not _at_most(tolerance, margin / 4):
        limit = rounded_down(margin / 4)
        raise InvalidInput(
            f"tolerance is {tolerance:.10g}; the lemma says nothing above margin / 4 = {limit}: lower it to that"
        )
    return 2 * horizon * tolerance / margin + 2 * tolerance


def promised_accuracy(epsilon: float, *, horizon: int, margin: float, calibrated_gap: float) -> float:
    """eps + 4 eps_s H^4 / xi: the planning accuracy that Theorem 1 states; the second part is the simulator's residual."""
    horizon = positive_integer("horizon", horizon)
    epsilon, margin = positive_number("epsilon", epsilon), margin_within(horizon, margin)
    return epsilon + 4 * unit_number("calibrated_gap", calibrated_gap) * horizon**4 / margin


def check_conditions(
    *,
    epsilon: float,
    horizon: int,
    margin: float,
    calibrated_gap: float,
    mismatch_gap: float,
    delta: float,
    tolerance: float | None = None,
) -> Conditions:
    """Every condition of Theorem 1 as an outcome with its numbers and its cure; only unreadable numbers are refused.

    Without a `tolerance` it is the theorem's own, `tolerance_for(epsilon, ...)`. The conditions are not independent: for
    that tolerance, epsilon <= H - 4 H^4 eps_s / xi and tau <= xi / 4 say the same, and both fail with eps_s > xi / (4 H^3).
    At eps_s = xi / (4 H^3) itself, which the theorem admits, no epsilon is left. Safety rests on the first three alone.

    Whether the margin and the gaps are true of the real system cannot be checked here. A cure that changes one of them
    means: find a system, or a claim about it, for which the new value is true.
    """
    horizon, margin = positive_integer("horizon", horizon), finite_number("margin", margin)
    epsilon, delta = finite_number("epsilon", epsilon), finite_number("delta", delta)
    small, large = finite_number("calibrated_gap", calibrated_gap), finite_number("mismatch_gap", mismatch_gap)
    theorems, chosen = _tolerance(epsilon, horizon, margin, small), tolerance is not None
    tolerance = theorems if tolerance is None else finite_number("tolerance", tolerance)
    return Conditions(
        (
            _separation(small, large),
            _slater(margin, horizon),
            _confidence(delta),
            _calibration(small, margin, horizon),
            _accuracy(epsilon, small, margin, horizon),
            _tolerance_at_most_margin(tolerance, margin, chosen),
            _tolerance_above_residual(tolerance, small, horizon, chosen),
            _tolerance_of_theorem(tolerance, theorems, small, margin, horizon),
        )
    )


# -------------------------------------------------------------------------------------------------- each condition by itself


def _condition(
    name: ConditionName, holds: bool, explanation: str, cure: str, needed_for: tuple[Guarantee, ...]
) -> Condition:
    return Condition(name, holds, explanation, "" if holds else cure, needed_for)


def _separation(small: float, large: float) -> Condition:
    if small < 0.0:
        cure = "raise calibrated_gap to 0 or more: a distance is not negative"
    elif large > 1.0:
        cure = "lower mismatch_gap to 1 or less: a total variation distance does not exceed 1"
    else:
        cure = (
            f"lower calibrated_gap to at most {large!r}, or raise mismatch_gap to at least {small!r}, "
            "but only to values that are true of the real system: too large a mismatch_gap is unsafe"
        )
    said = (
        f"calibrated_gap is {small:.10g}, mismatch_gap is {large:.10g}; needed is 0 <= calibrated_gap <= mismatch_gap <= 1"
    )
    return _condition(ConditionName.SEPARATION, 0.0 <= small <= large <= 1.0, said, cure, _EVERY)


def _slater(margin: float, horizon: int) -> Condition:
    if margin <= 0.0:
        cure = "choose a baseline that keeps the constraint with room to spare, or ask for less"
    else:
        cure = f"state a margin of at most {horizon}: a sum of {horizon} numbers in [0, 1] leaves no more room"
    said = f"margin is {margin:.10g}; above 0 and at most the horizon {horizon} is needed"
    return _condition(ConditionName.MARGIN, 0.0 < margin <= horizon, said, cure, _EVERY)


def _confidence(delta: float) -> Condition:
    said, cure = f"delta is {delta:.10g}; strictly between 0 and 1 is needed", "choose the probability of failure you accept"
    return _condition(ConditionName.DELTA, 0.0 < delta < 1.0, said, f"{cure}, e.g. 0.05", _EVERY)


def _calibration(small: float, margin: float, horizon: int) -> Condition:
    limit = margin / (4 * horizon**3)
    cure = f"lower calibrated_gap to {rounded_down(limit)}, or {_ask_margin(4 * horizon**3 * small, horizon)}"
    cure = cure if margin > 0.0 else _MARGIN_FIRST
    said = f"calibrated_gap is {small:.10g}; Theorem 1 needs at most margin / (4 H^3) = {rounded_down(limit)}"
    return _condition(ConditionName.CALIBRATED_GAP, _at_most(small, limit), said, cure, (Guarantee.TERMINATION,))


def _accuracy(epsilon: float, small: float, margin: float, horizon: int) -> Condition:
    said = f"epsilon is {epsilon:.10g}; above 0 and at most min(1, H - 4 H^4 calibrated_gap / margin)"
    if margin <= 0.0:
        said = f"{said} is needed, which has no meaning at a margin of {margin:.10g}"
        return _condition(ConditionName.EPSILON, False, said, _MARGIN_FIRST, _AFTERWARDS)
    residual = 4 * horizon**4 * small / margin
    limit = min(1.0, horizon - residual)
    possible = 0.0 < epsilon <= 1.0
    target = epsilon if possible else 1.0
    room = horizon - target
    changes = f"lower calibrated_gap to {rounded_down(margin * room / (4 * horizon**4))}"
    if room > 0.0:
        changes += f", or {_ask_margin(4 * horizon**4 * small / room, horizon)}"
    if limit <= 0.0:
        cure = f"no epsilon is small enough: for an epsilon of {target:.10g}, {changes}"
    elif possible:
        cure = f"lower epsilon to {rounded_down(limit)}, or {changes}"
    else:
        cure = f"choose an epsilon above 0 and at most {rounded_down(limit)}"
    holds = possible and _at_most(epsilon + residual, float(horizon))
    return _condition(ConditionName.EPSILON, holds, f"{said} = {rounded_down(limit)} is needed", cure, _AFTERWARDS)


def _tolerance_at_most_margin(tolerance: float, margin: float, chosen: bool) -> Condition:
    limit = rounded_down(margin / 4)
    if margin <= 0.0:
        cure = _MARGIN_FIRST
    elif not chosen:
        cure = "it follows from epsilon: mend that condition"
    else:
        cure = f"choose a tolerance above 0 and at most {limit}"
    holds = tolerance > 0.0 and _at_most(tolerance, margin / 4)
    said = f"tolerance is {tolerance:.10g}; above 0 and at most margin / 4 = {limit} is needed"
    return _condition(ConditionName.TOLERANCE_AGAINST_MARGIN, holds, said, cure, _AFTERWARDS)


def _tolerance_above_residual(tolerance: float, small: float, horizon: int, chosen: bool) -> Condition:
    # the proof takes the simulator's residual, H^3 eps_s, off the certificate: what is left is the progress of an episode
    residual = horizon**3 * small
    cure = f"raise tolerance above {rounded_up(residual)}"
    if not chosen:
        cure = "it follows from margin and epsilon: mend those conditions"
    elif tolerance > 0.0:
        cure += f", or lower calibrated_gap below {rounded_down(tolerance / horizon**3)}"
    said = f"tolerance is {tolerance:.10g}; more than H^3 calibrated_gap = {rounded_up(residual)} is needed"
    name = ConditionName.TOLERANCE_AGAINST_CALIBRATED_GAP
    return _condition(name, tolerance > residual, said, cure, (Guarantee.TERMINATION,))


def _tolerance_of_theorem(tolerance: float, theorems: float, small: float, margin: float, horizon: int) -> Condition:
    cure = f"use a tolerance of {theorems!r}"
    meant = 4 * horizon * (tolerance - horizon**3 * small) / margin if margin > 0.0 else 0.0
    if 0.0 < meant <= 1.0 and _at_most(tolerance, margin / 4):
        cure += f", or state the epsilon that this one stands for, {meant!r}"
    holds = math.isclose(tolerance, theorems, rel_tol=1e-9)
    # a larger tolerance stops sooner and plans worse, a smaller one the other way round
    needed_for = _AFTERWARDS if holds else (Guarantee.ACCURACY if tolerance > theorems else Guarantee.TERMINATION,)
    said = f"tolerance is {tolerance:.10g}; Theorem 1 sets margin epsilon / (4 H) + H^3 calibrated_gap = {theorems:.10g}"
    return _condition(ConditionName.TOLERANCE_AGAINST_EPSILON, holds, said, cure, needed_for)


def _tolerance(epsilon: float, horizon: int, margin: float, small: float) -> float:
    return margin * epsilon / (4 * horizon) + horizon**3 * small


def _at_most(value: float, limit: float) -> bool:
    return value <= limit + _ROUNDING * abs(limit)


def _ask_margin(needed: float, horizon: int) -> str:
    impossible = f", which is impossible because no margin exceeds the horizon {horizon}" if needed > horizon else ""
    return f"ask for a margin of at least {rounded_up(needed)}{impossible}"


# ---------------------------------------------------------------------------------- checks shared with the bounds' modules


def positive_number(name: str, value: float) -> float:
    number = finite_number(name, value)
    if number <= 0.0:
        raise InvalidInput(f"{name} is {number:g}; give a number above 0")
    return number


def margin_within(horizon: int, margin: float) -> float:
    number = finite_number("margin", margin)
    if not 0.0 < number <= horizon:
        raise InvalidInput(f"margin is {number:g}; give a number above 0 and at most the horizon {horizon}")
    return number
