"""Checks of statements about rows against a reality and the rollouts: gaps, known rows, distances, support, ties.

A stated reality and a guess are compared row by row. Rollouts need no statistics where a successor is ruled out: an
event of probability 0 does not happen, so one step refutes the declaration. Rollouts that agree with it prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.mismatch_map import map_mismatch
from safe2real.evidence.pooling import separated_rows
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.model.constraint_text import count, roughly, rounded_down, rounded_up
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import ROUNDING, Floats
from safe2real.preflight.conditions import gaps_fit
from safe2real.preflight.findings import EVERY_CLAIM, Code, Finding, Level
from safe2real.preflight.hypothetical_reality import GuessedReality, reachable_rows, visited_rows
from safe2real.problem.problem import Problem
from safe2real.problem.theorem import Change, change, one_of
from safe2real.problem.ties import laws_of
from safe2real.refinements import BelowGap, SequentialClearing, find

_CAREFUL = 2.0  # the protection to use where the gap is a guess


def reality_findings(problem: Problem, method: Method, real: Kernel, guessed: bool) -> list[Finding]:
    """Check whether the statements about rows are true of `real`."""
    outside = np.zeros(real.num_rows, dtype=np.bool_) if problem.support is None else rows_outside(problem.support, real)
    return [
        *_outside_support(Code.SUPPORT, problem, outside, "the reality leads"),
        *_ties(problem, real),
        *_rows_between(problem, method, real, guessed),
        *(_distances_possible(problem, method) if method.reuses_simulator else ()),
        _coverage(problem, real, guessed),
    ]


def clearing_findings(problem: Problem, learner: Learner, guessed: bool) -> list[Finding]:
    """Return after how many visits a right row is cleared with these gaps, and which wrong rows never are."""
    if not learner.method.reuses_simulator or not learner.evidence.suspects.any():
        return []
    return [_clearing(learner), *_protection(problem, learner, guessed)]


def margin_under_guesses(guess: GuessedReality) -> list[Finding]:
    """Warn if the baseline lost its margin in random draws of wrong rows."""
    if guess.drawn <= 1 and not guess.lost_margin:
        return []
    wrong = int(guess.wrong.sum())
    said = (
        f"in {guess.lost_margin} of {guess.drawn} random draws of {count(wrong, 'wrong row')} at distance {guess.gap:.3g} "
        "the baseline loses its stated margin"
    )
    cure = "confirm the margin by rollouts of the baseline (--rollouts)"
    numbers = {"draws": guess.drawn, "lost_margin": guess.lost_margin}
    return [Finding(Code.MARGIN_UNDER_GUESSES, Level.WARNING, said, cure, numbers)]


def wrong_rows(problem: Problem, real: Kernel) -> NDArray[np.bool_]:
    """Return the rows [R] of `real` that are farther from the simulator's than `calibrated_gap`."""
    distances = real.distances_to(problem.simulator.kernel).reshape(-1)
    return np.asarray(distances > problem.settings.calibrated_gap + ROUNDING)


def _outside_support(code: Code, problem: Problem, outside: NDArray[np.bool_], leads: str) -> list[Finding]:
    """Return a failure if rows [R] lead outside the declared support; `leads` says what leads there."""
    if not outside.any():
        return []
    said = f"{_named(problem, outside)}: {leads} to states that the declared support does not name"
    cure, rows = "name every possible successor, or declare no support", {"rows": int(outside.sum())}
    return [Finding(code, Level.FAILURE, said, cure, rows, affects=EVERY_CLAIM)]


def _known_rows_differ(code: Code, said: str, rows: int) -> Finding:
    cure = "declare only rows known that are exact"
    return Finding(code, Level.FAILURE, said, cure, {"rows": rows}, affects=EVERY_CLAIM)


