"""Backward induction: the best policies for four weighted sums of reward and utilities, by one pass over the rows.

`sweep_lanes` looks at every action. `sweep_between` looks at those of two policies alone, which are a fraction of the rows:
it finds policies and their values, and no bound. Both do a range of steps for a range of states, so that threads can share
the states of every step; values and policies are the same bits for any number of them.

The searches (`dual_search`, `column_generation`) call `sweep`, `break_ties`, `evaluate` and `narrow_to`. From Python these
ask a sweeper, an object with such methods (`planning.sweeper.Sweeper`); in compiled code they work on a `Task`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled.cache import borrowing, compiled, inner, instead_of
from safe2real._compiled.evaluation import evaluate_actions
from safe2real._compiled.lanes import LANES, added, choose, expected, lane, load, prefetch, scaled, splat, store, weighed
from safe2real._compiled.rows import Array, Rows
from safe2real._compiled.transitions import dot, expectation, mean_of, rows_per_step

AHEAD = 32  # transitions between prefetching a successor's values and using them
STATES_AHEAD = 8  # the same in states, where one row of each is used
FAR = 262_144  # bytes of values beyond which they are prefetched: half of a core's own cache
NEAR, SAMPLE = 2_048, 256  # distance of states whose values stay in cache, and rows sampled to estimate distances
# A sweep of only two policies' actions is used if a policy has at least SMALL actions (H S; below, a full pass is cheaper
# than the bookkeeping) and the two differ in at most the share NARROW of them.
SMALL, NARROW = 4_096, 1.0 / 16.0


class Task(NamedTuple):
    """The model, objective and working space of a sweep; V = 1 + K values."""

    like: tuple[int, ...]  # any V numbers, so that V is known when code is compiled
    rows: Rows
    start: Array  # [S]
    reward: Array  # [1 or H, S, A]
    utilities: Array  # [K, 1 or H, S, A]
    H: int
    uniform: bool  # whether any row is uniform; if not, means need not be computed
    actions: Array  # [C, H, S] a policy in each slot
    room: Array  # [room_for(S, V)] working space


class Part(NamedTuple):
    """A part of a pass: the steps last_step - 1 down to first_step of the states first to last - 1."""

    first_step: int
    last_step: int
    first: int
    last: int


# What a search asks for


def sweep(sweeper, weights, slots, lines, pair):
    """Write the greedy policies of the weights [LANES, 1 + K] into slots [LANES], and their values into lines[slots].

    Of the actions of the policies in two slots alone, the `pair`, where it is not None: after `narrow_to` of these.
    """
    sweeper.sweep(weights, slots, lines, pair)


@instead_of(sweep, borrowing=True)
def task_sweep(task, weights, slots, lines, pair):
    sweep_part(task, weights, slots, lines, pair, Part(0, task.H, 0, task.start.size))


def break_ties(sweeper, slot, tie, lines):
    """Write the most rewarding of the safest policies, up to `tie` in every step, and its values into `lines`."""
    sweeper.break_ties(slot, tie, lines)


@instead_of(break_ties, borrowing=True)
def task_break_ties(task, slot, tie, lines):
    sweep_lexicographic(task, task.utilities[0], task.reward, tie, task.actions[slot])
    evaluate_actions(task, task.actions[slot], lines[slot])


def evaluate(sweeper, slot, lines):
    """Write the values of the policy in a slot into `lines`."""
    sweeper.evaluate(slot, lines)


@instead_of(evaluate, borrowing=True)
def task_evaluate(task, slot, lines):
    evaluate_actions(task, task.actions[slot], lines[slot])


def narrow_to(sweeper, one, other):
    """Return whether a sweep of only two policies' actions is cheaper. If so, all slots but `other` then hold `one`."""
    return sweeper.narrow_to(one, other)


@instead_of(narrow_to, borrowing=True)
def task_narrow_to(task, one, other):
    actions = task.actions
    _, H, S = actions.shape
    if H * S < SMALL:
        return False
    different = 0
    for h in range(H):
        for s in range(S):
            different += actions[one, h, s] != actions[other, h, s]
    if different > NARROW * (H * S):
        return False
    for slot in range(actions.shape[0]):
        if slot != one and slot != other:
            for h in range(H):
                for s in range(S):
                    actions[slot, h, s] = actions[one, h, s]
    return True


