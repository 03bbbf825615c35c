"""Backward induction: the best policies for four weighted sums of reward and utilities, by one pass over the rows.

`sweep_lanes` looks at every action. `sweep_between` looks at those of two policies alone, which are a fraction of the rows:
it finds policies and their values, and no bound.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.lanes import LANES, added, choose, expected, lane, load, prefetch, scaled, splat, store, weighed
from safe2real._compiled.team import share_of, wait_for_all
from safe2real._compiled.transitions import dot, expectation, mean_of, rows_per_step

AHEAD = 32  # transitions between asking for a successor's values and using them
STATES_AHEAD = 8  # the same in states, where one row of each is used
FAR = 262_144  # bytes of values beyond which they are asked for ahead: half a processor's own cache
NEAR, SAMPLE = 2_048, 256  # states whose values are soon read again anyway, and rows that are looked at to know


@inner
def sweep(instance, weighted, actions, values, team):
    """Backward induction on `weighted` [1 or H, S, A]: the greedy policy into `actions` [H, S]; returns its weighted value.

    `values` [2, S] is working space that the team shares.
    """
    rows, H = instance.rows, instance.H
    S, A = weighted.shape[1], weighted.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    begun, ended = share_of(team, S)
    values[H % 2, begun:ended] = 0.0
    wait_for_all(team)
    for h in range(H - 1, -1, -1):
        utility, later, now = weighted[h if weighted.shape[0] > 1 else 0], values[(h + 1) % 2], values[h % 2]
        mean = mean_of(later) if instance.uniform else 0.0
        row = np.uint64(h * stride + begun * A)
        for s in range(begun, ended):
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
        wait_for_all(team)
    total = dot(instance.start, values[0])
    wait_for_all(team)  # before anybody writes values again
    return total


@compiled
def room_for(S, size):
    """How many numbers of working space `sweep_lanes` needs for S states and V = `size` values."""
    return 2 * S * size * LANES + 8


@inner
def values_in(room, S, size):
    """The working space [2, S * V * LANES] on a boundary of cache lines: half of all loads would touch two otherwise."""
    first = (-room.ctypes.data) % 64 // 8
    return room[first : first + 2 * S * size * LANES].reshape((2, S * size * LANES))


@inner
def sweep_lanes(instance, like, weights, slots, actions, lines, room, team):
    """Backward induction on LANES weighted sums of the reward and K utilities at once.

    weights [1 + K, LANES] flat. The greedy policies go into actions[slots[j]] [H, S] and their values into lines[slots[j]],
    for every lane j. `like` is any tuple of 1 + K; `room` is working space that the team shares.
    """
    values = values_in(room, instance.reward.shape[1], len(like))
    if instance.packed and not instance.uniform:
        sweep_over(instance, like, None, weights, slots, actions, values, team)
    else:
        sweep_over(instance, like, True, weights, slots, actions, values, team)
    write_lines(instance.start, like, values[0], slots, lines)
    wait_for_all(team)  # before anybody writes values again


@inner
def write_lines(start, like, values, slots, lines):
    """The values at the start, into lines[slots[j]] for every lane j."""
    total = scaled(load(like, values, np.uint64(0)), start[0], 1.0)
    for s in range(1, start.size):
        total = added(total, scaled(load(like, values, np.uint64(s)), start[s], 1.0))
    for k in range(len(like)):
        for j in range(LANES):
            lines[slots[j], k] = lane(total[k], j)


@inner
def sweep_over(instance, like, any_rows, weights, slots, actions, values, team):
    """`sweep_lanes` for rows of any kind, or (`any_rows` is None) for packed ones of which none is uniform.

    It carries the values of the greedy policies instead of their weighted sum, so that nothing is left to evaluate.
    `any_rows` is known when this is compiled: where it is None `begin` need not be read. Unsigned indices, because a signed
    one is tested for being negative at every use.
    """
    begin, length, successor, probability = instance.rows
    reward, utilities, H, uniform = instance.reward, instance.utilities, instance.H, instance.uniform
    S, A = reward.shape[1], reward.shape[2]
    pairs = np.uint64(S * A)
    stride = rows_per_step(begin, S, A)
    between = np.uint64(utilities.shape[1]) * pairs
    final = np.uint64(successor.size - 1)
    first, last = share_of(team, S)
    factors = load(like, weights, np.uint64(0))
    far = 4 * values.size > FAR and leads_far(instance.rows, S, reward.shape[2])
    one, flat = (splat(1.0),), actions.reshape(-1)
    for s in range(first * len(like) * LANES, last * len(like) * LANES):
        values[H % 2, s] = 0.0
    wait_for_all(team)
    for h in range(H - 1, -1, -1):
        later, now = values[(h + 1) % 2], values[h % 2]
        mean = mean_lanes(like, later, S) if uniform else factors
        place_0, place_1 = place_of(slots[0], h, H, S), place_of(slots[1], h, H, S)
        place_2, place_3 = place_of(slots[2], h, H, S), place_of(slots[3], h, H, S)
        pair = np.uint64(first * A)
        rewards = pair + (np.uint64(h) * pairs if reward.shape[0] > 1 else np.uint64(0))
        at = pair + (np.uint64(h) * pairs if utilities.shape[1] > 1 else np.uint64(0))
        row = np.uint64(h * stride) + pair
        i = np.uint64(begin[row])
        for s in range(first, last):
            best, choice, chosen, name = splat(-np.inf), splat(0.0), factors, (splat(0.0),)
            for _ in range(A):
                n = np.uint64(length[row])
                if any_rows is not None:
                    i = np.uint64(begin[row])
                end = i + n
                if far:
                    for j in range(i + np.uint64(AHEAD), end + np.uint64(AHEAD)):
                        prefetch(like, later, np.uint64(successor[min(j, final)]))
                total = expected(like, reward, utilities, at, rewards, between, i, end, probability, successor, later)
                if any_rows is not None and n == 0:
                    total = added(total, mean)
                best, choice, chosen = choose(factors, total, name[0], best, choice, chosen)
                name = added(name, one)
                i = end
                row += np.uint64(1)
                at += np.uint64(1)
                rewards += np.uint64(1)
            store(chosen, now, np.uint64(s))
            flat[place_0 + np.uint64(s)] = np.int64(lane(choice, 0))
            flat[place_1 + np.uint64(s)] = np.int64(lane(choice, 1))
            flat[place_2 + np.uint64(s)] = np.int64(lane(choice, 2))
            flat[place_3 + np.uint64(s)] = np.int64(lane(choice, 3))
        wait_for_all(team)


@inner
def prepare_between(one, other, actions, team):
    """Before `sweep_between`: every slot besides `one` and `other` holds the policy `one`."""
    begun, ended = share_of(team, actions.shape[2])
    for slot in range(actions.shape[0]):
        if slot != one and slot != other:
            actions[slot, :, begun:ended] = actions[one, :, begun:ended]


@inner
def sweep_between(instance, like, one, other, weights, slots, actions, lines, room, team):
    """As `sweep_lanes`, of the actions of two policies alone: those in the slots `one` and `other`.

    In the other slots lies what this or `prepare_between` wrote: nothing is written where the two agree.
    """
    begin, length, successor, _ = instance.rows
    reward, utilities, H, uniform = instance.reward, instance.utilities, instance.H, instance.uniform
    S, A = reward.shape[1], np.uint64(reward.shape[2])
    values = values_in(room, S, len(like))
    pairs = np.uint64(S) * A
    stride = rows_per_step(begin, S, reward.shape[2])
    first, last = share_of(team, S)
    factors = load(like, weights, np.uint64(0))
    flat = actions.reshape(-1)
    far = 4 * values.size > FAR and leads_far(instance.rows, S, reward.shape[2])
    final = np.uint64(last - 1)
    values[H % 2, first * len(like) * LANES : last * len(like) * LANES] = 0.0
    wait_for_all(team)
    for h in range(H - 1, -1, -1):
        later, now = values[(h + 1) % 2], values[h % 2]
        mean = mean_lanes(like, later, S) if uniform else factors
        of_one, of_other = place_of(one, h, H, S), place_of(other, h, H, S)
        rewards = np.uint64(h) * pairs if reward.shape[0] > 1 else np.uint64(0)
        at = np.uint64(h) * pairs if utilities.shape[1] > 1 else np.uint64(0)
        row = np.uint64(h * stride)
        for s in range(np.uint64(first), np.uint64(last)):
            if far:
                soon = min(s + np.uint64(STATES_AHEAD), final)
                soon_row = row + soon * A + np.uint64(flat[of_one + soon])
                soon_begin = np.uint64(begin[soon_row])
                for j in range(soon_begin, soon_begin + np.uint64(length[soon_row])):
                    prefetch(like, later, np.uint64(successor[j]))
            action, second = np.uint64(flat[of_one + s]), np.uint64(flat[of_other + s])
            chosen = promise(instance, like, s * A + action, row, rewards, at, later, mean)
            if second != action:
                total = promise(instance, like, s * A + second, row, rewards, at, later, mean)
                choice, names = splat(np.float64(action)), splat(np.float64(second))
                _, choice, chosen = choose(factors, total, names, weighed(factors, chosen), choice, chosen)
                for j in range(LANES):
                    flat[place_of(slots[j], h, H, S) + s] = np.int64(lane(choice, j))
            store(chosen, now, s)
        wait_for_all(team)
    write_lines(instance.start, like, values[0], slots, lines)
    wait_for_all(team)  # before anybody writes values again


@inner
def promise(instance, like, pair, row, rewards, at, later, mean):
    """What the state and action `pair` promise; `row`, `rewards` and `at` are where the step's rows and utilities begin."""
    begin, length, successor, probability = instance.rows
    reward, utilities = instance.reward, instance.utilities
    between = np.uint64(utilities.shape[1] * utilities.shape[2] * utilities.shape[3])
    first, n = np.uint64(begin[row + pair]), np.uint64(length[row + pair])
    total = expected(
        like, reward, utilities, at + pair, rewards + pair, between, first, first + n, probability, successor, later
    )
    return added(total, mean) if n == 0 else total