def rows_outside(support: Kernel, real: Kernel) -> NDArray[np.bool_]:
    """Return the rows [R] of `real` that lead outside `support`; a row of length 0 may lead anywhere."""
    outside = np.zeros(real.num_rows, dtype=np.bool_)
    for row in np.flatnonzero(support.length).tolist():
        outside[row] = not np.isin(real.row(row)[0], support.row(row)[0]).all()
    return outside


def _ties(problem: Problem, real: Kernel) -> list[Finding]:
    """Check whether `real` satisfies the ties; a failure only if they are declared exact."""
    if problem.ties is None:
        return []
    try:
        laws_of(replace(problem.ties, laws=None), real)
    except InvalidInput as error:
        said = f"rows that are tied are not alike in this reality: {error}"
        level, affects = (Level.FAILURE, EVERY_CLAIM) if problem.ties.exact else (Level.WARNING, ())
        return [Finding(Code.TIES, level, said, "untie the rows that differ", affects=affects)]
    return [Finding(Code.TIES, Level.OK, f"this reality keeps to the ties of {problem.ties.num_classes} classes")]


def _rows_between(problem: Problem, method: Method, real: Kernel, guessed: bool) -> list[Finding]:
    settings, kernel = problem.settings, problem.simulator.kernel
    whose = "guessed" if guessed else "stated"
    gaps, known = real.distances_to(kernel).reshape(-1), problem.known_rows()
    findings = []
    far = known & (gaps > ROUNDING)
    if far.any():
        most = rounded_up(gaps[far].max())
        said = f"{count(int(far.sum()), 'row')} declared known differ from the {whose} reality, by up to {most}"
        findings.append(_known_rows_differ(Code.KNOWN_ROWS, said, int(far.sum())))
    findings += _beyond_within(problem, gaps, whose)
    if not method.reuses_simulator:
        return findings
    eps, sigma = settings.calibrated_gap, settings.mismatch_gap
    between = separated_rows(problem) & ~known & (gaps > eps + ROUNDING) & (gaps < sigma - ROUNDING)
    wrong = ~known & (gaps > eps + ROUNDING)
    numbers: dict[str, float] = {"wrong": int(wrong.sum()), "between": int(between.sum()), "rows": int(kernel.num_rows)}
    if between.any():
        low, high = float(gaps[between].min()), float(gaps[between].max())
        said = (
            f"{count(int(between.sum()), 'row')} of the {whose} reality lie between calibrated_gap {eps:g} and mismatch_gap "
            f"{sigma:g} (at {low:.3g} to {high:.3g}): a wrong row can be taken for right, and safety is not guaranteed"
        )
        changes = _gaps_around(problem, method, low, high)
        cure = one_of(changes, "do without gaps: methods.RewardFree uses no row of the simulator, and `within` needs none")
        numbers |= {"smallest": low, "largest": high}
        findings.append(Finding(Code.SEPARATION, Level.FAILURE, said, cure, numbers, affects=EVERY_CLAIM, changes=changes))
    else:
        said = f"the {whose} reality keeps to the gaps: wrong rows are {int(wrong.sum()):,} of {kernel.num_rows:,}"
        if wrong.any():
            said += f", at {rounded_down(gaps[wrong].min())} or more"
        findings.append(Finding(Code.SEPARATION, Level.OK, said, numbers=numbers))
    return findings


def _gaps_around(problem: Problem, method: Method, low: float, high: float) -> tuple[Change, ...]:
    """Return changes of one gap so that no row from `low` to `high` lies between the gaps, if a run can still stop."""
    lower, larger, changes = rounded_down(low), rounded_up(high), []
    if gaps_fit(problem, method, mismatch_gap=float(lower)):
        changes.append(change("mismatch_gap", lower, "lower mismatch_gap to {}"))
    if gaps_fit(problem, method, calibrated_gap=float(larger)):
        changes.append(change("calibrated_gap", larger, "raise calibrated_gap to {}"))
    return tuple(changes)