# What Python calls


@compiled
def sweep_called(
    like, begin, length, successor, probability, start, reward, utilities, H, uniform, actions, room,
    weights, slots, lines, pair, first_step, last_step, first, last,
):  # fmt: skip
    """Run a part of a sweep. It takes bare arrays, which numba dispatches several times faster than a tuple."""
    task = Task(like, Rows(begin, length, successor, probability), start, reward, utilities, H, uniform, actions, room)
    sweep_part(task, weights, slots, lines, pair, Part(first_step, last_step, first, last))


@compiled
def break_ties_called(task, slot, tie, lines):
    task_break_ties(task, slot, tie, lines)


@compiled
def evaluate_called(task, slot, lines):
    task_evaluate(task, slot, lines)


# How it is done


@inner
def room_for(S, size):
    """Return the length of the working space of a pass over S states and V = `size` values."""
    return 2 * S * size * LANES + 8


@inner
def values_in(task):
    """Return the working space [2, S * V * LANES], aligned to cache lines: otherwise half of all loads touch two."""
    first = (-task.room.ctypes.data) % 64 // 8
    size = task.start.size * len(task.like) * LANES
    return task.room[first : first + 2 * size].reshape((2, size))


@inner
def sweep_part(task, weights, slots, lines, pair, part):
    """Run a part of a sweep. A part that reaches the first step with all states also writes the values."""
    V, values = len(task.like), values_in(task)
    factors = np.empty(V * LANES)
    for k in range(V):
        for j in range(LANES):
            factors[k * LANES + j] = weights[j, k]
    if part.last_step == task.H:
        for i in range(values.shape[1]):
            values[task.H % 2, i] = 0.0
    if pair is not None:
        sweep_between(task, pair[0], pair[1], factors, slots, values, part)
    if pair is None:
        sweep_lanes(task, factors, slots, values, part)
    if part.first_step == 0 and part.last - part.first == task.start.size:
        write_lines(task.start, task.like, values[0], slots, lines)


@borrowing
def write_lines(start, like, values, slots, lines):
    """Write the values at the start into lines[slots[j]] for every lane j."""
    total = scaled(load(like, values, np.uint64(0)), start[0], 1.0)
    for s in range(1, start.size):
        total = added(total, scaled(load(like, values, np.uint64(s)), start[s], 1.0))
    for k in range(len(like)):
        for j in range(LANES):
            lines[slots[j], k] = lane(total[k], j)


@borrowing
def sweep_lanes(task, weights, slots, values, part):
    """Backward induction on LANES weighted sums, `weights` [1 + K, LANES] flat: policies into actions[slots[j]] for lane j.

    It carries the values of the greedy policies instead of their weighted sum, so that nothing is left to evaluate.
    Unsigned indices, because a signed one is tested for being negative at every use.
    """
    begin, length, successor, probability = task.rows
    like, reward, utilities, H, uniform = task.like, task.reward, task.utilities, task.H, task.uniform
    S, A = reward.shape[1], reward.shape[2]
    pairs = np.uint64(S * A)
    stride = rows_per_step(begin, S, A)
    between = np.uint64(utilities.shape[1]) * pairs
    final = np.uint64(successor.size - 1)
    factors = load(like, weights, np.uint64(0))
    far = 4 * values.size > FAR and leads_far(task.rows, S, A)
    one, flat = (splat(1.0),), task.actions.reshape(-1)
    for h in range(part.last_step - 1, part.first_step - 1, -1):
        later, now = values[(h + 1) % 2], values[h % 2]
        mean = mean_lanes(like, later, S) if uniform else factors
        place_0, place_1 = place_of(slots[0], h, H, S), place_of(slots[1], h, H, S)
        place_2, place_3 = place_of(slots[2], h, H, S), place_of(slots[3], h, H, S)
        pair = np.uint64(part.first * A)
        rewards = pair + (np.uint64(h) * pairs if reward.shape[0] > 1 else np.uint64(0))
        at = pair + (np.uint64(h) * pairs if utilities.shape[1] > 1 else np.uint64(0))
        row = np.uint64(h * stride) + pair
        for s in range(part.first, part.last):
            best, choice, chosen, name = splat(-np.inf), splat(0.0), factors, (splat(0.0),)
            for _ in range(A):
                i, n = np.uint64(begin[row]), np.uint64(length[row])
                end = i + n
                if far:
                    for j in range(i + np.uint64(AHEAD), end + np.uint64(AHEAD)):
                        prefetch(like, later, np.uint64(successor[j if j < final else final]))
                total = expected(like, reward, utilities, at, rewards, between, i, end, probability, successor, later)
                if n == 0:
                    total = added(total, mean)
                best, choice, chosen = choose(factors, total, name[0], best, choice, chosen)
                name = added(name, one)
                row += np.uint64(1)
                at += np.uint64(1)
                rewards += np.uint64(1)
            store(chosen, now, np.uint64(s))
            flat[place_0 + np.uint64(s)] = np.int64(lane(choice, 0))
            flat[place_1 + np.uint64(s)] = np.int64(lane(choice, 1))
            flat[place_2 + np.uint64(s)] = np.int64(lane(choice, 2))
            flat[place_3 + np.uint64(s)] = np.int64(lane(choice, 3))