@inner
def leads_far(rows, S, A):
    """Whether most transitions, by a sample of rows, lead to states whose values a cache will hardly hold."""
    near, seen = 0, 0
    for row in range(0, rows.begin.size, max(1, rows.begin.size // SAMPLE)):
        s = row // A % S
        for i in range(np.uint64(rows.begin[row]), np.uint64(rows.begin[row]) + np.uint64(rows.length[row])):
            near += abs(np.int64(rows.successor[i]) - s) < NEAR
            seen += 1
    return 2 * near < seen


@inner
def place_of(slot, h, H, S):
    """Of the action for state 0 in step h of a slot's policy, when `actions` [C, H, S] are flat."""
    return np.uint64((slot * H + h) * S)


@inner
def mean_lanes(like, values, S):
    """What a uniform row expects of `values` [S, V, LANES], flat."""
    total = load(like, values, np.uint64(0))
    for s in range(1, S):
        total = added(total, load(like, values, np.uint64(s)))
    return scaled(total, 1.0, np.float64(S))


@inner
def sweep_lexicographic(instance, first, second, tie, actions, parts, team):
    """Backward induction on `first`; among actions within `tie` of the best, the one with the largest `second`."""
    rows, H = instance.rows, instance.H
    S, A = first.shape[1], first.shape[2]
    stride = rows_per_step(rows.begin, S, A)
    begun, ended = share_of(team, S)
    q = np.empty((2, A))
    parts[H % 2, :, begun:ended] = 0.0
    wait_for_all(team)
    for h in range(H - 1, -1, -1):
        later, now = (h + 1) % 2, h % 2
        v, w = parts[later, 0], parts[later, 1]
        v_mean, w_mean = mean_of(v), mean_of(w)
        first_step, second_step = h if first.shape[0] > 1 else 0, h if second.shape[0] > 1 else 0
        row = np.uint64(h * stride + begun * A)
        for s in range(begun, ended):
            best = -np.inf
            for a in range(A):
                q[0, a] = first[first_step, s, a] + expectation(rows, row, v, v_mean)
                q[1, a] = second[second_step, s, a] + expectation(rows, row, w, w_mean)
                row += np.uint64(1)
                best = max(best, q[0, a])
            choice = -1
            for a in range(A):
                if q[0, a] >= best - tie and (choice < 0 or q[1, a] > q[1, choice]):
                    choice = a
            parts[now, 0, s], parts[now, 1, s] = q[0, choice], q[1, choice]
            actions[h, s] = choice
        wait_for_all(team)