def _beyond_within(problem: Problem, gaps: Floats, whose: str) -> list[Finding]:
    """Check rows [R] with distances `gaps` against `within`, to which confidence sets are restricted."""
    if problem.within is None:
        return []
    within = problem.within_rows()
    far = ~problem.known_rows() & (gaps > within + ROUNDING)
    numbers = {"rows": int(far.sum()), "stated": int((within < 1.0).sum())}
    if not far.any():
        said = f"the {whose} reality keeps to the distances that were stated of {count(numbers['stated'], 'row')}"
        return [Finding(Code.WITHIN, Level.OK, said, numbers=numbers)]
    worst = int(np.argmax(np.where(far, gaps - within, -np.inf)))
    said = (
        f"{count(numbers['rows'], 'row')} of the {whose} reality are farther from the simulator's than `within` states, one "
        f"of them {gaps[worst]:.3g} away where {within[worst]:.3g} was stated: sets would be too small"
    )
    cure = "state distances that are sure for these rows, 1 where none is"
    return [Finding(Code.WITHIN, Level.FAILURE, said, cure, numbers, affects=EVERY_CLAIM)]


def _distances_possible(problem: Problem, method: Method) -> list[Finding]:
    """A row can only be as far from the simulator's as its least likely possible successor allows."""
    kernel, support, sigma = problem.simulator.kernel, problem.support, problem.settings.mismatch_gap
    largest = largest_distances(kernel, support)
    open_rows = ~problem.known_rows() & (largest > ROUNDING)  # a row with one possible successor cannot be wrong
    never = open_rows & (largest < sigma - ROUNDING)
    if not never.any():
        return []
    every = bool(never[open_rows].all())
    said = (
        f"{count(int(never.sum()), 'row')} can be at most {rounded_up(largest[never].max())} away from the simulator's, "
        f"less than mismatch_gap {sigma:g}: the assumption implies that they are right, without data"
    )
    shown = rounded_down(float(largest[never].min()))
    fits = gaps_fit(problem, method, mismatch_gap=float(shown))
    changes = (change("mismatch_gap", shown, "lower mismatch_gap to {}"),) if fits else ()
    cure = one_of(changes, "declare these rows known if they are")
    level, numbers = Level.FAILURE if every else Level.WARNING, {"rows": int(never.sum())}
    return [Finding(Code.POSSIBLE_DISTANCES, level, said, cure, numbers, affects=EVERY_CLAIM, changes=changes)]


def largest_distances(kernel: Kernel, support: Kernel | None) -> Floats:
    """Return the largest TV distance from each row [R]: 1 - the smallest probability of a possible successor."""
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


def _clearing(learner: Learner) -> Finding:
    most = float(map_mismatch(learner.evidence).visits_needed[learner.evidence.suspects].max())
    if np.isfinite(most):
        said = f"a row that is right is cleared after {roughly(most, 'visit')}"
        return Finding(Code.CLEARING, Level.OK, said, numbers={"visits": most})
    said = "with these gaps no row is ever cleared: the simulator is not used, and every row is learnt from real data"
    cure = "justify a larger mismatch_gap, or do without gaps (methods.RewardFree)"
    return Finding(Code.CLEARING, Level.WARNING, said, cure)


