"""Checks of the baseline and of the limits: exact values, rollouts, and the range that policies can reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from safe2real.evidence.mean_bounds import values_needed
from safe2real.model.cmdp import CMDP, without_steps
from safe2real.model.constraint_text import Wording, count, roughly, rounded_down, rounded_up
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.serialization import within
from safe2real.model.trajectory import Trajectory, check_actions, check_trajectory
from safe2real.model.validation import ROUNDING
from safe2real.planning.evaluate import constraint_values, occupancy, value_functions
from safe2real.planning.solve import solve
from safe2real.preflight.conditions import without_constraints
from safe2real.preflight.findings import EVERY_CLAIM, Code, Finding, Level
from safe2real.preflight.gaps import rollout_findings
from safe2real.problem.problem import Problem
from safe2real.problem.theorem import Change, change, one_of
from safe2real.systems.measure import estimate_margin, spans


@dataclass(frozen=True, slots=True)
class Range:
    """The values of one constraint on one axis, in units of V_c (a sum over one episode): to compare and to draw."""

    wording: Wording  # how it was written: texts use these words
    threshold: float
    margin: float  # stated
    lowest: float  # of any policy on the simulator
    highest: float
    baseline: float  # on the simulator
    baseline_real: float  # on the reality that is rehearsed
    rollouts: tuple[float, float] | None  # confidence interval of the baseline on the real system
    rollouts_expected: int | None = None  # in all, to confirm the margin if they go on as so far; None: it would not be

    @property
    def name(self) -> str:
        """The constraint's label."""
        return self.wording.label

    @property
    def largest_threshold(self) -> float | None:
        """The largest threshold that leaves the baseline its stated margin, on simulator and rehearsed reality.

        None where that threshold would constrain nothing.
        """
        return self.threshold_below(min(self.baseline, self.baseline_real))

    @property
    def kept(self) -> bool:
        """Whether the baseline has its stated margin on the rehearsed reality."""
        return self.baseline_real >= self.threshold + self.margin - ROUNDING

    def threshold_below(self, value: float) -> float | None:
        """Return the threshold that lies the stated margin below `value`; None if every policy meets it."""
        return value - self.margin if value - self.margin > self.lowest + ROUNDING else None


def check_rollouts(problem: Problem, rollouts: Sequence[Trajectory], what: str) -> None:
    """Refuse episodes that the baseline cannot have made: another policy's margin says nothing about its own."""
    for i, episode in enumerate(rollouts):
        place = f"episode {i + 1} of {what}"
        with within(place):
            checked = check_trajectory(problem.simulator, episode)
        unlike = f"{place} is not of the baseline, whose margin is checked (give its episodes alone)"
        check_actions(problem.baseline, checked, unlike)


def ranges_of(problem: Problem, real: Kernel, rollouts: Sequence[Trajectory] = ()) -> tuple[Range, ...]:
    """Return, for each constraint, the range that policies reach on the simulator, and the baseline's values."""
    model, margins, delta = problem.simulator, problem.margins, problem.settings.delta
    free = without_constraints(model)
    own = constraint_values(model, problem.baseline)
    there = constraint_values(model.with_kernel(real), problem.baseline)
    estimate, declared = None, _declared(problem)
    if rollouts and model.num_constraints:
        if rollout_findings(problem, rollouts):  # which refute it
            declared = {}
        estimate = estimate_margin(model, rollouts, delta=delta, **declared)
    ranges = []
    for k, (wording, (low, high)) in enumerate(zip(model.wordings, spans(model, **declared), strict=True)):
        utility, measured, expected = without_steps(model.utilities[k]), None, None
        if estimate is not None:
            measured = float(estimate.lower_bounds[k]), float(estimate.upper_bounds[k])
            seen = float(estimate.means[k]), float(estimate.spreads[k]), float(model.thresholds[k] + margins[k])
            expected = values_needed(*seen, delta / model.num_constraints, low=low, high=high)
        ranges.append(
            Range(
                wording=wording,
                threshold=float(model.thresholds[k]),
                margin=float(margins[k]),
                lowest=-solve(free, -utility).value,
                highest=solve(free, utility).value,
                baseline=float(own[k]),
                baseline_real=float(there[k]),
                rollouts=measured,
                rollouts_expected=expected,
            )
        )
    return tuple(ranges)


def _declared(problem: Problem) -> dict[str, Any]:
    """Return the declarations that narrow the range of a sum (`systems.spans`)."""
    return {"known": problem.known_rows(), "support": problem.support}


