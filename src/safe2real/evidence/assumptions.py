"""Assumptions behind a guarantee, and doubts that void it: the statements on certificates, each with its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from safe2real.model.constraint_text import count, rounded_up
from safe2real.model.validation import Floats
from safe2real.problem.problem import Problem
from safe2real.radii import ALL
from safe2real.refinements import BelowGap, SequentialClearing, find
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode

if TYPE_CHECKING:
    from safe2real.evidence.baseline_margin import BaselineTrust
    from safe2real.evidence.evidence import Evidence

_NAMED = 3  # rows that a message lists


def doubts_of(evidence: Evidence) -> tuple[Doubt, ...]:
    """Why nothing is a guarantee; empty when it is one."""
    problem, settings = evidence.problem, evidence.problem.settings
    found = _doubts_of_estimate(problem, evidence)
    if not settings.radius.certified:
        found.append(Doubt(DoubtCode.RADIUS_SCALED, f"the radius is {settings.radius}"))
    if settings.bonus_scale < 1.0:
        found.append(Doubt(DoubtCode.BONUS_SCALED, f"the bonus is {settings.bonus_scale:g} times the literal one"))
    found += margin_doubts_of(problem, evidence.trust)
    if outside := max(evidence.outside_support, evidence.announced_outside):
        found.append(Doubt(DoubtCode.LEFT_SUPPORT, f"the data hold {count(outside, 'transition')} {evidence.ruled_out}"))
    found += _departures(evidence)
    refuted = int(evidence.belief.refuted.sum())
    if refuted and settings.certified:  # with a heuristic radius it would show nothing
        these = _of_these_within(problem, evidence)
        rows = f"{count(refuted, 'row')}{these}, {_which(problem, evidence)}"
        text = f"the data contradict an assumption about {rows}: see the mismatch map"
        found.append(Doubt(DoubtCode.ROWS_CONTRADICTED, text))
    return tuple(found)


def _which(problem: Problem, evidence: Evidence) -> str:
    """The first rows that are contradicted, by name."""
    places, legend = np.argwhere(evidence.refuted), problem.simulator.legend
    named = [
        legend.row(place[-2], place[-1]) + (f" at step {place[0]}" if len(place) == 3 else "")
        for place in places[:_NAMED].tolist()
    ]
    return f"{'; '.join(named)}{' and others' if len(places) > _NAMED else ''}"


def _departures(evidence: Evidence) -> list[Doubt]:
    """Episodes that left the model, and those that broke off with an unknown next state."""
    found, left = [], evidence.departed - sum(evidence.broken_off.values())
    if left > 0:
        found.append(Doubt(DoubtCode.LEFT_MODEL, f"{count(left, 'episode')} went where the model has no state"))
    for cause, episodes in evidence.broken_off.items():
        text = f"{count(episodes, 'episode')} broke off, and what came next is not known to be in the model: {cause}"
        found.append(Doubt(DoubtCode.LEFT_MODEL, text, cause))
    return found


def margin_doubts_of(problem: Problem, trust: BaselineTrust) -> tuple[Doubt, ...]:
    """Return the doubts about the baseline's margin, which pays for every deployment; the only ones about a trial."""
    return tuple(
        Doubt(DoubtCode.MARGIN_REFUTED, f"the data refute the baseline's margin for {name}: stop the machine", name)
        # a run that ignores constraints tests no margin
        for name, is_refuted in zip(problem.simulator.labels, trust.refuted, strict=False)
        if is_refuted
    )


def _doubts_of_estimate(problem: Problem, evidence: Evidence) -> list[Doubt]:
    """Why an estimated simulator makes everything worth less than certified."""
    rows, gap, found = problem.estimated, problem.settings.calibrated_gap, []
    if rows is None or not evidence.reuses_simulator:
        return []
    if not rows.certified:
        found.append(Doubt(DoubtCode.SIMULATOR_ESTIMATED, "the simulator was estimated with a heuristic radius"))
    if gap < rows.worst:
        text = f"calibrated_gap, {gap:g}, does not cover the accuracy {rounded_up(rows.worst)} of the estimated simulator"
        found.append(Doubt(DoubtCode.GAP_NOT_COVERED, text))
    return found


