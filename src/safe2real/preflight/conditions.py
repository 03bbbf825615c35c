"""Which guarantees can hold: the library's own checks, the conditions of Theorem 1, and the smallest reachable bound."""

from __future__ import annotations

import numpy as np

from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.methods.for_rewards import ForRewards
from safe2real.methods.sim_to_real import spans_of
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count, rounded_down, rounded_up
from safe2real.planning.solve import solve
from safe2real.preflight.findings import EVERY_CLAIM, Code, Finding, Level
from safe2real.problem.problem import Problem
from safe2real.problem.theorem import (
    Change,
    Condition,
    ConditionName,
    Guarantee,
    accuracy_of,
    change,
    check_conditions,
    one_of,
)
from safe2real.refinements import BelowGap, SequentialClearing, find
from safe2real.standing import DoubtCode, Standing

NO_CONSTRAINT = "no constraint: nothing is promised about safety"
_CERTIFIED_BY = {  # cures by doubt, for doubts that exist before any data
    DoubtCode.RADIUS_SCALED: "use a certified radius",
    DoubtCode.BONUS_SCALED: "set bonus_scale = 1",
    DoubtCode.SIMULATOR_ESTIMATED: "estimate the simulator with a certified radius",
    DoubtCode.GAP_NOT_COVERED: "raise calibrated_gap to the accuracy of the estimated rows, or sample them more",
    DoubtCode.CONSTRAINTS_IGNORED: "use a method that keeps to the constraints",
}


def first_learner(problem: Problem, method: Method) -> tuple[Learner, Finding]:
    """Return a learner without data, and a finding on whether its deployments will be certified.

    Raises:
        InvalidInput: the method does not fit the problem.
    """
    learner = Learner(problem, method, warm_start=False, trust_margin=True)  # a lost margin is a finding of its own
    found = learner.doubts()
    doubts, codes = "; ".join(map(str, found)), [one.code for one in found]
    if learner.standing is Standing.REFUTED:
        said = f"the statements contradict each other before any data: {doubts}"
        return learner, Finding(Code.LIBRARY, Level.FAILURE, said, "mend what fails below", affects=EVERY_CLAIM)
    if learner.standing is not Standing.CERTIFIED:
        worth = "HEURISTIC, nothing is guaranteed" if learner.standing is Standing.HEURISTIC else "not guaranteed"
        cure = " and ".join(dict.fromkeys(_CERTIFIED_BY[code] for code in codes if code in _CERTIFIED_BY))
        numbers = {"doubts": [code.value for code in codes]}
        return learner, Finding(Code.LIBRARY, Level.WARNING, f"runs will be {worth}: {doubts}", cure, numbers)
    return learner, Finding(Code.LIBRARY, Level.OK, "a run can begin, with certified constants")


def constrained(problem: Problem) -> list[Finding]:
    """Warn if there is no constraint: then no promise is made about safety."""
    if problem.simulator.num_constraints:
        return []
    cure = "state the unsafe events as a constraint; the margin has no meaning without one"
    return [Finding(Code.CONSTRAINTS, Level.WARNING, NO_CONSTRAINT, cure)]


def smallest_margin(problem: Problem) -> float:
    """Return the smallest margin of all constraints; without constraints the stated one, or H if none can be meant."""
    horizon = float(problem.simulator.horizon)
    stated = problem.margins if problem.simulator.num_constraints else np.asarray(problem.settings.margin, dtype=np.float64)
    smallest = float(stated.min(initial=horizon))
    return smallest if smallest > 0.0 else horizon