def threshold_findings(problem: Problem, ranges: Sequence[Range]) -> list[Finding]:
    """Check which limits and thresholds are achievable, alone and together."""
    findings = []
    for one in ranges:
        words, limit = one.wording, one.wording.bound(one.threshold)
        # The best that policies reach: the highest V_c, which is the lowest cost.
        best, worst = words.number(one.highest), words.number(one.lowest)
        looser, tighter, below, above = (
            ("raise", "lower", "below", "above") if words.is_cost else ("lower", "raise", "above", "below")
        )
        named = ("threshold", "lowest", "highest", "baseline", "largest_threshold")
        level, cure, numbers = Level.OK, "", {name: getattr(one, name) for name in named}
        changes: tuple[Change, ...] = ()
        reach = f"on the simulator policies reach {words.quantity} from {min(best, worst):.4g} to {max(best, worst):.4g}"
        if one.threshold > one.highest + ROUNDING:
            level, cure = Level.FAILURE, "state another constraint: every policy has the worst value that it can have"
            if one.highest > ROUNDING:
                changes = (Change(words.bound_word, best, f"{looser} it, {above} {words.loose(one.highest)}"),)
                cure = one_of(changes)
            said = f"{reach}, so no policy satisfies the {limit}"
        elif one.threshold <= one.lowest + ROUNDING:
            level = Level.WARNING
            if one.highest > one.lowest + ROUNDING:  # else all policies are alike, and no number tells them apart
                between = words.number((one.lowest + one.highest) / 2.0)
                end = rounded_down(worst) if words.is_cost else rounded_up(worst)
                changes = (Change(words.bound_word, between, f"{tighter} it, {below} {end}"),)
                cure = one_of(changes)
            said = f"{reach}, so every policy satisfies the {limit} and it constrains nothing there"
        else:
            said = f"{reach}; the {words.bound_word} is {words.number(one.threshold):.4g}"
            if one.largest_threshold is not None:
                least, kept = words.loose(one.largest_threshold), f"the baseline its margin of {one.margin:.4g}"
                if one.largest_threshold >= one.threshold:
                    said += f", and {'down' if words.is_cost else 'up'} to {least} would leave {kept}"
                else:
                    said += f", and it takes {least} or {'more' if words.is_cost else 'less'} to leave {kept}"
        title = f"{words.bound_word} of {one.name}"
        findings.append(Finding(Code.THRESHOLD, level, said, cure, numbers, one.name, (), changes, title))
    model = problem.simulator
    if len(ranges) > 1:
        together = solve(model, np.zeros((model.num_states, model.num_actions)))
        if together.is_feasible:
            findings.append(Finding(Code.THRESHOLDS_TOGETHER, Level.OK, "one policy meets all of them on the simulator"))
        else:
            said = f"no policy meets all of them on the simulator; the best misses one by {rounded_up(together.shortfall)}"
            loosened = sorted({one.wording.loosen for one in ranges})
            cure = f"{' or '.join(loosened)}, by {rounded_up(together.shortfall)} in all, or drop a constraint"
            missed = {"shortfall": float(together.shortfall)}
            findings.append(Finding(Code.THRESHOLDS_TOGETHER, Level.FAILURE, said, cure, missed))
    return findings


def baseline_findings(
    problem: Problem, ranges: Sequence[Range], real: Kernel, *, guessed: bool, rollouts: int = 0
) -> list[Finding]:
    """Check whether the baseline has its stated margin; the best evidence decides: rollouts, then a stated reality."""
    findings = []
    for k, one in enumerate(ranges):
        needed = one.threshold + one.margin
        if one.rollouts is not None:
            findings.append(_by_rollouts(one, rollouts, problem.settings.delta))
        confirmed = one.rollouts is not None and one.rollouts[0] >= needed - ROUNDING
        overruled = ", though its rollouts confirm it" if confirmed else ""
        there = Code.BASELINE_ON_GUESSED_REALITY if guessed else Code.BASELINE_ON_STATED_REALITY
        findings.append(_exact(there, one, one.baseline_real, overruled if guessed else ""))
        decided = overruled or ("" if guessed else "; the reality decides")
        findings.append(_exact(Code.BASELINE_ON_SIMULATOR, one, one.baseline, decided))
        if one.rollouts is None and one.kept:
            findings.append(_rollouts_needed(problem, real, k, one))
    return findings


def _exact(code: Code, one: Range, value: float, overruled: str) -> Finding:
    slack = value - one.threshold
    numbers = {"value": value, "threshold": one.threshold, "margin": slack, "stated_margin": one.margin}
    words = one.wording
    said = f"{words.quantity} is {words.number(value):.6g}, {words.beside(value, one.threshold)}"
    if slack >= one.margin - ROUNDING:
        more = ": a larger one, where it is true, makes runs shorter" if slack > 1.5 * one.margin else ""
        return Finding(code, Level.OK, f"{said}; the stated margin is {one.margin:.4g}{more}", "", numbers, one.name)
    said = f"{said}: the baseline fails its stated margin of {one.margin:.4g}"
    if overruled:
        return Finding(code, Level.WARNING, f"{said}{overruled}", "", numbers, one.name)
    lower = one.threshold_below(value)
    changes = _smaller_margin(slack)
    if lower is not None:
        changes += (change(words.bound_word, words.loose(lower), f"{words.loosen} to {{}}"),)
    cure = one_of(changes, "choose a safer baseline" + ("" if slack > 0.0 else ": this one is unsafe itself"))
    return Finding(code, Level.FAILURE, said, cure, numbers, one.name, EVERY_CLAIM, changes)