def assumptions_of(evidence: Evidence) -> tuple[Assumption, ...]:
    """Return the assumptions of the settings, the stated margins, the declarations and the user's further statements."""
    problem, codes = evidence.problem, AssumptionCode
    settings, simulator = problem.settings, problem.simulator
    found = [*_within_assumed(problem), *_margins_assumed(problem, evidence.stated)]
    # With equal gaps every distance is on one side: nothing is assumed, and a row is cleared only once that is proved.
    if evidence.reuses_simulator and settings.mismatch_gap > settings.calibrated_gap:
        text = (
            f"every row of the real system is within {settings.calibrated_gap:g} of the simulator in TV distance "
            f"or at least {settings.mismatch_gap:g} away"
        )
        clearing = find(settings.refinements, SequentialClearing) or find(settings.refinements, BelowGap)
        if clearing is not None and clearing.protection > 1.0:
            least = rounded_up(settings.mismatch_gap / clearing.protection)
            text += f" (rows that are {least} away or more are not cleared either)"
        elif clearing is not None:
            text += " (rows that are wrong by less can be cleared, and nothing may object: never overstate it)"
        found.append(Assumption(codes.SEPARATION, text))
    text = "where the real system goes next depends on its state, the action and the step alone (Markov)"
    found.append(Assumption(codes.MARKOV, text))
    if simulator.kernel.is_stationary:
        found.append(Assumption(codes.STATIONARY, "the real system's rows do not change with the step"))
    found.append(Assumption(codes.COMPLETE, "the real system has no state, end or cost besides the model's"))
    text = "episodes start as the simulator's do and have exactly its horizon; the state after the last step is "
    text += "counted" if simulator.counts_end else "not counted"
    found.append(Assumption(codes.START_AND_HORIZON, text))
    found += evidence.support_assumed
    if evidence.belief.known.any():
        text = f"the declaration of {count(int(evidence.belief.known.sum()), 'known row')} is exact"
        found.append(Assumption(codes.KNOWN_ROWS, text))
    found += [COUNTED, FIXED]
    text = f"an event of probability at least {1.0 - settings.delta:g} over the whole run holds"
    found.append(Assumption(codes.EVENT, text))
    if settings.radius.certified and type(settings.radius) not in ALL:
        text = f"{settings.radius}, which is from outside the package, covers as it states"
        found.append(Assumption(codes.EXTENSION, text, settings.radius.name))
    return (*found, *_faults_assumed(evidence.faults), *_estimate_assumed(problem, evidence))


def trial_assumptions_of(problem: Problem, margins: Floats, number: int, logged: int) -> tuple[Assumption, ...]:
    """Return the assumptions of bounds from one policy's returns, in trial `number` with `logged` episodes from logs."""
    codes, sure = AssumptionCode, f"an event of probability at least {1.0 - problem.settings.delta:g}"
    found = [
        *_margins_assumed(problem, margins),
        INDEPENDENT,
        COUNTED,
        Assumption(codes.EVENT, f"{sure} holds, over this trial (number {number}) and all others that share delta"),
    ]
    if logged:
        text = f"the {logged} logged episodes of the policy on trial had no part in choosing it"
        found.append(Assumption(codes.SELECTION, text, "trial"))
    return tuple(found)


INDEPENDENT = Assumption(
    AssumptionCode.INDEPENDENT,
    "episodes of one policy are independent of each other and alike: nothing that matters changes from one to the next",
)
COUNTED = Assumption(AssumptionCode.COUNTED, "every episode that is run is counted, whatever happens in it")
FIXED = Assumption(
    AssumptionCode.FIXED,
    "the simulator, the gaps and the declared support and ties were fixed before the counted episodes were collected, or "
    "without looking at them",
)


def _margins_assumed(problem: Problem, margins: Floats) -> list[Assumption]:
    code = AssumptionCode.MARGIN
    return [
        Assumption(code, f"the baseline's {words.margin(float(xi))} on the real system", words.label)
        for words, xi in zip(problem.simulator.wordings, margins, strict=True)
    ]


def _within_assumed(problem: Problem) -> list[Assumption]:
    """That rows are as near the real ones as the user states; sets are cut down to that, so it is said first."""
    if problem.within is None:
        return []
    stated = _stated_within(problem)
    if not stated.any():
        return []
    furthest = float(problem.within_rows()[stated].max())
    text = (
        f"the simulator's rows are within the stated distances of the real ones: {count(int(stated.sum()), 'row')}, "
        f"at most {furthest:g} in TV distance"
    )
    return [Assumption(AssumptionCode.WITHIN, text)]


def _stated_within(problem: Problem) -> NDArray[np.bool_]:
    """[R] rows of which a distance was stated that says something; a known row is exact whatever is stated."""
    return np.asarray((problem.within_rows() < 1.0) & ~problem.known_rows())


def _of_these_within(problem: Problem, evidence: Evidence) -> str:
    """Return a clause with the number of refuted rows that were declared `within` a distance, or an empty text."""
    number = int((evidence.belief.refuted & _stated_within(problem)).sum())
    return f", of which {number} were stated to be within a distance of the simulator's (`within`)" if number else ""


def _faults_assumed(faults: Mapping[str, int]) -> tuple[Assumption, ...]:
    """The statement of the user that each cause is unrelated to the outcome: cause -> episodes that it cut short."""
    return tuple(
        Assumption(
            AssumptionCode.FAULTS,
            f"{count(episodes, 'episode')} cut short by {cause}, which is unrelated to the steps that would have followed",
            cause,
        )
        for cause, episodes in faults.items()
    )


def _estimate_assumed(problem: Problem, evidence: Evidence) -> tuple[Assumption, ...]:
    """The assumptions behind an estimated simulator."""
    rows, gap = problem.estimated, problem.settings.calibrated_gap
    if rows is None or not evidence.reuses_simulator:
        return ()
    sure = f"with probability at least {1.0 - rows.delta:g}, in addition to delta" if rows.certified else "HEURISTICALLY"
    worst = rounded_up(rows.worst)
    text = f"the rows of the simulator, which were estimated, are within {worst} of those they stand for, {sure}"
    if gap < rows.worst:
        text += f" (calibrated_gap, {gap:g}, does not cover that)"
    return (Assumption(AssumptionCode.ESTIMATED, text),)
