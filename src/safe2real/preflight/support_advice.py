"""Whether to declare the simulator's successors as the possible ones: what it saves, and what it assumes.

Of a row that can lead anywhere every set of states has to be spoken of at once; of one with m possible successors, sets of
these. So its radius is smaller after the same visits, and a row with one possible successor is known after one visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.mismatch_map import radius_after, visits_to_radius
from safe2real.methods.base import Method
from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.preflight.comparison import samples_until
from safe2real.preflight.findings import Advice, Recommendation, rows_left
from safe2real.preflight.hypothetical_reality import Guess, guess_reality, reachable_rows
from safe2real.preflight.rehearsed_runs import Look, Trial
from safe2real.problem.problem import Problem

_VISITS = 1_000  # at which radii are compared: where a row begins to say something
_WORTHWHILE = 1.05  # times fewer visits or episodes; below, a declaration is a risk for nothing


def advise_support(
    problem: Problem,
    method: Method,
    reality: Kernel | Guess,
    rollouts: Sequence[Trajectory] = (),
    rehearse: Callable[[Problem, Method, Kernel], Trial] | None = None,
) -> list[Recommendation]:
    """What declaring the simulator's successors would save.

    A stated `reality` and `rollouts` are held against the declaration; a guess is made again so that it keeps to it.
    `rehearse` runs one rehearsal of a problem by a method on a reality, for what it saves in episodes. Nothing is
    recommended where a support is declared, where ties or copies make the rows, and where every row can lead anywhere as it
    is.
    """
    kernel = problem.simulator.kernel
    if problem.support is not None or (problem.ties is not None and problem.ties.exact) or problem.copies is not None:
        return []
    sizes = np.where(kernel.length == 0, kernel.num_states, kernel.length).astype(np.int64)
    rows = reachable_rows(problem.simulator) & ~problem.known_rows()
    limited = rows & (sizes < kernel.num_states)
    if not limited.any():
        return []
    before, after = method.evidence(problem), method.evidence(replace(problem, support=kernel))
    radii = radius_after(before, _VISITS, sizes)
    several = limited & (sizes > 1)
    narrower, fewer = 1.0, 1.0
    if several.any():
        needed = visits_to_radius(after, radii, sizes)
        narrower = float(np.median(radius_after(after, _VISITS, sizes)[several] / radii[several]))
        fewer = float(np.median(_VISITS / needed[several]))
    single = int((limited & (sizes == 1)).sum())
    real = reality if isinstance(reality, Kernel) else None
    elsewhere, seen_elsewhere = _outside(kernel, real), rows_left(kernel, rollouts)
    against = elsewhere | seen_elsewhere
    numbers: dict[str, float] = {
        "rows": int(limited.sum()),
        "successors": float(np.median(sizes[limited])),
        "states": kernel.num_states,
        "radius_factor": narrower,
        "visits_factor": fewer,
        "rows_with_one_successor": single,
        "rows_against": int(against.sum()),
    }
    said = (
        f"the simulator leads from {count(int(limited.sum()), 'row')} to {numbers['successors']:g} of {kernel.num_states} "
        "states (median). If these were declared as all that is possible"
    )
    gains = [f"{count(single, 'row')} with one successor would be known after one visit"] if single else []
    measured = None
    if rehearse is not None and not against.any():
        measured = _rehearsed(problem, method, reality, rehearse)
    if measured is not None:
        numbers |= {
            "episodes_before": measured[0],
            "episodes_after": measured[1],
            "episodes_factor": measured[0] / measured[1],
        }
        gains.append(
            f"one rehearsal would come as far after {count(measured[1], 'episode')} as without it after {measured[0]:,.0f}, "
            f"{numbers['episodes_factor']:.2g} times fewer"
        )
    elif several.any():
        gains.append(
            f"radii of rows with several successors would be {1.0 - narrower:.0%} narrower at {count(_VISITS, 'visit')}; "
            "what that saves in episodes was not rehearsed, and can be far more"
        )
    said = f"{said}, {' and '.join(gains)}"
    if not single and max(fewer, numbers.get("episodes_factor", 1.0)) < _WORTHWHILE:
        return []
    if against.any():
        sources = (("the stated reality", elsewhere), ("the rollouts", seen_elsewhere))
        seen = " and ".join(source for source, rows in sources if rows.any())
        said += f". But it is false: in {count(int(against.sum()), 'row')} {seen} lead elsewhere"
        cure = "declare a support only with these successors too, or none"
        return [Recommendation(Advice.SUPPORT, said, cure, numbers=numbers)]
    cure = "Problem(..., support=simulator.kernel), or a kernel with all that can follow; [support] in a specification"
    assumes = "no step of the real system ever leads from a row to a state that the simulator rules out there"
    if problem.estimated is not None:
        assumes += "; this simulator was estimated, and what was not sampled is not impossible: add what physics allows"
    return [Recommendation(Advice.SUPPORT, said, cure, assumes, numbers)]


def _rehearsed(
    problem: Problem, method: Method, reality: Kernel | Guess, rehearse: Callable[[Problem, Method, Kernel], Trial]
) -> tuple[float, float] | None:
    """(episodes without the support, with it) until one rehearsal came as far as the worse of both did.

    None where no such reality keeps to the support, or no bound was reached.
    """
    declared = replace(problem, support=problem.simulator.kernel)
    try:
        real = reality if isinstance(reality, Kernel) else guess_reality(declared, reality).kernel
    except InvalidInput:  # as many rows cannot be as wrong as that within the support
        return None
    both = [_course(method, rehearse(one, method, real)) for one in (problem, declared)]
    bound = float(np.max([looks[-1].plan_bound for looks in both]))  # nan if either is
    if not np.isfinite(bound):
        return None
    without, having = (samples_until(looks, bound) / problem.simulator.steps for looks in both)
    return without, having


def _course(method: Method, trial: Trial) -> Sequence[Look]:
    """How a rehearsal came nearer to what it was after: plans for random rewards, or what declared rewards are short of."""
    if method.covers_any_reward:
        return trial.looks
    pairs = zip(trial.samples_at.tolist(), trial.uncertainty_at.tolist(), strict=True)
    course = [Look(samples, delta, delta, 0) for samples, delta in pairs]
    return [*course, replace(trial.looks[-1], plan_bound=trial.uncertainty)]


def _outside(kernel: Kernel, real: Kernel | None) -> NDArray[np.bool_]:
    """[R] rows that lead to where the simulator does not in a reality that is stated."""
    outside = np.zeros(kernel.num_rows, dtype=np.bool_)
    if real is None:
        return outside
    for row in np.flatnonzero(kernel.length).tolist():
        outside[row] = not np.isin(real.row(row)[0], kernel.row(row)[0]).all()
    return outside