@borrowing
def sweep_between(task, one, other, weights, slots, values, part):
    """Sweep like `sweep_lanes`, over the actions of the policies in the slots `one` and `other` only.

    Nothing is written where the two agree: the other slots hold that action already, from `narrow_to` or an earlier pass.
    """
    begin, length, successor, _ = task.rows
    like, reward, utilities, H, uniform = task.like, task.reward, task.utilities, task.H, task.uniform
    S, A = reward.shape[1], np.uint64(reward.shape[2])
    pairs = np.uint64(S) * A
    stride = rows_per_step(begin, S, reward.shape[2])
    factors = load(like, weights, np.uint64(0))
    flat = task.actions.reshape(-1)
    far = 4 * values.size > FAR and leads_far(task.rows, S, reward.shape[2])
    final = np.uint64(part.last - 1)
    for h in range(part.last_step - 1, part.first_step - 1, -1):
        later, now = values[(h + 1) % 2], values[h % 2]
        mean = mean_lanes(like, later, S) if uniform else factors
        of_one, of_other = place_of(one, h, H, S), place_of(other, h, H, S)
        rewards = np.uint64(h) * pairs if reward.shape[0] > 1 else np.uint64(0)
        at = np.uint64(h) * pairs if utilities.shape[1] > 1 else np.uint64(0)
        row = np.uint64(h * stride)
        for s in range(np.uint64(part.first), np.uint64(part.last)):
            if far:
                soon = s + np.uint64(STATES_AHEAD)
                soon = soon if soon < final else final
                soon_row = row + soon * A + np.uint64(flat[of_one + soon])
                soon_begin = np.uint64(begin[soon_row])
                for j in range(soon_begin, soon_begin + np.uint64(length[soon_row])):
                    prefetch(like, later, np.uint64(successor[j]))
            action, second = np.uint64(flat[of_one + s]), np.uint64(flat[of_other + s])
            chosen = promise(task, s * A + action, row, rewards, at, later, mean)
            if second != action:
                total = promise(task, s * A + second, row, rewards, at, later, mean)
                choice, names = splat(np.float64(action)), splat(np.float64(second))
                _, choice, chosen = choose(factors, total, names, weighed(factors, chosen), choice, chosen)
                for j in range(LANES):
                    flat[place_of(slots[j], h, H, S) + s] = np.int64(lane(choice, j))
            store(chosen, now, s)


@borrowing
def promise(task, pair, row, rewards, at, later, mean):
    """Return the values [V] of a state and action, `pair`; the step's rows and utilities begin at `row`, `rewards`, `at`."""
    begin, length, successor, probability = task.rows
    reward, utilities = task.reward, task.utilities
    between = np.uint64(utilities.shape[1] * utilities.shape[2] * utilities.shape[3])
    first, n = np.uint64(begin[row + pair]), np.uint64(length[row + pair])
    total = expected(
        task.like, reward, utilities, at + pair, rewards + pair, between, first, first + n, probability, successor, later
    )
    return added(total, mean) if n == 0 else total