def theorem(problem: Problem, method: Method) -> tuple[tuple[Condition, ...], list[Finding]]:
    """Return the conditions of Theorem 1, and findings about them for methods that stop at the tolerance."""
    settings, horizon, margin = problem.settings, problem.simulator.horizon, smallest_margin(problem)
    conditions = check_conditions(
        tolerance=settings.tolerance,
        horizon=horizon,
        margin=margin,
        calibrated_gap=settings.calibrated_gap,
        mismatch_gap=settings.mismatch_gap,
        largest_margin=horizon - float(problem.simulator.thresholds.max(initial=0.0)),
    )
    findings = []
    for one in conditions if method.covers_any_reward else ():
        grave = one.name is ConditionName.TOLERANCE_AGAINST_MARGIN
        level = Level.OK if one.holds else Level.FAILURE if grave else Level.WARNING
        subject, affects = one.name.value, one.needed_for
        said = Finding(
            Code.CONDITION, level, one.explanation, one.cure, subject=subject, affects=affects, changes=one.changes
        )
        findings.append(said)
    return conditions, [*findings, *_promised(problem, method, margin)]


def _promised(problem: Problem, method: Method, margin: float) -> list[Finding]:
    """How near the best plans are after the stop, in so far as the method promises it."""
    tau, horizon = problem.settings.tolerance, problem.simulator.horizon
    caveat = ", if all assumptions hold"
    caveat += "" if problem.settings.certified else " and with certified constants; these are HEURISTIC"
    if isinstance(method, ForRewards):
        lost = "of" if method.relative else "against"
        said = (
            f"after the stop the certified plan of each declared reward ({', '.join(method.rewards)}) loses at most "
            f"{rounded_up(method.accuracy)} {lost} the best safe value{caveat}. Plans for other rewards have only the bound "
            "that each prints"
        )
        numbers = {"accuracy": method.accuracy, "relative": method.relative, "rewards": list(method.rewards)}
        return [Finding(Code.PLANNING_ACCURACY, Level.OK, said, numbers=numbers)]
    if not method.covers_any_reward or tau > margin / 4.0 * (1.0 + 1e-12):
        return []
    bound = accuracy_of(tau, horizon, margin)
    said = f"after the stop every plan is within {rounded_up(bound)} of the best{caveat}"
    if bound >= horizon:
        said += f", which says nothing at a horizon of {horizon}: go by the bound that each plan prints"
    return [Finding(Code.PLANNING_ACCURACY, Level.OK, said, numbers={"accuracy": bound})]


def estimated_rows(problem: Problem, method: Method) -> list[Finding]:
    """Check whether calibrated_gap covers the accuracy of a simulator that was estimated."""
    rows, settings = problem.estimated, problem.settings
    if rows is None:
        return []
    known = problem.known_rows().reshape(rows.accuracy.shape)
    seen, unseen = (rows.visits > 0) & ~known, rows.unvisited & ~known
    far, gap = seen & (rows.accuracy > settings.calibrated_gap + 1e-12), settings.calibrated_gap
    worst, called_exact = float(rows.accuracy[seen].max(initial=0.0)), known & (rows.accuracy > 0.0)
    numbers = {
        "accuracy": worst,
        "delta": rows.delta,
        "delta_in_all": settings.delta + rows.delta,
        "rows_not_covered": int(far.sum()),
        "rows_unvisited": int(unseen.sum()),
        "rows_called_exact": int(called_exact.sum()),
    }
    sure = f"with probability {1.0 - rows.delta:g}" if rows.certified else "HEURISTICALLY"
    said = f"the simulator was estimated, {sure} to within {rounded_up(worst)} in every row that was visited"
    if called_exact.any():
        said += f"; {count(int(called_exact.sum()), 'row')} of it are declared known although they were estimated"
        cure = "declare only the rows known that are true by construction (system.known)"
        return [Finding(Code.ESTIMATED_ROWS, Level.FAILURE, said, cure, numbers, affects=EVERY_CLAIM)]
    if far.any() and method.reuses_simulator:
        said += (
            f"; calibrated_gap {gap:g} is below that in {count(int(far.sum()), 'row')}: rows that are right look as if they "
            "lay between the gaps, and a run will be refuted or take wrong rows for right"
        )
        changes = _larger_calibrated_gap(problem, method, worst)
        cure = one_of(changes, "sample more", "do without its rows (methods.RewardFree)")
        return [Finding(Code.ESTIMATED_ROWS, Level.FAILURE, said, cure, numbers, affects=EVERY_CLAIM, changes=changes)]
    if unseen.any():
        said += f"; never visited, so that no data support the simulator there: {count(int(unseen.sum()), 'row')}"
        cure = "sample these rows too, or be sure that the real ones are at least mismatch_gap away from the simulator's"
        return [Finding(Code.ESTIMATED_ROWS, Level.WARNING, said, cure, numbers)]
    if not method.reuses_simulator:
        return [Finding(Code.ESTIMATED_ROWS, Level.OK, f"{said}; no row of it is reused", numbers=numbers)]
    if not rows.certified:
        cure = "estimate it with a certified radius"
        return [Finding(Code.ESTIMATED_ROWS, Level.WARNING, f"{said}, which is no guarantee", cure, numbers)]
    together = settings.delta + rows.delta
    said += f", which calibrated_gap {gap:g} covers; its probability of failure adds to delta, {together:g} in all"
    return [Finding(Code.ESTIMATED_ROWS, Level.OK, said, numbers=numbers)]


