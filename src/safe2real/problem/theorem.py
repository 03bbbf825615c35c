"""The conditions of Theorem 1 of the paper, its claims, and the settings that would mend a failing condition.

With horizon H, margin xi, gaps eps_s (calibrated) <= sigma_s (mismatch) and probability of failure delta, a run that stops
at the tolerance tau = xi eps / (4 H) + H^3 eps_s is safe throughout, ends within the paper's bounds, and leaves a model that
plans to within eps + 4 eps_s H^4 / xi for any reward, with probability 1 - delta.

A `Change` is a cure that is a number. It is given only if the value can be typed in, that is, lies in the setting's range.
Programs read name and value; the sentence is for people. A margin or a gap is a claim about the real system: a change of
one says that it is to be made only if it is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.validation import ROUNDING, finite_number, positive_integer, unit_number

_CLAIMS = ("margin", "calibrated_gap", "mismatch_gap")
_ONLY_IF_TRUE = " (claims about the real system only if they are true)"


@dataclass(frozen=True, slots=True)
class Change:
    """One setting to choose anew."""

    name: str
    """The setting: margin, calibrated_gap, mismatch_gap, tolerance, delta, epsilon, limit, threshold, protection."""
    value: float
    """One that would do; others on the same side of the number in the text would too."""
    text: str

    @property
    def only_if_true(self) -> bool:
        """Whether the setting is a claim about the real system, which must not be chosen to mend a condition."""
        return self.name in _CLAIMS

    def to_document(self) -> dict[str, object]:
        said = one_of((self,))
        return {"setting": self.name, "value": self.value, "text": said, "only_if_true": self.only_if_true}


def change(name: str, shown: str | float, text: str) -> Change:
    """The change to the value that was `shown` to people, which stands for {} in `text`."""
    return Change(name, float(shown), text.format(shown))


def one_of(changes: Sequence[Change], *others: str) -> str:
    """The changes, those of claims with a caveat, and what else would help, in one sentence."""
    proposed = ", or ".join(one.text for one in changes)
    proposed += _ONLY_IF_TRUE if any(one.only_if_true for one in changes) else ""
    return ", or ".join(text for text in (proposed, *others) if text)


_ROUNDING = 1e-12  # relative room for float rounding where a condition compares computed numbers
_MARGIN_FIRST = "give a positive margin first"
_LENGTH_ALONE = "; runs are safe and plans are certified without it, only the bound on the length of a run is gone"


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
    changes: tuple[Change, ...] = ()  # the cures that are numbers; each is one that its setting can have

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
    """Return tau = xi eps / (4 H) + H^3 eps_s: where a run stops so that planning is accurate (Theorem 1)."""
    horizon = positive_integer("horizon", horizon)
    epsilon, margin = positive_number("epsilon", epsilon), margin_within(horizon, margin)
    return _tolerance(epsilon, horizon, margin, unit_number("calibrated_gap", calibrated_gap))


def epsilon_of(tolerance: float, horizon: int, margin: float, calibrated_gap: float) -> float:
    """Return the epsilon whose `tolerance_for` is this tolerance; not above 0 where there is none."""
    return 4 * horizon * (tolerance - horizon**3 * calibrated_gap) / margin if margin > 0.0 else 0.0


def accuracy_of(tolerance: float, horizon: int, margin: float) -> float:
    """Return 2 H tau / xi + 2 tau: how far from the optimum planning can be after stopping at tau.

    Lemma "Connection between estimation error and CMDPs", which is stated for tau in (0, xi / 4].

    Raises:
        InvalidInput: the tolerance is above xi / 4, or an argument is out of its range.
    """
    horizon = positive_integer("horizon", horizon)
    tolerance, margin = positive_number("tolerance", tolerance), margin_within(horizon, margin)
    if not _at_most(tolerance, margin / 4):
        limit = rounded_down(margin / 4)
        raise InvalidInput(
            f"tolerance is {tolerance:.10g}; the lemma says nothing above margin / 4 = {limit}: lower it to that"
        )
    return 2 * horizon * tolerance / margin + 2 * tolerance


def check_conditions(
    *,
    epsilon: float,
    horizon: int,
    margin: float,
    calibrated_gap: float,
    mismatch_gap: float,
    delta: float,
    tolerance: float | None = None,
    largest_margin: float | None = None,
) -> Conditions:
    """Return every condition of Theorem 1 with its numbers and its fix; refuse only arguments that are no numbers.

    The conditions are not independent: for the theorem's own tolerance, epsilon <= H - 4 H^4 eps_s / xi and tau <= xi / 4
    say the same, and both fail with eps_s > xi / (4 H^3). At eps_s = xi / (4 H^3) itself, which the theorem admits, no
    epsilon is left. Safety rests on the first three alone. Whether the margin and the gaps are true of the real system
    cannot be checked here. A fix that changes one of them means: find a system, or a claim about it, for which the new value
    is true.

    Args:
        epsilon: how near to the optimum planning is to be.
        horizon: H.
        margin: xi.
        calibrated_gap: eps_s.
        mismatch_gap: sigma_s.
        delta: the probability of failure.
        tolerance: tau; the theorem's own, `tolerance_for(epsilon, ...)`, if left out.
        largest_margin: no fix asks for more; H minus the threshold where that is known, and H if left out.

    Raises:
        InvalidInput: an argument is no number.
    """
    horizon, margin = positive_integer("horizon", horizon), finite_number("margin", margin)
    epsilon, delta = finite_number("epsilon", epsilon), finite_number("delta", delta)
    small, large = finite_number("calibrated_gap", calibrated_gap), finite_number("mismatch_gap", mismatch_gap)
    theorems, chosen = _tolerance(epsilon, horizon, margin, small), tolerance is not None
    tolerance = theorems if tolerance is None else finite_number("tolerance", tolerance)
    cap = large if 0.0 <= large <= 1.0 else 1.0  # of calibrated gaps
    room = float(horizon) if largest_margin is None else finite_number("largest_margin", largest_margin)
    return Conditions(
        (
            _separation(small, large),
            _slater(margin, horizon, room),
            _confidence(delta),
            _calibration(small, margin, horizon, room, cap),
            _accuracy(epsilon, small, margin, horizon, room, cap),
            _tolerance_at_most_margin(tolerance, margin, room, chosen),
            _tolerance_above_residual(tolerance, small, margin, horizon, room, cap, chosen),
            _tolerance_of_theorem(tolerance, theorems, small, margin, horizon),
        )
    )


# -------------------------------------------------------------------------------------------------- each condition by itself


def _condition(
    name: ConditionName,
    holds: bool,
    explanation: str,
    needed_for: tuple[Guarantee, ...],
    changes: tuple[Change, ...] = (),
    cure: str = "",
) -> Condition:
    if holds:
        return Condition(name, True, explanation, "", needed_for)
    return Condition(name, False, explanation, cure or one_of(changes), needed_for, changes)


def _separation(small: float, large: float) -> Condition:
    changes: tuple[Change, ...]
    unsafe = ""
    if small < 0.0:
        changes = (change("calibrated_gap", "0", "raise calibrated_gap to {} or more: a distance is not negative"),)
    elif large > 1.0:
        changes = (change("mismatch_gap", "1", "lower mismatch_gap to {} or less: no TV distance exceeds it"),)
    else:
        lower = change("calibrated_gap", repr(large), "lower calibrated_gap to at most {}")
        raised = change("mismatch_gap", repr(small), "raise mismatch_gap to at least {}")
        changes = (*((lower,) if large >= 0.0 else ()), *((raised,) if small <= 1.0 else ()))
        unsafe = ": too large a mismatch_gap is unsafe"
    said = (
        f"calibrated_gap is {small:.10g}, mismatch_gap is {large:.10g}; needed is 0 <= calibrated_gap <= mismatch_gap <= 1"
    )
    return _condition(
        ConditionName.SEPARATION, 0.0 <= small <= large <= 1.0, said, _EVERY, changes, one_of(changes) + unsafe
    )


def _slater(margin: float, horizon: int, room: float) -> Condition:
    changes: tuple[Change, ...] = ()
    cure = "choose a baseline that keeps the constraint with room to spare, or ask for less"
    if margin > 0.0 and room > 0.0:
        text = "state a margin of at most {}: an episode leaves no more room"
        changes = (change("margin", rounded_down(room), text),)
    said = f"margin is {margin:.10g}; above 0 and at most the horizon {horizon} is needed"
    return _condition(ConditionName.MARGIN, 0.0 < margin <= horizon, said, _EVERY, changes, "" if changes else cure)


def _confidence(delta: float) -> Condition:
    said = f"delta is {delta:.10g}; strictly between 0 and 1 is needed"
    changes = (change("delta", "0.05", "choose the probability of failure you accept, e.g. {}"),)
    return _condition(ConditionName.DELTA, 0.0 < delta < 1.0, said, _EVERY, changes)


def _calibration(small: float, margin: float, horizon: int, room: float, cap: float) -> Condition:
    limit = margin / (4 * horizon**3)
    changes = (
        change("calibrated_gap", rounded_down(min(limit, cap)), "lower calibrated_gap to {}"),
        *_larger_margin(4 * horizon**3 * small, room),
    )
    first = _margin_first(margin, room)
    cure = first or one_of(changes)
    said = f"calibrated_gap is {small:.10g}; Theorem 1 needs at most margin / (4 H^3) = {rounded_down(limit)}"
    holds, needed_for = _at_most(small, limit), (Guarantee.TERMINATION,)
    return _condition(ConditionName.CALIBRATED_GAP, holds, said, needed_for, () if first else changes, cure)


def _accuracy(epsilon: float, small: float, margin: float, horizon: int, room: float, cap: float) -> Condition:
    said = f"epsilon is {epsilon:.10g}; above 0 and at most min(1, H - 4 H^4 calibrated_gap / margin)"
    if margin <= 0.0:
        said = f"{said} is needed, which has no meaning at a margin of {margin:.10g}"
        return _condition(ConditionName.EPSILON, False, said, _AFTERWARDS, cure=_MARGIN_FIRST)
    residual = 4 * horizon**4 * small / margin
    limit = min(1.0, horizon - residual)
    possible = 0.0 < epsilon <= 1.0
    target = epsilon if possible else 1.0
    left = horizon - target
    most = min(margin * left / (4 * horizon**4), cap)
    smaller = change("calibrated_gap", rounded_down(most), "lower calibrated_gap to {}")
    changes = (smaller, *(_larger_margin(4 * horizon**4 * small / left, room) if left > 0.0 else ()))
    cure = ""
    if _margin_first(margin, room):
        changes, cure = (), _margin_first(margin, room)
    elif limit <= 0.0:
        cure = f"no epsilon is small enough: for an epsilon of {target:.10g}, {one_of(changes)}"
    elif possible:
        changes = (change("epsilon", rounded_down(limit), "lower epsilon to {}"), *changes)
    else:
        changes = (change("epsilon", rounded_down(limit), "choose an epsilon above 0 and at most {}"),)
    holds = possible and _at_most(epsilon + residual, float(horizon))
    return _condition(ConditionName.EPSILON, holds, f"{said} = {rounded_down(limit)} is needed", _AFTERWARDS, changes, cure)


def _tolerance_at_most_margin(tolerance: float, margin: float, room: float, chosen: bool) -> Condition:
    limit = rounded_down(margin / 4)
    changes: tuple[Change, ...] = ()
    cure = _margin_first(margin, room) or ("" if chosen else "it follows from epsilon: mend that condition")
    if not cure:
        changes = (change("tolerance", limit, "choose a tolerance above 0 and at most {}"),)
    holds = tolerance > 0.0 and _at_most(tolerance, margin / 4)
    said = f"tolerance is {tolerance:.10g}; above 0 and at most margin / 4 = {limit} is needed"
    return _condition(ConditionName.TOLERANCE_AGAINST_MARGIN, holds, said, _AFTERWARDS, changes, cure)


def _tolerance_above_residual(
    tolerance: float, small: float, margin: float, horizon: int, room: float, cap: float, chosen: bool
) -> Condition:
    # the proof takes the simulator's residual, H^3 eps_s, off the certificate; the rest is the progress of an episode
    residual, most = horizon**3 * max(small, 0.0), margin / 4
    changes: tuple[Change, ...] = ()
    cure = "" if chosen else "it follows from margin and epsilon: mend those conditions"
    cure = cure or _margin_first(margin, room)
    if not cure:
        if float(rounded_down(most)) > max(residual, tolerance):  # no tolerance is larger than margin / 4
            text = f"raise tolerance above {rounded_up(residual)}, at most to {{}}"
            changes = (change("tolerance", rounded_down(most), text),)
        if tolerance > 0.0:
            below = min(min(tolerance, most) / horizon**3, cap)
            text = f"lower calibrated_gap below {rounded_down(below)}"
            changes += (Change("calibrated_gap", below / 2.0, text),)
        cure = one_of(changes) + ("" if residual < most else _LENGTH_ALONE)
    said = f"tolerance is {tolerance:.10g}; more than H^3 calibrated_gap = {rounded_up(residual)} is needed"
    name = ConditionName.TOLERANCE_AGAINST_CALIBRATED_GAP
    return _condition(name, tolerance > residual, said, (Guarantee.TERMINATION,), changes, cure)


def _tolerance_of_theorem(tolerance: float, theorems: float, small: float, margin: float, horizon: int) -> Condition:
    changes: list[Change] = []
    if theorems > 0.0 and _at_most(theorems, margin / 4):
        changes.append(change("tolerance", repr(theorems), "use a tolerance of {}"))
    meant = epsilon_of(tolerance, horizon, margin, small)
    if 0.0 < meant <= 1.0 and _at_most(tolerance, margin / 4):
        changes.append(change("epsilon", repr(meant), "state the epsilon that this tolerance stands for, {}"))
    cure = "" if changes else "mend the conditions above: the theorem's own tolerance is larger than margin / 4"
    holds = math.isclose(tolerance, theorems, rel_tol=ROUNDING)
    # a larger tolerance stops sooner and plans worse, a smaller one the other way round
    needed_for = _AFTERWARDS if holds else (Guarantee.ACCURACY if tolerance > theorems else Guarantee.TERMINATION,)
    said = f"tolerance is {tolerance:.10g}; Theorem 1 sets margin epsilon / (4 H) + H^3 calibrated_gap = {theorems:.10g}"
    return _condition(ConditionName.TOLERANCE_AGAINST_EPSILON, holds, said, needed_for, tuple(changes), cure)


def _tolerance(epsilon: float, horizon: int, margin: float, small: float) -> float:
    return margin * epsilon / (4 * horizon) + horizon**3 * small


def _at_most(value: float, limit: float) -> bool:
    return value <= limit + _ROUNDING * abs(limit)


def _larger_margin(needed: float, room: float) -> tuple[Change, ...]:
    """The cure to ask for such a margin, where there is one."""
    shown = rounded_up(needed)
    return (change("margin", shown, "ask for a margin of at least {}"),) if float(shown) <= room else ()


def _margin_first(margin: float, room: float) -> str:
    """What to mend before any number follows from the margin; empty where it can be one."""
    if margin <= 0.0:
        return _MARGIN_FIRST
    return "" if _at_most(margin, room) else "state a margin that is possible first"


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