@borrowing
def leads_far(rows, S, A):
    """Return whether most transitions, in a sample of rows, lead to distant states, whose values are unlikely in cache."""
    near, seen = 0, 0
    for row in range(0, rows.begin.size, rows.begin.size // SAMPLE + 1):
        s = row // A % S
        for i in range(np.uint64(rows.begin[row]), np.uint64(rows.begin[row]) + np.uint64(rows.length[row])):
            near += abs(np.int64(rows.successor[i]) - s) < NEAR
            seen += 1
    return 2 * near < seen


@borrowing
def place_of(slot, h, H, S):
    """Return the index of the action for state 0 in step h of a slot's policy in flat `actions` [C, H, S]."""
    return np.uint64((slot * H + h) * S)


@borrowing
def mean_lanes(like, values, S):
    """Return the expectation of `values` [S, V, LANES], flat, in a uniform row."""
    total = load(like, values, np.uint64(0))
    for s in range(1, S):
        total = added(total, load(like, values, np.uint64(s)))
    return scaled(total, 1.0, np.float64(S))


@inner
def sweep_one(task, actions, part):
    """Backward induction on the reward alone, a part of it: the greedy policy into `actions` [H, S]; returns its value."""
    rows, reward = task.rows, task.reward
    S, A = reward.shape[1], reward.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    values = task.room[: 2 * S].reshape((2, S))
    if part.last_step == task.H:
        for s in range(S):
            values[task.H % 2, s] = 0.0
    for h in range(part.last_step - 1, part.first_step - 1, -1):
        utility, later, now = reward[h if reward.shape[0] > 1 else 0], values[(h + 1) % 2], values[h % 2]
        mean = mean_of(later) if task.uniform else 0.0
        row = np.uint64(h * stride + part.first * A)
        for s in range(part.first, part.last):
            best = -np.inf
            choice = np.uint32(0)
            for a in range(A):
                q = utility[s, a] + expectation(rows, row, later, mean)
                row += np.uint64(1)
                # Written as selections, not a branch: which action wins cannot be predicted.
                better = q > best
                best = q if better else best
                choice = np.uint32(a) if better else choice
            now[s] = best
            actions[h, s] = choice
    return dot(task.start, values[0])


@compiled
def sweep_one_called(task, actions, first_step, last_step, first, last):
    return sweep_one(task, actions, Part(first_step, last_step, first, last))


@inner
def sweep_lexicographic(task, first, second, tie, actions):
    """Backward induction on `first`; among actions within `tie` of the best, the one with the largest `second`."""
    rows, H = task.rows, task.H
    S, A = first.shape[1], first.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    q = np.empty((2, A))
    parts = task.room[: 4 * S].reshape((2, 2, S))
    for s in range(S):
        parts[H % 2, 0, s] = parts[H % 2, 1, s] = 0.0
    for h in range(H - 1, -1, -1):
        later, now = (h + 1) % 2, h % 2
        v, w = parts[later, 0], parts[later, 1]
        v_mean, w_mean = mean_of(v), mean_of(w)
        first_step, second_step = h if first.shape[0] > 1 else 0, h if second.shape[0] > 1 else 0
        row = np.uint64(h * stride)
        for s in range(S):
            best = -np.inf
            for a in range(A):
                q[0, a] = first[first_step, s, a] + expectation(rows, row, v, v_mean)
                q[1, a] = second[second_step, s, a] + expectation(rows, row, w, w_mean)
                row += np.uint64(1)
                best = q[0, a] if q[0, a] > best else best
            choice = -1
            for a in range(A):
                if q[0, a] >= best - tie and (choice < 0 or q[1, a] > q[1, choice]):
                    choice = a
            parts[now, 0, s], parts[now, 1, s] = q[0, choice], q[1, choice]
            actions[h, s] = choice
