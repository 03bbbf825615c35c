"""Which guarantees can stand: the conditions of Theorem 1, the separation of rows, and where the certificate ends up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real.campaign.findings import Finding, Level, count, margins_of
from safe2real.campaign.guess import GuessedReality, reachable_rows, visited_rows
from safe2real.campaign.specification import Specification
from safe2real.errors import InvalidInput
from safe2real.explore.learner import Learner
from safe2real.model.checks import Floats
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.planning.solve import solve
from safe2real.uncertainty.mismatch_map import map_mismatch
from safe2real.uncertainty.theory import Conditions, Guarantee, accuracy_of, check_conditions

_ROUNDING = 1e-9


def accepted(specification: Specification) -> tuple[Learner | None, Finding]:
    """A fresh learner, if the library makes one."""
    try:
        learner = specification.learner()
    except InvalidInput as error:
        return None, Finding("library", Level.FAILURE, f"no run can begin: {error}", "change what the message names")
    doubts = learner.doubts()
    if doubts:
        said = f"runs will be HEURISTIC, nothing is guaranteed: {'; '.join(doubts)}"
        return learner, Finding("library", Level.WARNING, said, "use a certified radius and bonus_scale = 1")
    return learner, Finding("library", Level.OK, "a run can begin, with certified constants")


def smallest_margin(specification: Specification) -> float:
    return float(margins_of(specification).min(initial=float(specification.simulator.horizon)))


def theorem(specification: Specification) -> tuple[Conditions, list[Finding]]:
    """Every condition of Theorem 1 for the epsilon that the tolerance stands for, or 1, the largest there is."""
    settings, horizon, margin = specification.settings, specification.simulator.horizon, smallest_margin(specification)
    tau, small = settings.tolerance, settings.calibrated_gap
    meant = 4.0 * horizon * (tau - horizon**3 * small) / margin if margin > 0.0 else 0.0
    conditions = check_conditions(
        epsilon=min(1.0, meant) if meant > 0.0 else 1.0,
        horizon=horizon,
        margin=margin,
        calibrated_gap=small,
        mismatch_gap=settings.mismatch_gap,
        delta=settings.delta,
        tolerance=tau,
    )
    findings = []
    for condition in conditions.items:
        if condition.name == "tolerance against epsilon":
            continue  # said in words below: a tolerance is chosen here, not an epsilon
        grave = Guarantee.SAFETY in condition.needed_for or condition.name == "tolerance against margin"
        level = Level.OK if condition.holds else Level.FAILURE if grave else Level.WARNING
        findings.append(Finding(f"condition: {condition.name}", level, condition.explanation, condition.cure))
    if 0.0 < margin <= horizon and 0.0 < tau <= margin / 4.0 * (1.0 + 1e-12):
        bound = accuracy_of(tau, horizon, margin)
        said = f"after the stop every plan is within 2 H tau / xi + 2 tau = {bound:.4g} of the best"
        if bound >= horizon:
            said += f", which says nothing at a horizon of {horizon}: go by the bound that each plan prints"
        findings.append(Finding("planning accuracy", Level.OK, said, numbers={"accuracy": bound}))
    return conditions, findings


def floor_of(specification: Specification) -> float:
    """What Delta tends to per unit of calibrated_gap: cleared rows go on paying for it at every step.

    The largest value of H (span of the step) over rows that are not known, among policies feasible on the simulator: at most
    H (H - 1) / 2 with the span bonus and H^2 without.
    """
    model, settings = specification.simulator, specification.settings
    if not settings.algorithm.reuses_simulator:
        return 0.0
    steps = np.arange(model.horizon)
    weight = model.horizon - 1.0 - steps if settings.span_bonus else np.full(model.horizon, float(model.horizon))
    unknown = ~known_rows(specification).reshape((-1, model.num_states, model.num_actions))
    paid = weight[:, None, None] * unknown
    solution = solve(model, paid)
    return float(solution.bound if solution.is_feasible else solve(without_constraints(model), paid).bound)


def stop_floor(specification: Specification) -> Finding:
    """Whether Delta can come down to the tolerance at all."""
    settings, horizon = specification.settings, specification.simulator.horizon
    unit = floor_of(specification)
    floor = min(float(horizon), settings.calibrated_gap * unit)
    enough = settings.tolerance / unit if unit > 0.0 else 1.0
    numbers = {"floor": floor, "tolerance": settings.tolerance, "largest_calibrated_gap": min(1.0, enough)}
    if floor < settings.tolerance:
        said = f"Delta can come down to {floor:.4g}, below the tolerance {settings.tolerance:.4g}"
        close = floor > settings.tolerance / 2.0
        said += ", but more than half of the tolerance is used up: the stop will take long" if close else ""
        cure = f"a calibrated_gap of {enough / 4.0:.3g} or less would leave room" if close else ""
        return Finding("stop", Level.WARNING if close else Level.OK, said, cure, numbers)
    said = (
        f"Delta will not come below {floor:.4g}, because every cleared row pays for calibrated_gap = "
        f"{settings.calibrated_gap:g} at every step; the tolerance {settings.tolerance:.4g} is not reached. Safety is not "
        "touched, and plans still improve"
    )
    cure = (
        f"justify a calibrated_gap below {enough:.3g} (half of it leaves room for the data), declare rows known, or plan "
        "without waiting for the stop"
    )
    return Finding("stop", Level.FAILURE, said, cure, numbers)


def separation(specification: Specification, learner: Learner | None, real: Kernel, guessed: bool) -> list[Finding]:
    """Whether the two gaps fit `real`, and whether they can fit anything."""
    return [
        *_rows_between(specification, real, guessed),
        *_distances_possible(specification),
        *_clearing(learner),
        _coverage(specification, real, guessed),
    ]


def redrawn(guess: GuessedReality) -> list[Finding]:
    """How often a mismatch of this size would take the baseline's margin."""
    if guess.drawn <= 1 and not guess.lost_margin:
        return []
    wrong = int(guess.wrong.sum())
    said = (
        f"in {guess.lost_margin} of {guess.drawn} random draws of {count(wrong, 'wrong row')} at distance {guess.gap:.3g} "
        "the baseline loses its stated margin"
    )
    numbers = {"draws": guess.drawn, "lost_margin": guess.lost_margin}
    return [
        Finding(
            "margin under a guess",
            Level.WARNING,
            said,
            "confirm the margin by rollouts of the baseline (--rollouts)",
            numbers,
        )
    ]


