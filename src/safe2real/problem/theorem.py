"""The conditions of Theorem 1 of the paper, its claims, and the settings that would mend a failing condition.

With horizon H, margin xi, gaps eps_s (calibrated) <= sigma_s (mismatch) and probability of failure delta, a run that stops
at the tolerance tau = xi eps / (4 H) + H^3 eps_s is safe throughout, ends within the paper's bounds, and leaves a model that
plans to within eps + 4 eps_s H^4 / xi for any reward, with probability 1 - delta.

A `Change` is a cure that is a number. It is given only if the value can be typed in, that is, lies in the setting's range.
Programs read name and value; the sentence is for people. A margin or a gap is a claim about the real system: a change of
one says that it is to be made only if it is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import rounded_down, rounded_up
from safe2real.model.validation import finite_number, positive_integer, unit_number

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
_LENGTH_ALONE = "; runs are safe and plans are certified without it, only the bound on the length of a run is gone"


class Guarantee(StrEnum):
    """The three claims of Theorem 1, which do not all rest on the same conditions."""

    SAFETY = "safe exploration"
    ACCURACY = "planning accuracy"
    TERMINATION = "termination bound"


class ConditionName(StrEnum):
    """The conditions of Theorem 1 that valid settings can miss."""

    CALIBRATED_GAP = "calibrated_gap"
    EPSILON = "epsilon"
    TOLERANCE_AGAINST_MARGIN = "tolerance against margin"
    TOLERANCE_AGAINST_CALIBRATED_GAP = "tolerance against calibrated_gap"


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


def tolerance_for(epsilon: float, *, horizon: int, margin: float, calibrated_gap: float) -> float:
    """Return tau = xi eps / (4 H) + H^3 eps_s: where a run stops so that planning is accurate (Theorem 1)."""
    horizon = positive_integer("horizon", horizon)
    epsilon, margin = positive_number("epsilon", epsilon), margin_within(horizon, margin)
    return margin * epsilon / (4 * horizon) + horizon**3 * unit_number("calibrated_gap", calibrated_gap)


def epsilon_of(tolerance: float, horizon: int, margin: float, calibrated_gap: float) -> float:
    """Return the epsilon whose `tolerance_for` is this tolerance; not above 0 where there is none."""
    return 4 * horizon * (tolerance - horizon**3 * calibrated_gap) / margin


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
    tolerance: float,
    horizon: int,
    margin: float,
    calibrated_gap: float,
    mismatch_gap: float,
    largest_margin: float | None = None,
) -> tuple[Condition, ...]:
    """Check the conditions of Theorem 1 that valid settings can miss, in the order in which to mend them.

    Safety rests on none of them: it needs 0 < margin <= H, 0 <= calibrated_gap <= mismatch_gap <= 1 and 0 < delta < 1, which
    `Settings` and `Problem` check. The conditions are not independent: epsilon <= H - 4 H^4 eps_s / xi and tau <= xi / 4 say
    the same, and both fail with eps_s > xi / (4 H^3). At eps_s = xi / (4 H^3) itself, which the theorem admits, no epsilon
    is left. Whether the margin and the gaps are true of the real system cannot be checked here. A fix that changes one of
    them means: find a system, or a claim about it, for which the new value is true.

    Args:
        tolerance: tau; the condition on epsilon is about the one that it stands for (`epsilon_of`), or 1, the largest.
        horizon: H.
        margin: xi.
        calibrated_gap: eps_s.
        mismatch_gap: sigma_s.
        largest_margin: no fix asks for more; H minus the threshold where that is known, and H if left out.

    Returns:
        The conditions on the calibrated gap, on epsilon, and two on the tolerance.

    Raises:
        InvalidInput: an argument is out of its range, or the gaps are swapped.
    """
    horizon = positive_integer("horizon", horizon)
    tau, margin = positive_number("tolerance", tolerance), margin_within(horizon, margin)
    small, large = unit_number("calibrated_gap", calibrated_gap), unit_number("mismatch_gap", mismatch_gap)
    if small > large:
        raise InvalidInput(f"calibrated_gap is {small:g}, above mismatch_gap, {large:g}; give it at most that")
    room = float(horizon) if largest_margin is None else finite_number("largest_margin", largest_margin)
    return (
        _calibration(small, margin, horizon, room, large),
        _accuracy(tau, small, margin, horizon, room, large),
        _tolerance_at_most_margin(tau, margin),
        _tolerance_above_residual(tau, small, margin, horizon, large),
    )


def _condition(
    name: ConditionName,
    holds: bool,
    explanation: str,
    needed_for: tuple[Guarantee, ...],
    changes: tuple[Change, ...],
    *others: str,
) -> Condition:
    if holds:
        return Condition(name, True, explanation, "", needed_for)
    return Condition(name, False, explanation, one_of(changes) + "".join(others), needed_for, changes)


def _calibration(small: float, margin: float, horizon: int, room: float, large: float) -> Condition:
    limit = margin / (4 * horizon**3)
    changes = (
        change("calibrated_gap", rounded_down(min(limit, large)), "lower calibrated_gap to {}"),
        *_larger_margin(4 * horizon**3 * small, room),
    )
    said = f"calibrated_gap is {small:.10g}; Theorem 1 needs at most margin / (4 H^3) = {rounded_down(limit)}"
    holds, needed_for = _at_most(small, limit), (Guarantee.TERMINATION,)
    return _condition(ConditionName.CALIBRATED_GAP, holds, said, needed_for, changes)


def _accuracy(tau: float, small: float, margin: float, horizon: int, room: float, large: float) -> Condition:
    meant = epsilon_of(tau, horizon, margin, small)
    epsilon = min(1.0, meant) if meant > 0.0 else 1.0
    if meant <= 0.0:
        said = f"no epsilon belongs to the tolerance {tau:.4g}; the largest one, 1, is looked at instead"
    else:
        said = f"the tolerance {tau:.4g} stands for an epsilon of {meant:.4g}"
        said += "; the largest one, 1, is looked at instead" if meant > 1.0 else ""
    residual, left = 4 * horizon**4 * small / margin, horizon - epsilon
    most = min(margin * left / (4 * horizon**4), large)
    changes = (
        change("calibrated_gap", rounded_down(most), "lower calibrated_gap to {}"),
        *(_larger_margin(4 * horizon**4 * small / left, room) if left > 0.0 else ()),
    )
    limit = rounded_down(min(1.0, horizon - residual))
    said += f"; above 0 and at most min(1, H - 4 H^4 calibrated_gap / margin) = {limit} is needed"
    return _condition(ConditionName.EPSILON, _at_most(epsilon + residual, horizon), said, _AFTERWARDS, changes)


def _tolerance_at_most_margin(tau: float, margin: float) -> Condition:
    limit = rounded_down(margin / 4)
    changes = (change("tolerance", limit, "choose a tolerance above 0 and at most {}"),)
    said = f"tolerance is {tau:.10g}; above 0 and at most margin / 4 = {limit} is needed"
    return _condition(ConditionName.TOLERANCE_AGAINST_MARGIN, _at_most(tau, margin / 4), said, _AFTERWARDS, changes)


def _tolerance_above_residual(tau: float, small: float, margin: float, horizon: int, large: float) -> Condition:
    # the proof takes the simulator's residual, H^3 eps_s, off the certificate; the rest is the progress of an episode
    residual, most = horizon**3 * small, margin / 4
    changes: tuple[Change, ...] = ()
    if float(rounded_down(most)) > max(residual, tau):  # no tolerance is larger than margin / 4
        text = f"raise tolerance above {rounded_up(residual)}, at most to {{}}"
        changes = (change("tolerance", rounded_down(most), text),)
    below = min(min(tau, most) / horizon**3, large)
    changes += (Change("calibrated_gap", below / 2.0, f"lower calibrated_gap below {rounded_down(below)}"),)
    said = f"tolerance is {tau:.10g}; more than H^3 calibrated_gap = {rounded_up(residual)} is needed"
    name, needed_for = ConditionName.TOLERANCE_AGAINST_CALIBRATED_GAP, (Guarantee.TERMINATION,)
    return _condition(name, tau > residual, said, needed_for, changes, "" if residual < most else _LENGTH_ALONE)


def _at_most(value: float, limit: float) -> bool:
    return value <= limit + _ROUNDING * abs(limit)


def _larger_margin(needed: float, room: float) -> tuple[Change, ...]:
    """The cure to ask for such a margin, where there is one."""
    shown = rounded_up(needed)
    return (change("margin", shown, "ask for a margin of at least {}"),) if float(shown) <= room else ()


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
