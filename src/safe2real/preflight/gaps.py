"""Whether the gaps, the known rows and the declared support fit a reality, and whether they can fit anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from safe2real.evidence.mismatch_map import map_mismatch, visits_to_clear
from safe2real.evidence.pooling import separated_rows
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.constraint_text import count, roughly, rounded_down, rounded_up
from safe2real.model.kernel import Kernel
from safe2real.model.validation import ROUNDING, Floats
from safe2real.preflight.findings import EVERY_CLAIM, Advice, Code, Finding, Level, Recommendation
from safe2real.preflight.hypothetical_reality import GuessedReality, reachable_rows, visited_rows
from safe2real.preflight.structure import structure_findings
from safe2real.preflight.theorem_findings import floor_of, gaps_fit
from safe2real.problem.accuracy import RowAccuracy
from safe2real.problem.conditions import Change, change, one_of
from safe2real.problem.problem import Problem
from safe2real.refinements import BelowGap, SequentialClearing, find

_CAREFUL = 2.0  # the protection to use where the gap is a guess


def gap_findings(problem: Problem, method: Method, learner: Learner | None, real: Kernel, guessed: bool) -> list[Finding]:
    """Whether the two gaps fit `real`, and whether they can fit anything."""
    return [
        *_outside_support(problem, real),
        *structure_findings(problem, real),
        *_rows_between(problem, method, real, guessed),
        *(_distances_possible(problem, method) if method.reuses_simulator else ()),
        *_clearing(learner),
        *_protection(problem, learner, guessed),
        _coverage(problem, real, guessed),
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
    cure = "confirm the margin by rollouts of the baseline (--rollouts)"
    numbers = {"draws": guess.drawn, "lost_margin": guess.lost_margin}
    return [Finding(Code.MARGIN_UNDER_GUESSES, Level.WARNING, said, cure, numbers)]


def _outside_support(problem: Problem, real: Kernel) -> list[Finding]:
    support = problem.support
    if support is None:
        return []
    limited = np.flatnonzero(support.length)  # other rows may lead anywhere
    outside = [row for row in limited.tolist() if not np.isin(real.row(row)[0], support.row(row)[0]).all()]
    if not outside:
        return []
    _, state, action = np.unravel_index(outside[0], (real.horizon or 1, real.num_states, real.num_actions))
    said = (
        f"{count(len(outside), 'row')} of the reality lead to states that the declared support does not name, the first is "
        f"{problem.simulator.legend.row(int(state), int(action))}: radii would be too small"
    )
    cure = "name every possible successor, or declare no support"
    return [Finding(Code.SUPPORT, Level.FAILURE, said, cure, {"rows": len(outside)}, affects=EVERY_CLAIM)]


def _rows_between(problem: Problem, method: Method, real: Kernel, guessed: bool) -> list[Finding]:
    settings, kernel = problem.settings, problem.simulator.kernel
    whose = "guessed" if guessed else "stated"
    gaps, known = real.distances_to(kernel).reshape(-1), problem.known_rows()
    findings = []
    far = known & (gaps > ROUNDING)
    if far.any():
        most = rounded_up(gaps[far].max())
        said = f"{count(int(far.sum()), 'row')} declared known differ from the {whose} reality, by up to {most}"
        cure, many = "declare only rows known that are exact", {"rows": int(far.sum())}
        findings.append(Finding(Code.KNOWN_ROWS, Level.FAILURE, said, cure, many, affects=EVERY_CLAIM))
    findings += _beyond_within(problem, gaps, whose)
    if not method.reuses_simulator:
        return findings
    eps, sigma = settings.calibrated_gap, settings.mismatch_gap
    between = separated_rows(problem) & ~known & (gaps > eps + ROUNDING) & (gaps < sigma - ROUNDING)
    wrong = ~known & (gaps > max(eps, 0.0) + ROUNDING)
    numbers: dict[str, float] = {"wrong": int(wrong.sum()), "between": int(between.sum()), "rows": int(kernel.num_rows)}
    if between.any():
        low, high = float(gaps[between].min()), float(gaps[between].max())
        said = (
            f"{count(int(between.sum()), 'row')} of the {whose} reality lie between calibrated_gap {eps:g} and mismatch_gap "
            f"{sigma:g} (at {low:.3g} to {high:.3g}): a wrong row can be taken for right, and safety is not guaranteed"
        )
        changes = _gaps_around(problem, method, low, high)
        cure = one_of(changes, "do without gaps: methods.RewardFree uses no row of the simulator")
        numbers |= {"smallest": low, "largest": high}
        findings.append(Finding(Code.SEPARATION, Level.FAILURE, said, cure, numbers, affects=EVERY_CLAIM, changes=changes))
    else:
        said = f"the {whose} reality keeps to the gaps: wrong rows are {int(wrong.sum()):,} of {kernel.num_rows:,}"
        if wrong.any():
            said += f", at {rounded_down(gaps[wrong].min())} or more"
        findings.append(Finding(Code.SEPARATION, Level.OK, said, numbers=numbers))
    return findings


def _gaps_around(problem: Problem, method: Method, low: float, high: float) -> tuple[Change, ...]:
    """Gaps that no row from `low` to `high` lies between: only such as fit the other one, and let a run stop."""
    lower, larger, changes = rounded_down(low), rounded_up(high), []
    if gaps_fit(problem, method, mismatch_gap=float(lower)):
        changes.append(change("mismatch_gap", lower, "lower mismatch_gap to {}"))
    if gaps_fit(problem, method, calibrated_gap=float(larger)):
        changes.append(change("calibrated_gap", larger, "raise calibrated_gap to {}"))
    return tuple(changes)


def _beyond_within(problem: Problem, gaps: Floats, whose: str) -> list[Finding]:
    """Whether rows [R] that are `gaps` off are as near as was stated of them; sets are cut down to that."""
    within = problem.within_rows()
    if within is None:
        return []
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
    cure = "state what is sure of these rows, 1 where nothing is"
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
        f"less than mismatch_gap {sigma:g}: by the assumption they are right, without a look"
    )
    shown = rounded_down(float(largest[never].min()))
    fits = gaps_fit(problem, method, mismatch_gap=float(shown))
    changes = (change("mismatch_gap", shown, "lower mismatch_gap to {}"),) if fits else ()
    cure = one_of(changes, "declare these rows known if they are")
    level, numbers = Level.FAILURE if every else Level.WARNING, {"rows": int(never.sum())}
    return [Finding(Code.POSSIBLE_DISTANCES, level, said, cure, numbers, affects=EVERY_CLAIM, changes=changes)]


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
    if learner is None or not learner.method.reuses_simulator or not learner.evidence.suspects.any():
        return []
    needed = map_mismatch(learner.evidence).visits_needed[learner.evidence.suspects]
    most = float(needed.max())
    if not np.isfinite(most):
        said = "with these gaps no row is ever cleared: the simulator is not used, and every row is learnt from real data"
        return [Finding(Code.CLEARING, Level.WARNING, said, "justify a larger mismatch_gap")]
    said = f"a row that is right is cleared after {roughly(most, 'visit')}"
    return [Finding(Code.CLEARING, Level.OK, said, numbers={"visits": most})]


def _protection(problem: Problem, learner: Learner | None, guessed: bool) -> list[Finding]:
    """A gap that is overstated is dangerous where rows are cleared by all that the assumption allows."""
    settings = problem.settings
    clearing = find(settings.refinements, SequentialClearing) or find(settings.refinements, BelowGap)
    if clearing is None or learner is None or not learner.method.reuses_simulator or not learner.evidence.suspects.any():
        return []
    gap, numbers = settings.mismatch_gap / clearing.protection, {"protection": clearing.protection}
    said = f"rows that are wrong by {rounded_up(gap)} or more are never cleared, but by a chance that delta covers"
    if not guessed or clearing.protection > 1.0 or settings.mismatch_gap <= settings.calibrated_gap:
        return [Finding(Code.PROTECTION, Level.OK, said, numbers=numbers)]
    said = (
        f"mismatch_gap {settings.mismatch_gap:g} is taken at its word: a row that is wrong by less can be cleared, and "
        "nothing may ever object"
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
    """What nobody visits is not found wrong and hurts nobody; what the baseline does not visit, its data do not show."""
    model = problem.simulator
    reality = model.with_kernel(real)
    reached, visited = reachable_rows(reality), visited_rows(reality, problem.baseline)
    wrong = real.distances_to(model.kernel).reshape(-1) > problem.settings.calibrated_gap + ROUNDING
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


# Gaps from what is known of the simulator's accuracy, and what to do where none can be stated.
#
# A right row may be `calibrated_gap` off, and that is paid for at every step: Delta comes down to the gap times
# `floor_of`. A wrong row is `mismatch_gap` off at least; small is safe, and takes visits. So the accuracy gives the first
# gap, if a run can stop with it, and the visits that there will be give the smallest second one that is of use.

_MISMATCHES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
_INSTEAD = (
    "use methods.RewardFree(), which assumes no gap and reuses no row; where you can vouch for a distance of some rows, "
    "state it as Problem(..., within=...), which needs no separation"
)


def stated_accuracy(problem: Problem, accuracy: float | None) -> float | None:
    """How far right rows are off at most: as the user says, or as the rows were estimated; None where nobody knows.

    Sampling says how near an estimate is to the simulator, not how near that is to the real system: it never gives less
    than the stated calibrated_gap.
    """
    if accuracy is not None or problem.estimated is None:
        return accuracy
    rows = problem.estimated
    seen = (rows.visits > 0) & ~problem.known_rows().reshape(rows.accuracy.shape)
    return max(float(rows.accuracy[seen].max(initial=0.0)), problem.settings.calibrated_gap)


def advise_gaps(problem: Problem, accuracy: float | None, episodes: int) -> list[Recommendation]:
    """Two gaps for a simulator whose right rows are within `accuracy`; `episodes` are how many there will be.

    Nothing where no accuracy is stated, where rows were estimated without a visit, so that nothing is known of them, or
    where no gaps fit it: `advise_without_separation` speaks then.
    """
    method = SimToReal()
    given, estimated = stated_accuracy(problem, accuracy), None if accuracy is not None else problem.estimated
    if estimated is not None and (estimated.unvisited & ~problem.known_rows().reshape(estimated.visits.shape)).any():
        return []
    if given is None or not gaps_fit(problem, method, calibrated_gap=_shown(given)):
        return []
    small, model = _shown(given), problem.simulator
    rows = reachable_rows(model) & ~problem.known_rows()
    if not rows.any():
        return []
    visits = episodes * model.steps / int(rows.sum())
    needed: dict[float, float] = {}
    for large in _mismatches(problem):
        if not gaps_fit(problem, method, calibrated_gap=small, mismatch_gap=large):
            continue
        settings = replace(problem.settings, calibrated_gap=small, mismatch_gap=large)
        evidence = method.evidence(replace(problem, settings=settings))
        right = np.full(model.kernel.num_rows, small)
        needed[large] = float(np.max(visits_to_clear(evidence, right, as_seen=False)[rows]))
    possible = {large: many for large, many in needed.items() if np.isfinite(many)}
    if not possible:
        return []
    large = next((one for one, many in possible.items() if many <= visits), max(possible))
    enough = possible[large] <= visits
    floor = small * floor_of(problem, method)
    said = (
        f"{_source(given, estimated)}. With calibrated_gap {small:g} the uncertainty can come down to "
        f"{rounded_up(floor)}. {count(episodes, 'episode')} make {roughly(visits, 'visit')} to each row; a right row is "
        f"cleared after {roughly(possible[large])} with mismatch_gap {large:g}"
    )
    said += (
        ", the smallest tried that they suffice for" if enough else ", more than there will be: most rows are learnt anew"
    )
    changes = (
        change("calibrated_gap", f"{small:g}", "calibrated_gap = {}"),
        change("mismatch_gap", f"{large:g}", "mismatch_gap = {}"),
    )
    numbers: dict[str, Any] = {
        "accuracy": given,
        "estimated": estimated is not None,
        "heuristic": estimated is not None and not estimated.certified,
        "floor": floor,
        "visits_expected": visits,
        "visits_needed": {f"{one:g}": many for one, many in possible.items()},
    }
    stated = problem.settings.calibrated_gap, problem.settings.mismatch_gap
    numbers["stated_mismatch_gap"] = stated[1]
    cure = "" if stated == (small, large) else " and ".join(one.text for one in changes)
    own = "" if estimated is None else ", what sampling left open and the simulator's own error together; state more if not"
    assumes = (
        f"a row that is right is within {small:g} of the real one{own}; a row that is wrong is wrong by {large:g} or more; "
        "if you can vouch for less only, state less"
    )
    return [Recommendation(Advice.GAPS, said, cure, assumes, numbers, changes)]


def _source(given: float, estimated: RowAccuracy | None) -> str:
    """Where the accuracy is from, in words."""
    if estimated is None:
        return f"right rows are stated to be within {rounded_up(given)}"
    sampled = f"the rows of the simulator are estimated to within {rounded_up(estimated.worst)}"
    heuristic = "" if estimated.certified else "HEURISTIC, no guarantee: "
    more = f"; calibrated_gap was stated as {given:g}, which sampling does not lower" if given > estimated.worst else ""
    return f"{heuristic}{sampled}{more}"


def _mismatches(problem: Problem) -> list[float]:
    """Mismatch gaps to try, smallest first: none above the stated one, since too large a gap is unsafe."""
    stated = problem.settings.mismatch_gap
    return sorted({stated, *(one for one in _MISMATCHES if one < stated)})


def advise_without_separation(
    problem: Problem, method: Method, findings: Sequence[Finding], accuracy: float | None
) -> list[Recommendation]:
    """What to do where no gaps hold, or none that would ever clear a row."""
    if not method.reuses_simulator:
        return []
    reasons = [one for one in findings if _no_gaps(one)]
    given = stated_accuracy(problem, accuracy)
    beyond = given is not None and not gaps_fit(problem, method, calibrated_gap=_shown(given))
    if not reasons and not beyond:
        return []
    said = "; ".join(f"{one.name}: {one.what}" for one in reasons)
    if given is not None and beyond:
        most = min(problem.settings.mismatch_gap, problem.settings.tolerance / max(floor_of(problem, method), 1e-300))
        said += "; " if said else ""
        said += (
            f"the simulator is right within {rounded_up(given)} only. A calibrated_gap so large does not go with "
            f"mismatch_gap {problem.settings.mismatch_gap:g}, or cleared rows pay for it at every step, so that no run "
            f"stops; {rounded_down(most)} is the most that can do"
        )
    numbers = {"because": [one.code.value for one in reasons], "accuracy": given, "accuracy_is_too_coarse": beyond}
    assumes = "nothing of the simulator's rows; with `within`, the distances that you state"
    return [Recommendation(Advice.NO_SEPARATION, said, _INSTEAD, assumes, numbers)]


def _no_gaps(finding: Finding) -> bool:
    failing = finding.level is Level.FAILURE
    never_cleared = finding.code is Code.CLEARING and finding.level is Level.WARNING
    return never_cleared or (failing and finding.code is Code.SEPARATION)


def _shown(accuracy: float) -> float:
    return float(rounded_up(accuracy, 4))