def without_constraints(model: CMDP) -> CMDP:
    return CMDP.of(model.kernel, model.horizon, model.start)


def known_rows(specification: Specification) -> NDArray[np.bool_]:
    """[R]"""
    rows = specification.simulator.kernel.num_rows
    given = specification.known
    return np.zeros(rows, dtype=np.bool_) if given is None else np.asarray(given, dtype=np.bool_).reshape(-1)


def _rows_between(specification: Specification, real: Kernel, guessed: bool) -> list[Finding]:
    settings, kernel = specification.settings, specification.simulator.kernel
    whose = "guessed" if guessed else "stated"
    gaps, known = real.distances_to(kernel).reshape(-1), known_rows(specification)
    findings = []
    far = known & (gaps > _ROUNDING)
    if far.any():
        said = (
            f"{count(int(far.sum()), 'row')} declared known differ from the {whose} reality, by up to {gaps[far].max():.3g}"
        )
        findings.append(
            Finding("known rows", Level.FAILURE, said, "declare only rows known that are exact", {"rows": int(far.sum())})
        )
    if not settings.algorithm.reuses_simulator:
        return findings
    eps, sigma = settings.calibrated_gap, settings.mismatch_gap
    between = ~known & (gaps > eps + _ROUNDING) & (gaps < sigma - _ROUNDING)
    wrong = ~known & (gaps > max(eps, 0.0) + _ROUNDING)
    numbers = {"wrong": int(wrong.sum()), "between": int(between.sum()), "rows": int(kernel.num_rows)}
    if between.any():
        low, high = float(gaps[between].min()), float(gaps[between].max())
        said = (
            f"{count(int(between.sum()), 'row')} of the {whose} reality lie between calibrated_gap {eps:g} and mismatch_gap "
            f"{sigma:g} (at {low:.3g} to {high:.3g}): a wrong row can be taken for right, and safety is not guaranteed"
        )
        cure = f"lower mismatch_gap to {_down(low)}, or raise calibrated_gap to {_up(high)}"
        findings.append(Finding("separation", Level.FAILURE, said, cure, {**numbers, "smallest": low, "largest": high}))
    else:
        said = f"the {whose} reality keeps to the gaps: wrong rows are {int(wrong.sum()):,} of {kernel.num_rows:,}"
        if wrong.any():
            said += f", at {gaps[wrong].min():.3g} or more"
        findings.append(Finding("separation", Level.OK, said, numbers=numbers))
    return findings


