"""A guess of the real system, to rehearse on before it is touched: the simulator with some rows moved away.

A wrong row is mixed with another distribution, in the share that makes its TV distance to the simulator's row exactly the
gap asked for. Rows drawn at random are drawn again, a few times, when the baseline loses its margin with them: the margin is
an assumption, and a rehearsal is to show what happens where the assumptions are true. How often it was lost is kept. Rows
that are alike, by exact ties or as copies, are moved together, by their law.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
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
_FALLBACK_GAP = 0.5  # where the mismatch gap is 0, so that nothing follows from it
_ROUNDING = 1e-12


class Towards(StrEnum):
    """What a wrong row is mixed with."""

    ACTION = "action"
    """The row of another action in the same state: the machine does something else than it was told."""
    NEIGHBOURS = "neighbours"
    """The uniform distribution over all states that some action leads to from there."""
    ANYWHERE = "anywhere"
    """One state drawn at random, of all or of the declared support."""
    NEAREST = "nearest"
    """The first of the three, in this order, that can be `gap` away."""


@dataclass(frozen=True, eq=False, slots=True)
class Guess:
    """Where the simulator may be wrong, and by how much."""

    rows: int | NDArray[np.bool_] | None = None  # how many, at random; or which [S, A] ([H, S, A]); None: 5 %
    gap: float | None = None  # TV distance; None: the mismatch gap of the settings
    towards: Towards = Towards.NEAREST
    seed: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class GuessedReality:
    """A real system that might be."""

    kernel: Kernel
    wrong: NDArray[np.bool_]  # [R] rows that differ from the simulator's
    gap: float  # by this much each
    drawn: int  # random draws tried; 1 where the rows were given
    lost_margin: int  # of those, draws with which the baseline loses its margin


def guess_reality(problem: Problem, guess: Guess) -> GuessedReality:
    """Return the simulator with the rows of `guess` moved; the same guess gives the same system, bit for bit.

    Raises:
        InvalidInput: the guess is invalid, or so many rows cannot be so far from the simulator's.
    """
    model, settings = problem.simulator, problem.settings
    gap = settings.mismatch_gap if guess.gap is None else finite_number("guess.gap", guess.gap)
    if guess.gap is None and gap == 0.0:
        gap = _FALLBACK_GAP
    if not 0.0 < gap <= 1.0:
        raise InvalidInput(f"guess.gap is {gap:g}; a total variation distance is above 0 and at most 1")
    seed, known = seed_number("guess.seed", guess.seed), problem.known_rows()
    if isinstance(guess.rows, np.ndarray):
        chosen = np.flatnonzero(_given_rows(guess.rows, model.kernel) & ~known)
        return GuessedReality(*_move(problem, chosen, gap, guess, np.random.default_rng(seed)), gap, 1, 0)
    within = problem.within_rows()
    near = known if within is None else known | (within < gap - _ROUNDING)  # a guess of ours keeps to what was stated
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
    anyone = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
    return visited_rows(model, anyone)


def visited_rows(model: CMDP, policy: MarkovPolicy) -> NDArray[np.bool_]:
    """Return the rows [R] that `policy` visits on `model` with positive probability."""
    visits = occupancy(model, policy)[: model.steps]
    return np.asarray((visits.sum(axis=0) if model.kernel.is_stationary else visits).reshape(-1) > 0.0)


def _given_rows(rows: NDArray[np.bool_], kernel: Kernel) -> NDArray[np.bool_]:
    if rows.dtype != np.bool_ or rows.shape not in (kernel.shape, kernel.shape[-2:]):
        raise InvalidInput(
            f"guess.rows has shape {rows.shape} and type {rows.dtype}; give booleans of shape {kernel.shape}, a number of "
            "rows, or `pairs` or `states`"
        )
    return np.broadcast_to(rows, kernel.shape).reshape(-1)


def _move(
    problem: Problem,
    order: NDArray[np.int64],
    gap: float,
    guess: Guess,
    rng: np.random.Generator,
    count: int | None = None,
) -> tuple[Kernel, NDArray[np.bool_]]:
    """Return the simulator with the rows in `order` moved, and which these are [R].

    Of the rows the first `count` that can be moved so far, or all, where none may be left out.
    """
    if problem.copies is not None or (problem.ties is not None and problem.ties.exact):
        return _move_units(problem, order, gap, count, rng)
    towards = guess.towards
    kernel, support = problem.simulator.kernel, problem.support
    wrong = np.zeros(kernel.num_rows, dtype=np.bool_)
    columns: list[tuple[NDArray[Any], ...]] = []  # of the moved rows, as `Kernel.transitions` has them
    for row in order.tolist():
        if count is not None and len(columns) == count:
            break
        moved = _moved(kernel, support, row, gap, towards, rng)
        if moved is None:
            if count is None:
                place = np.unravel_index(row, (kernel.horizon or 1, kernel.num_states, kernel.num_actions))
                raise InvalidInput(
                    f"guess: row (state {place[1]}, action {place[2]}) cannot be {gap:g} away from the simulator's towards "
                    f"{towards.value!r}; lower guess.gap, or choose towards = 'anywhere'"
                )
            continue
        wrong[row] = True
        columns.append((np.full(moved[0].size, row), *moved))
    if count is not None and len(columns) < count and guess.rows is not None:
        raise InvalidInput(
            f"guess.rows is {count}, but only {len(columns)} rows can be {gap:g} away from the simulator's towards "
            f"{towards.value!r}; lower guess.rows or guess.gap, or choose towards = 'anywhere'"
        )
    own = kernel.transitions()
    kept = ~wrong[own[0]]
    index, onto, shares = (np.concatenate(parts) for parts in zip([one[kept] for one in own], *columns, strict=True))
    steps, states, actions = np.unravel_index(index, (kernel.horizon or 1, kernel.num_states, kernel.num_actions))
    sizes: dict[str, Any] = {"num_states": kernel.num_states, "num_actions": kernel.num_actions}
    if kernel.horizon is not None:
        sizes |= {"steps": steps, "horizon": kernel.horizon}
    return Kernel.from_triples(states, actions, onto, shares, **sizes), wrong


def _moved(
    kernel: Kernel, support: Kernel | None, row: int, gap: float, towards: Towards, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats] | None:
    """Successors and probabilities of the moved row; None where this direction does not reach so far."""
    own = summed(*kernel.row(row), kernel.num_states)
    first = row - row % kernel.num_actions
    siblings = [
        summed(*kernel.row(other), kernel.num_states) for other in range(first, first + kernel.num_actions) if other != row
    ]
    possible = np.ones(kernel.num_states, dtype=np.bool_)
    if support is not None:
        possible = summed(*support.row(row), kernel.num_states) > 0.0
    tries: list[Floats] = []
    if towards in (Towards.ACTION, Towards.NEAREST):
        tries += [siblings[i] for i in rng.permutation(len(siblings))]
    if towards in (Towards.NEIGHBOURS, Towards.NEAREST):
        around = np.logical_or.reduce([own > 0.0, *(sibling > 0.0 for sibling in siblings)]) & possible
        tries += [around / around.sum()] if around.any() else []
    if towards in (Towards.ANYWHERE, Towards.NEAREST):
        free = np.flatnonzero(possible & (own <= own[possible].min()))
        tries.append((np.arange(kernel.num_states) == rng.choice(free)).astype(np.float64))
    for target in tries:
        distance = float(np.abs(target - own).sum()) / 2.0
        if distance < gap - _ROUNDING or (target > 0.0)[~possible].any():
            continue
        share = min(1.0, gap / distance)
        mixed = (1.0 - share) * own + share * target
        places = np.flatnonzero(mixed)
        return places, mixed[places] / mixed.sum()
    return None


# Rows that are alike, by exact ties or as copies, are moved together, by their law


def _move_units(
    problem: Problem, order: NDArray[np.int64], gap: float, count: int | None, rng: np.random.Generator
) -> tuple[Kernel, NDArray[np.bool_]]:
    """(the simulator with the laws of some units `gap` away, [R] the rows that are wrong): rows that are alike stay so.

    The units are those of the rows in `order`; as many as have `count` rows or more, or all.
    """
    pooling = pooling_of(problem, ties=problem.ties is not None and problem.ties.exact)
    laws = {unit: summed(*pooling.kernel.row(unit), pooling.kernel.num_states) for unit in range(pooling.classes.size)}
    touched = np.zeros(pooling.classes.size, dtype=np.bool_) if count is None else _stated_nearer(problem, pooling, gap)
    wrong = np.zeros(pooling.unit.size, dtype=np.bool_)
    for row in order.tolist():
        unit = int(pooling.shared[row] if pooling.shared[row] >= 0 else pooling.unit[row])
        if count is not None and int(wrong.sum()) >= count:
            break
        moved = None if touched[unit] or pooling.known[unit] else _moved_law(pooling, unit, laws[unit], gap, rng)
        touched[unit] = True
        if moved is not None:
            laws[unit] = moved
            wrong |= (pooling.shared == unit) | ((pooling.unit == unit) & (pooling.shared < 0))
    return _pushed(problem.simulator.kernel, pooling, laws), wrong


def _stated_nearer(problem: Problem, pooling: Pooling, gap: float) -> NDArray[np.bool_]:
    """[U] units with a row that is stated to be less than `gap` off: a guess of ours leaves them as they are."""
    nearer, within = np.zeros(pooling.classes.size, dtype=np.bool_), problem.within_rows()
    if within is not None:
        near = within < gap - ROUNDING
        nearer[np.where(pooling.shared >= 0, pooling.shared, pooling.unit)[near]] = True
    return nearer


def _moved_law(pooling: Pooling, unit: int, law: Floats, gap: float, rng: np.random.Generator) -> Floats | None:
    """The law mixed with one of its least likely outcomes; None where none is so far away."""
    possible = np.arange(law.size)
    if pooling.support is not None and pooling.support.length[unit]:
        possible = pooling.support.row(unit)[0].astype(np.int64)
    free = possible[law[possible] <= law[possible].min()]
    target = int(rng.choice(free))
    if 1.0 - law[target] < gap - ROUNDING:
        return None
    share = min(1.0, gap / (1.0 - law[target]))
    return np.asarray((1.0 - share) * law + share * (np.arange(law.size) == target))


def _pushed(kernel: Kernel, pooling: Pooling, laws: dict[int, Floats]) -> Kernel:
    """Every row as its unit's law makes it."""
    dense = np.zeros((kernel.num_rows, kernel.num_states))
    for row in range(kernel.num_rows):
        if pooling.shared[row] < 0:
            dense[row] = laws[int(pooling.unit[row])][: kernel.num_states]
            continue
        labels = np.flatnonzero(pooling.leads[row] >= 0)
        dense[row] = summed(pooling.leads[row, labels], laws[int(pooling.shared[row])][labels], kernel.num_states)
    return Kernel.from_dense(dense.reshape((*kernel.shape, kernel.num_states)))