def _protection(problem: Problem, learner: Learner, guessed: bool) -> list[Finding]:
    """A gap that is overstated is dangerous where rows are cleared by all that the assumption allows."""
    settings = problem.settings
    clearing = find(settings.refinements, SequentialClearing) or find(settings.refinements, BelowGap)
    if clearing is None:
        return []
    gap, numbers = settings.mismatch_gap / clearing.protection, {"protection": clearing.protection}
    said = f"rows that are wrong by {rounded_up(gap)} or more are never cleared, but by a chance that delta covers"
    if not guessed or clearing.protection > 1.0 or settings.mismatch_gap <= settings.calibrated_gap:
        return [Finding(Code.PROTECTION, Level.OK, said, numbers=numbers)]
    said = (
        f"mismatch_gap {settings.mismatch_gap:g} is trusted: a row that is wrong by less can be cleared, and "
        "the data may never contradict it"
    )
    if settings.mismatch_gap / _CAREFUL <= settings.calibrated_gap:
        cure = "if the gap is a guess, state the smallest error that you want found"
        return [Finding(Code.PROTECTION, Level.WARNING, said, cure, numbers)]
    careful = [one if one is not clearing else replace(clearing, protection=_CAREFUL) for one in settings.refinements]
    other = replace(problem, settings=replace(settings, refinements=tuple(careful)))
    needed = float(map_mismatch(learner.method.evidence(other)).visits_needed[learner.evidence.suspects].max())
    text = f"if the gap is a guess, use refinements.{type(clearing).__name__}(protection={_CAREFUL:g})"
    changes = (Change("protection", _CAREFUL, text),)
    if not np.isfinite(needed):
        return [Finding(Code.PROTECTION, Level.WARNING, said, text, numbers, changes=changes)]
    cure, numbers = f"{text}: a right row is cleared after {roughly(needed, 'visit')} then", numbers | {"visits": needed}
    return [Finding(Code.PROTECTION, Level.WARNING, said, cure, numbers, changes=changes)]


def _coverage(problem: Problem, real: Kernel, guessed: bool) -> Finding:
    """Unvisited rows are neither detected as wrong nor used; rollouts of the baseline show only the rows it visits."""
    model = problem.simulator
    reality = model.with_kernel(real)
    reached, visited = reachable_rows(reality), visited_rows(reality, problem.baseline)
    wrong = wrong_rows(problem, real)
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
    return Finding(Code.COVERAGE, Level.OK, said, numbers=numbers)


def rollout_findings(problem: Problem, rollouts: Sequence[Trajectory]) -> list[Finding]:
    """Check whether steps of the real system contradict the declared support, or rows that are declared known.

    Args:
        problem: with its declarations.
        rollouts: episodes of the real system, checked (`baseline.check_rollouts`).

    Returns:
        A failure for each declaration that is contradicted.
    """
    findings = []
    if problem.support is not None:
        outside = rows_left(problem.support, rollouts)
        findings += _outside_support(Code.SUPPORT_BY_ROLLOUTS, problem, outside, "the rollouts lead")
    wrong = problem.known_rows() & rows_left(problem.simulator.kernel, rollouts)
    if wrong.any():
        said = f"{_named(problem, wrong)}: declared known, but the rollouts lead to states of probability 0 there"
        findings.append(_known_rows_differ(Code.KNOWN_ROWS_BY_ROLLOUTS, said, int(wrong.sum())))
    return findings


def rows_left(kernel: Kernel, rollouts: Sequence[Trajectory]) -> NDArray[np.bool_]:
    """Return the rows [R] in which a rollout made a transition that has probability 0 in `kernel`."""
    left, pairs = np.zeros(kernel.num_rows, dtype=np.bool_), kernel.num_states * kernel.num_actions
    possible: dict[int, set[int]] = {}  # successors of the rows that were visited
    for episode in rollouts:
        rows = episode.states[:-1].astype(np.int64) * kernel.num_actions + episode.actions
        if not kernel.is_stationary:
            rows += np.arange(rows.size) * pairs
        for row, successor in zip(rows.tolist(), episode.states[1:].tolist(), strict=True):
            if row not in possible:
                possible[row] = set(kernel.row(row)[0].tolist())  # a kernel stores no successor of probability 0
            left[row] |= successor not in possible[row]
    return left


def _named(problem: Problem, rows: NDArray[np.bool_]) -> str:
    """Return the number of rows, and the name of the first."""
    model = problem.simulator
    state, action = divmod(int(np.argmax(rows)) % (model.num_states * model.num_actions), model.num_actions)
    return f"{count(int(rows.sum()), 'row')}, the first is {model.legend.row(state, action)}"