def _distances_possible(specification: Specification) -> list[Finding]:
    """A row can only be as far from the simulator's as its least likely possible successor allows."""
    kernel, support, sigma = specification.simulator.kernel, specification.support, specification.settings.mismatch_gap
    if not specification.settings.algorithm.reuses_simulator:
        return []
    largest = largest_distances(kernel, support)
    never = ~known_rows(specification) & (largest < sigma - _ROUNDING)
    if not never.any():
        return []
    every = bool(never[~known_rows(specification)].all())
    said = (
        f"{count(int(never.sum()), 'row')} can be at most {largest[never].max():.3g} away from the simulator's, less than "
        f"mismatch_gap {sigma:g}: by the assumption they are right, without a look"
    )
    cure = f"lower mismatch_gap to {_down(float(largest[never].min()))}, or declare these rows known if they are"
    return [Finding("possible distances", Level.FAILURE if every else Level.WARNING, said, cure, {"rows": int(never.sum())})]


def largest_distances(kernel: Kernel, support: Kernel | None) -> Floats:
    """[R] 1 - the smallest probability of a possible successor: how far from its row any distribution can be in TV."""
    result = np.ones(kernel.num_rows)
    for row in range(kernel.num_rows):
        successors, probabilities = kernel.row(row)
        if support is not None and support.length[row]:
            allowed = support.row(row)[0]
            if np.isin(allowed, successors).all():
                result[row] = 1.0 - probabilities[np.isin(successors, allowed)].min()
        elif successors.size == kernel.num_states:
            result[row] = 1.0 - probabilities.min()
    return result


def _clearing(learner: Learner | None) -> list[Finding]:
    if learner is None or not learner.settings.algorithm.reuses_simulator or not learner.hybrid.suspects.any():
        return []
    needed = map_mismatch(learner.hybrid).visits_needed[learner.hybrid.suspects]
    most = float(needed.max())
    if not np.isfinite(most):
        said = "with these gaps no row is ever cleared: the simulator is not used, and every row is learnt from real data"
        return [Finding("clearing rows", Level.WARNING, said, "justify a larger mismatch_gap")]
    said = f"a row that is right is cleared after about {most:,.0f} visits"
    return [Finding("clearing rows", Level.OK, said, numbers={"visits": most})]


def _coverage(specification: Specification, real: Kernel, guessed: bool) -> Finding:
    """What nobody visits is not found wrong and hurts nobody; what the baseline does not visit, its data do not show."""
    model = specification.simulator
    reality = model.with_kernel(real)
    reached, visited = reachable_rows(reality), visited_rows(reality, specification.baseline)
    wrong = real.distances_to(model.kernel).reshape(-1) > specification.settings.calibrated_gap + _ROUNDING
    whose = "guessed" if guessed else "stated"
    said = (
        f"an episode can reach {int(reached.sum()):,} of {reached.size:,} rows, the baseline alone {int(visited.sum()):,}; "
        f"of {count(int(wrong.sum()), 'wrong row')} of the {whose} reality the baseline visits "
        f"{int((wrong & visited).sum()):,}"
    )
    numbers = {
        "reachable": int(reached.sum()),
        "baseline": int(visited.sum()),
        "wrong": int(wrong.sum()),
        "wrong_reachable": int((wrong & reached).sum()),
        "wrong_visited_by_baseline": int((wrong & visited).sum()),
    }
    return Finding("coverage", Level.OK, said, numbers=numbers)


def _down(value: float) -> str:
    """Three digits, rounded so that whoever types it in is at or below."""
    return f"{np.floor(value * 1000.0 + 1e-6) / 1000.0:.3g}"


def _up(value: float) -> str:
    return f"{np.ceil(value * 1000.0 - 1e-6) / 1000.0:.3g}"
