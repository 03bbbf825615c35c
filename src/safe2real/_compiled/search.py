"""The best mixture of policies under K constraints in a known model, by the search for K and sweeps over the rows.

Python runs the search as it is written and calls compiled code for every pass, so that a first plan compiles one pass and
nothing else. Compiled rounds compile the search as well, and so does a process that plans often: the same source, the same
numbers to the last bit.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from safe2real._compiled import codes, column_generation, dual_search, sweeps
from safe2real._compiled.cache import borrowing, compiled, instead_of
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Array, Rows
from safe2real._compiled.team import Team
from safe2real._compiled.transitions import any_uniform

OFTEN = 1_000  # plans of a process after which the search is compiled, which takes as long as some 30,000 plans


def like_of(constraints: int) -> tuple[int, ...] | None:
    """Return a tuple of 1 + K zeros for K >= 2 constraints, so that K is known at compile time; else None."""
    return (0,) * (1 + constraints) if constraints > 1 else None


def find(
    sweeper: Any, lines: Array, weights: Array, multipliers: Array, thresholds: Array, H: int, warm: int, rate: float
) -> Any:
    """The best mixture of the policies in a sweeper's slots: (status, bound, shortfall, passes).

    The first `warm` slots hold policies to start from, and `multipliers` [K] what went with them. `rate` is the extent of
    the reward (largest minus smallest entry) over that of the utility, where K = 1. `lines` [C, 1 + K], `weights` [C] and
    `multipliers` are written.
    """
    with np.errstate(all="ignore"):  # as compiled code, which checks no division
        if thresholds.size > 1:
            return column_generation.find(sweeper, lines, weights, multipliers, thresholds, H, warm)
        if thresholds.size == 1:
            return dual_search.find(sweeper, lines, weights, multipliers, thresholds, H, warm, rate)
        sweeper.sweep(np.ones((LANES, 1)), np.zeros(LANES, dtype=np.int64), lines, None)
        weights[0] = 1.0
        return codes.OPTIMAL, float(lines[0, 0]), 0.0, 1


def solve(
    like: tuple[int, ...] | None, rows: Rows, start: Array, reward: Array, utilities: Array, thresholds: Array, H: int,
    warm: int, actions: Array, lines: Array, weights: Array, multipliers: Array, threads: int,
) -> Any:  # fmt: skip
    """Search like `find`, with compiled passes by `threads`; `actions` [C, H, S] are the slots, `like` is of `like_of`."""
    if next(_plans) >= OFTEN and threads == 1 and actions.dtype == np.uint32:
        return solve_often(like, *rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers)
    rate = np.ptp(reward) / max(np.ptp(utilities[0]), 1e-300) if thresholds.size == 1 else 1.0
    task = sweeps.Task(
        (0,) * (1 + thresholds.size), rows, start, reward, utilities, H, any_uniform(rows), actions,
        np.empty(2 * start.size * (1 + thresholds.size) * LANES + 8),
    )  # fmt: skip
    if threads == 1:
        return find(Passes(task, None), lines, weights, multipliers, thresholds, H, warm, rate)
    with Team(threads, start.size) as team:
        return find(Passes(task, team), lines, weights, multipliers, thresholds, H, warm, rate)


_plans = count()  # of this process


class Passes:
    """A sweeper (`planning.sweeper.Sweeper`) over the rows of a known model."""

    def __init__(self, task, team):
        self.task, self.team = task, team
        self.given = (task.like, *task.rows, *task[2:])

    def sweep(self, weights, slots, lines, pair):
        if weights.shape[1] == 1:
            lines[0, 0] = self.run(sweeps.sweep_one_called, self.task, self.task.actions[0])
        else:
            self.run(sweeps.sweep_called, *self.given, weights, slots, lines, pair)

    def run(self, function, *given):
        """Run a pass: in one call, or step by step with the states split among threads."""
        H, S = self.task.H, self.task.start.size
        if self.team is None:
            return function(*given, 0, H, 0, S)
        for h in range(H - 1, -1, -1):
            self.team.share(function, *given, h, h + 1)
        return function(*given, 0, 0, 0, S)

    def break_ties(self, slot, tie, lines):
        sweeps.break_ties_called(self.task, slot, tie, lines)

    def evaluate(self, slot, lines):
        sweeps.evaluate_called(self.task, slot, lines)

    def narrow_to(self, one, other):
        actions = self.task.actions
        pairs = actions[0].size
        if pairs < sweeps.SMALL or np.count_nonzero(actions[one] != actions[other]) > sweeps.NARROW * pairs:
            return False
        for slot in range(len(actions)):
            if slot not in (one, other):
                actions[slot] = actions[one]
        return True


@instead_of(solve)
def solve_compiled(like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, threads):
    uniform = any_uniform(rows)
    if like is not None:
        room = np.empty(sweeps.room_for(start.size, len(like)))
        task = sweeps.Task(like, rows, start, reward, utilities, H, uniform, actions, room)
        found = column_generation.find(task, lines, weights, multipliers, thresholds, H, warm)
    if like is None:
        room = np.empty(sweeps.room_for(start.size, 2))
        task = sweeps.Task((0, 0), rows, start, reward, utilities, H, uniform, actions, room)
        if thresholds.size > 0:
            rate = extent(reward) / max(extent(utilities[0]), 1e-300)
            found = dual_search.find(task, lines, weights, multipliers, thresholds, H, warm, rate)
        else:
            lines[0, 0] = sweeps.sweep_one(task, actions[0], sweeps.Part(0, H, 0, start.size))
            weights[0] = 1.0
            found = codes.OPTIMAL, lines[0, 0], 0.0, 1
    return found


@compiled
def solve_often(
    like, begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """Run `solve` compiled. It takes bare arrays, which numba dispatches several times faster than a tuple."""
    rows = Rows(begin, length, successor, probability)
    return solve_compiled(like, rows, start, reward, utilities, thresholds, H, warm, actions, lines, weights, multipliers, 1)


@borrowing
def extent(x):
    """Largest minus smallest entry of x [1 or H, S, A]."""
    low, high = x[0, 0, 0], x[0, 0, 0]
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            for a in range(x.shape[2]):
                low = x[h, s, a] if x[h, s, a] < low else low
                high = x[h, s, a] if x[h, s, a] > high else high
    return high - low