def gaps_fit(
    problem: Problem, method: Method, *, calibrated_gap: float | None = None, mismatch_gap: float | None = None
) -> bool:
    """Return whether rows can be cleared with these gaps and, with a new calibrated gap, a run can still stop."""
    settings = problem.settings
    clearing = find(settings.refinements, SequentialClearing) or find(settings.refinements, BelowGap)
    small = settings.calibrated_gap if calibrated_gap is None else calibrated_gap
    large = settings.mismatch_gap if mismatch_gap is None else mismatch_gap
    if small > large / (1.0 if clearing is None else clearing.protection) or not 0.0 < large <= 1.0:
        return False
    return calibrated_gap is None or small * floor_of(problem, method) < settings.tolerance


def _larger_calibrated_gap(problem: Problem, method: Method, needed: float) -> tuple[Change, ...]:
    shown = rounded_up(needed, 4)
    text = "state a calibrated_gap of at least {}, plus the simulator's own error"
    return (change("calibrated_gap", shown, text),) if gaps_fit(problem, method, calibrated_gap=float(shown)) else ()


def floor_of(problem: Problem, method: Method) -> float:
    """Return the limit of Delta per unit of calibrated_gap, which every cleared row adds at every step.

    The largest value of H (span of the step) over rows that are not known, among policies feasible on the simulator: at most
    H (H - 1) / 2 with the span bonus and H^2 without.
    """
    if not method.reuses_simulator:
        return 0.0
    model = problem.simulator
    weight = np.broadcast_to(spans_of(problem), model.horizon)
    unknown = ~problem.known_rows().reshape((-1, model.num_states, model.num_actions))
    paid = weight[:, None, None] * unknown
    solution = solve(model, paid)
    return float(solution.bound if solution.is_feasible else solve(without_constraints(model), paid).bound)


def goal_of(method: Method) -> str:
    """Return the name of the stopping level: "accuracy" of declared rewards or "tolerance"."""
    return "accuracy" if isinstance(method, ForRewards) else "tolerance"


def stop_floor(problem: Problem, method: Method) -> list[Finding]:
    """Check whether the uncertainty can come down to the tolerance, or the accuracy, at which the method stops."""
    if isinstance(method, ForRewards):
        return [_accuracy_floor(problem, method)]
    return [_tolerance_floor(problem, method)] if method.covers_any_reward else []


