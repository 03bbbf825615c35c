"""A guess of the real system, to rehearse on: the simulator with some rows moved away.

A wrong row is mixed with another distribution, in the share that makes its TV distance to the simulator's row exactly the
gap asked for. Random rows are drawn again, a few times, when the baseline loses its margin with them: the margin is an
assumption, and a rehearsal must show a run on which the assumptions are true. The number of lost margins is kept. Rows
that are alike, by exact ties or as copies, are moved together, by their law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.pooling import Pooling, pooling_of
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import ROUNDING, Floats, finite_number, is_whole, seed_number, shown
from safe2real.planning.evaluate import constraint_values, occupancy
from safe2real.problem.problem import Problem
from safe2real.problem.ties import summed

SHARE = 0.05  # of the rows that can be reached, where no number is given
TRIES = 20
_FALLBACK_GAP = 0.5  # where the mismatch gap is 0 and implies no distance


@dataclass(frozen=True, eq=False, slots=True)
class Guess:
    """A guess of which rows of the simulator are wrong, and by how much."""

    rows: int | NDArray[np.bool_] | None = None  # how many, at random; or which [S, A] ([H, S, A]); None: 5 %
    gap: float | None = None  # TV distance; None: the mismatch gap of the settings
    seed: int = 0

    def __post_init__(self) -> None:
        seed_number("guess.seed", self.seed)
        if self.gap is not None and not 0.0 < finite_number("guess.gap", self.gap) <= 1.0:
            raise InvalidInput(f"guess.gap is {self.gap:g}; a total variation distance is above 0 and at most 1")


@dataclass(frozen=True, eq=False, slots=True)
class GuessedReality:
    """A hypothetical real system."""

    kernel: Kernel
    wrong: NDArray[np.bool_]  # [R] rows that differ from the simulator's
    gap: float  # by this much each
    drawn: int  # random draws tried; 1 where the rows were given
    lost_margin: int  # of those, draws with which the baseline loses its margin


def guess_reality(problem: Problem, guess: Guess) -> GuessedReality:
    """Return the simulator with the rows of `guess` moved; the same guess gives the same system, bit for bit.

    Raises:
        InvalidInput: the guess is invalid, or that many rows cannot be that far from the simulator's.
    """
    model, settings = problem.simulator, problem.settings
    gap = guess.gap or settings.mismatch_gap or _FALLBACK_GAP
    seed, known = guess.seed, problem.known_rows()
    if isinstance(guess.rows, np.ndarray):
        chosen = np.flatnonzero(_given_rows(guess.rows, model.kernel) & ~known)
        return GuessedReality(*_move(problem, chosen, gap, guess, np.random.default_rng(seed)), gap, 1, 0)
    near = known | (problem.within_rows() < gap - ROUNDING)  # random rows respect `within`
    candidates = np.flatnonzero(reachable_rows(model) & ~near)
    count = min(max(1, round(SHARE * candidates.size)), candidates.size) if guess.rows is None else guess.rows
    if not is_whole(count) or not 0 <= count <= candidates.size:
        raise InvalidInput(
            f"guess.rows is {shown(count)}; give how many rows are wrong, at most the {candidates.size} that an episode can "
            "reach and that are neither known nor stated to be nearer (`within`), or list them"
        )
    needed = model.thresholds + problem.margins
    for tried in range(TRIES):
        rng = np.random.default_rng([seed, tried])
        kernel, wrong = _move(problem, rng.permutation(candidates), gap, guess, rng, int(count))
        if (constraint_values(model.with_kernel(kernel), problem.baseline) >= needed - ROUNDING).all():
            return GuessedReality(kernel, wrong, gap, tried + 1, tried)
    return GuessedReality(kernel, wrong, gap, TRIES, TRIES)


def reachable_rows(model: CMDP) -> NDArray[np.bool_]:
    """Return the rows [R] that some policy visits on `model`."""
    uniform = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
    return visited_rows(model, uniform)


def visited_rows(model: CMDP, policy: MarkovPolicy) -> NDArray[np.bool_]:
    """Return the rows [R] that `policy` visits on `model` with positive probability."""
    visits = occupancy(model, policy)[: model.steps]
    return np.asarray((visits.sum(axis=0) if model.kernel.is_stationary else visits).reshape(-1) > 0.0)


def _given_rows(rows: NDArray[np.bool_], kernel: Kernel) -> NDArray[np.bool_]:
    if rows.dtype != np.bool_ or rows.shape not in (kernel.shape, kernel.shape[-2:]):
        raise InvalidInput(
            f"guess.rows has shape {rows.shape} and type {rows.dtype}; give booleans of shape {kernel.shape}, or a "
            "number of rows"
        )
    return np.broadcast_to(rows, kernel.shape).reshape(-1)


def _move(
    problem: Problem, order: NDArray[np.int64], gap: float, guess: Guess, rng: np.random.Generator, count: int | None = None
) -> tuple[Kernel, NDArray[np.bool_]]:
    """Return the simulator with the rows in `order` moved, and which these are [R].

    It moves the first `count` rows that can be moved that far, or all of them if `count` is None. Rows that are alike, by
    exact ties or as copies, are one unit: its law is moved, and pushed to each of them.
    """
    kernel = problem.simulator.kernel
    pooling = pooling_of(problem, problem.exact_ties) if problem.rows_alike else None
    moved: dict[int, Floats] = {}  # the new distribution of each wrong row
    unit_of, done = np.arange(kernel.num_rows), np.zeros(kernel.num_rows, dtype=np.bool_)
    if pooling is not None:
        unit_of, done = np.where(pooling.shared >= 0, pooling.shared, pooling.unit), pooling.known.copy()
        if count is not None:  # random rows respect `within`
            done[unit_of[problem.within_rows() < gap - ROUNDING]] = True
    for row in order.tolist():
        if count is not None and len(moved) >= count:
            break
        unit = int(unit_of[row])
        if done[unit]:
            continue
        done[unit] = True
        if pooling is None:
            new, alike = _moved_row(kernel, problem.support, row, gap, rng), [row]
        else:
            new, alike = _moved_law(pooling, unit, gap, rng), np.flatnonzero(unit_of == unit).tolist()
        if new is not None:
            moved |= {one: new if pooling is None else _pushed(pooling, one, new, kernel) for one in alike}
        elif count is None and pooling is None:
            _, state, action = np.unravel_index(row, (kernel.horizon or 1, kernel.num_states, kernel.num_actions))
            raise InvalidInput(
                f"guess: row (state {state}, action {action}) cannot be {gap:g} away from the simulator's; lower guess.gap"
            )
    if count is not None and len(moved) < count and guess.rows is not None and pooling is None:
        raise InvalidInput(
            f"guess.rows is {count}, but only {len(moved)} rows can be {gap:g} away from the simulator's; lower guess.rows "
            "or guess.gap"
        )
    wrong = np.zeros(kernel.num_rows, dtype=np.bool_)
    wrong[list(moved)] = True
    return _with_rows(kernel, moved, wrong), wrong


def _with_rows(kernel: Kernel, moved: dict[int, Floats], wrong: NDArray[np.bool_]) -> Kernel:
    """The kernel with the rows in `moved`, which are `wrong` [R], in place of its own."""
    columns: list[tuple[NDArray[Any], ...]] = []  # as `Kernel.transitions` has them
    for row, new in moved.items():
        places = np.flatnonzero(new)
        columns.append((np.full(places.size, row), places, new[places] / new.sum()))
    own = kernel.transitions()
    kept = ~wrong[own[0]]
    index, onto, shares = (np.concatenate(parts) for parts in zip([one[kept] for one in own], *columns, strict=True))
    steps, states, actions = np.unravel_index(index, (kernel.horizon or 1, kernel.num_states, kernel.num_actions))
    sizes: dict[str, Any] = {"num_states": kernel.num_states, "num_actions": kernel.num_actions}
    if kernel.horizon is not None:
        sizes |= {"steps": steps, "horizon": kernel.horizon}
    return Kernel.from_triples(states, actions, onto, shares, **sizes)


def _moved_row(kernel: Kernel, support: Kernel | None, row: int, gap: float, rng: np.random.Generator) -> Floats | None:
    """Return the row [S] mixed with the first distribution that is `gap` away; None if there is none.

    These are the rows of other actions in the same state (the machine confuses its actions), the uniform distribution over
    all states that some action leads to from there, and one of the least likely states.
    """
    action = row % kernel.num_actions
    rows = np.stack([summed(*kernel.row(row - action + one), kernel.num_states) for one in range(kernel.num_actions)])
    own, others = rows[action], np.delete(rows, action, axis=0)
    possible = _possible(support, row, kernel.num_states)
    tries: list[Floats] = [*others[rng.permutation(len(others))]]
    around = (rows > 0.0).any(axis=0) & possible
    tries += [around / around.sum()] if around.any() else []
    tries.append(_least_likely(own, possible, rng))
    mixed = (_mixed(own, target, gap) for target in tries if not (target > 0.0)[~possible].any())
    return next((one for one in mixed if one is not None), None)


def _moved_law(pooling: Pooling, unit: int, gap: float, rng: np.random.Generator) -> Floats | None:
    """Return a unit's law mixed with one of its least likely outcomes; None if that cannot reach the gap."""
    law = summed(*pooling.kernel.row(unit), pooling.kernel.num_states)
    return _mixed(law, _least_likely(law, _possible(pooling.support, unit, law.size), rng), gap)


