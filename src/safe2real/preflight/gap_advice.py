"""Gaps from what is known of the simulator's accuracy, and what to do where none can be stated.

A right row may be `calibrated_gap` off, and that is paid for at every step: Delta comes down to the gap times `floor_of`.
A wrong row is `mismatch_gap` off at least; small is safe, and takes visits. So the accuracy gives the first gap, if a run
can stop with it, and the visits that there will be give the smallest second one that is of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from safe2real.evidence.mismatch_map import visits_to_clear
from safe2real.methods.base import Method
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.constraint_text import count, roughly, rounded_down, rounded_up
from safe2real.preflight.assumptions import floor_of, gaps_fit
from safe2real.preflight.findings import Code, Finding, Level
from safe2real.preflight.guess import reachable_rows
from safe2real.preflight.recommendations import Advice, Recommendation
from safe2real.problem.accuracy import RowAccuracy
from safe2real.problem.conditions import change
from safe2real.problem.problem import Problem

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