def _accuracy_floor(problem: Problem, method: ForRewards) -> Finding:
    """The widest interval of a declared reward with every row cleared, as the simulator says: in units of the accuracy."""
    goal, gap, floor = method.stops_at(problem), problem.settings.calibrated_gap, 0.0
    if gap > 0.0 and method.reuses_simulator:
        evidence = method.evidence(problem)
        tally, belief = evidence.counts.tally, evidence.belief
        belief.suspect[:], belief.divergence[:] = False, np.inf
        belief.begin[:], belief.length[:] = tally.simulator_begin, tally.simulator_length
        belief.gap[:] = np.where(belief.known, 0.0, gap)
        floor = goal * max(one.gap for one in method.intervals(problem, evidence))
    numbers, unit = {"floor": floor, "accuracy": goal}, " of the best value" if method.relative else ""
    if floor <= goal:
        said = (
            f"with every row cleared, declared rewards are certain to within {floor:.4g}{unit}; the accuracy is {goal:.4g}"
        )
        return _stop(Level.OK, said, "", numbers, ())
    said = (
        f"with every row cleared, declared rewards are certain to within {rounded_down(floor)}{unit} only, because each row "
        f"pays for calibrated_gap = {gap:g}; the accuracy {goal:.4g} is then not reached. Safety is not affected, and plans "
        "still improve"
    )
    cure = "declare rows known, or justify a smaller calibrated_gap"
    possible = float(rounded_up(floor)) <= 1.0 or not method.relative
    cure = f"ask for an accuracy of {rounded_up(floor)} or more, {cure}" if possible else cure
    return _stop(Level.FAILURE, said, cure, numbers, ())


def _tolerance_floor(problem: Problem, method: Method) -> Finding:
    """Whether Delta can come down to the tolerance at all."""
    settings, horizon = problem.settings, problem.simulator.horizon
    unit = floor_of(problem, method)
    floor = min(float(horizon), settings.calibrated_gap * unit)
    enough = settings.tolerance / unit if unit > 0.0 else 1.0
    numbers = {"floor": floor, "tolerance": settings.tolerance, "largest_calibrated_gap": max(0.0, min(1.0, enough))}
    changes: tuple[Change, ...] = ()
    if floor < settings.tolerance:
        said = f"the uncertainty can come down to {floor:.4g}, below the tolerance {settings.tolerance:.4g}"
        close = floor > settings.tolerance / 2.0
        said += ", but more than half of the tolerance is used up: the stop will take long" if close else ""
        if close:
            changes = (
                change("calibrated_gap", rounded_down(enough / 4.0), "a calibrated_gap of {} or less would leave room"),
            )
        return _stop(Level.WARNING if close else Level.OK, said, one_of(changes), numbers, changes)
    said = (
        f"the uncertainty will not come below {rounded_down(floor)}, because every cleared row pays for calibrated_gap = "
        f"{settings.calibrated_gap:g} at every step; the tolerance {settings.tolerance:.4g} is not reached. Safety is not "
        "touched, and plans still improve"
    )
    most = min(enough, settings.mismatch_gap)
    text = f"justify a calibrated_gap below {rounded_down(most)} (half of it leaves room for the data)"
    changes = (Change("calibrated_gap", most / 2.0, text),)
    cure = one_of(changes, "declare rows known", "plan without waiting for the stop")
    return _stop(Level.FAILURE, said, cure, numbers, changes)


def _stop(level: Level, said: str, cure: str, numbers: dict[str, float], changes: tuple[Change, ...]) -> Finding:
    affects = (Guarantee.TERMINATION,) if level is Level.FAILURE else ()
    return Finding(Code.STOP_FLOOR, level, said, cure, numbers, affects=affects, changes=changes)


def without_constraints(model: CMDP) -> CMDP:
    """Return the model without its constraints; each of its summed steps counts, the end like any other."""
    return CMDP.of(model.kernel, model.horizon, model.start)


def remaining(problem: Problem) -> str:
    """Return the assumptions about the real system that no check can prove, in words, for verdicts."""
    *others, last = problem.unproved()
    return f"{', '.join(others)} and {last}"