def _possible(support: Kernel | None, row: int, size: int) -> NDArray[np.bool_]:
    """Return the outcomes [size] that the declared support of a row allows; a row of length 0 may lead anywhere."""
    if support is None or not support.length[row]:
        return np.ones(size, dtype=np.bool_)
    return np.asarray(summed(*support.row(row), size) > 0.0)


def _pushed(pooling: Pooling, row: int, law: Floats, kernel: Kernel) -> Floats:
    """Return the row [S] that follows from the law of its unit."""
    if pooling.shared[row] < 0:
        return law[: kernel.num_states]
    labels = np.flatnonzero(pooling.leads[row] >= 0)
    return summed(pooling.leads[row, labels], law[labels], kernel.num_states)


def _least_likely(own: Floats, possible: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """Return a point mass on one of the least likely `possible` outcomes."""
    free = np.flatnonzero(possible & (own <= own[possible].min()))
    return np.asarray(np.arange(own.size) == rng.choice(free), dtype=np.float64)


def _mixed(own: Floats, target: Floats, gap: float) -> Floats | None:
    """Return `own` moved towards `target` until it is `gap` away; None if the target itself is nearer."""
    distance = float(np.abs(target - own).sum()) / 2.0
    if distance < gap - ROUNDING:
        return None
    share = min(1.0, gap / distance)
    return np.asarray((1.0 - share) * own + share * target)