def _by_rollouts(one: Range, episodes: int, delta: float) -> Finding:
    low, high = one.rollouts or (0.0, 0.0)
    code, needed = Code.BASELINE_BY_ROLLOUTS, one.threshold + one.margin
    numbers: dict[str, Any] = {
        "lower": low,
        "upper": high,
        "margin": low - one.threshold,
        "episodes": episodes,
        "delta": delta,
    }
    words = one.wording
    between = sorted((words.number(low), words.number(high)))
    said = (
        f"{count(episodes, 'episode')} put {words.quantity} between {rounded_down(between[0])} and {rounded_up(between[1])} "
        f"(each side with probability {1.0 - delta:g})"
    )
    if low >= needed - ROUNDING:
        said = f"{said}: the margin of {one.margin:.4g} is confirmed, {rounded_down(low - one.threshold)} would be too"
        return Finding(code, Level.OK, said, "", numbers, one.name)
    smaller = _smaller_margin(low - one.threshold)
    if high < needed - ROUNDING:
        cure = one_of(smaller) or f"choose a safer baseline, or {words.loosen}"
        said = f"{said}: the baseline fails its stated margin of {one.margin:.4g}"
        return Finding(code, Level.FAILURE, said, cure, numbers, one.name, EVERY_CLAIM, smaller)
    said = f"{said}: the margin of {one.margin:.4g} is neither confirmed nor refuted"
    expected = one.rollouts_expected
    more = "roll the baseline out more often"
    if expected is None:
        more += ": as it has gone so far, its mean does not have the margin"
    else:
        more += f", {roughly(max(expected, episodes + 1))} times in all if it goes on as so far"
        more += "; you may look after each of them"
    numbers["rollouts_expected"] = expected
    return Finding(code, Level.WARNING, said, one_of((), more, one_of(smaller)), numbers, one.name, (), smaller)


def _smaller_margin(slack: float) -> tuple[Change, ...]:
    """Return the change to the margin that the baseline has, if it is positive."""
    shown = rounded_down(slack)
    return (change("margin", shown, "state a margin of at most {}"),) if slack > 0.0 and float(shown) > 0.0 else ()


def _rollouts_needed(problem: Problem, real: Kernel, k: int, one: Range) -> Finding:
    model, delta = problem.simulator.with_kernel(real), problem.settings.delta
    spread, slack = spread_of(model, problem.baseline, k), one.baseline_real - one.threshold - one.margin
    low, high = spans(problem.simulator, **_declared(problem))[k]
    needed, half = (
        values_needed(one.baseline_real, spread, one.threshold + share, delta / model.num_constraints, low=low, high=high)
        for share in (one.margin, one.margin / 2.0)
    )
    in_half = "" if half is None else f"; {roughly(half)} confirm half of it"
    numbers = {"rollouts": needed, "rollouts_for_half": half, "spread": spread, "slack": slack}
    if needed is None:
        said = f"the stated margin {one.margin:.4g} is all that the baseline has there, so no number of rollouts confirms it"
        text = f"state a margin below {rounded_down(one.margin)} that rollouts can confirm"
        changes = (Change("margin", one.margin / 2.0, text),)
        cure = one_of(changes)
        return Finding(Code.ROLLOUTS_NEEDED, Level.WARNING, said + in_half, cure, numbers, one.name, changes=changes)
    said = (
        f"{roughly(needed, 'episode')} of the baseline on the real system are expected to confirm {one.margin:.4g} with "
        f"probability {1.0 - delta:g} if its {one.wording.quantity} there is {one.wording.number(one.baseline_real):.4g}, "
        f"looked at as often as you like{in_half}"
    )
    return Finding(Code.ROLLOUTS_NEEDED, Level.OK, said, "", numbers, one.name)


def spread_of(model: CMDP, policy: MarkovPolicy, k: int) -> float:
    """Return the exact standard deviation of the sum of constraint `k` over an episode.

    The expected sum of an episode changes at every step by c + V(next state) - V(state). These changes are uncorrelated, so
    their mean squares add up to the variance.
    """
    horizon, pairs = model.horizon, model.num_states * model.num_actions
    utility = np.broadcast_to(model.utilities[k].reshape(-1, pairs), (horizon, pairs))
    values = value_functions(model, policy, utility.reshape(model.shape))  # the end too, where it counts
    visits = occupancy(model, policy).reshape(horizon, pairs)
    rows, successors, shares = model.kernel.transitions()
    pair, per_step = rows % pairs, not model.kernel.is_stationary
    variance = float(model.start @ (values[0] - model.start @ values[0]) ** 2)
    for step in (rows // pairs,) if per_step else range(horizon):
        change = utility[step, pair] + values[step + 1, successors] - values[step, pair // model.num_actions]
        variance += float((visits[step, pair] * shares * change**2).sum())
    return math.sqrt(variance)
