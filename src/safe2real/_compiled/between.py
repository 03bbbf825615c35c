"""Passes over the actions of two policies alone: a fraction of the rows. They find policies and their values, and no bound."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import inner
from safe2real._compiled.lanes import LANES, choose, lane, load, prefetch, splat, store, weighed
from safe2real._compiled.sweeps import FAR, STATES_AHEAD, leads_far, mean_lanes, place_of, promise, values_in, write_lines
from safe2real._compiled.team import share_of, wait_for_all
from safe2real._compiled.transitions import rows_per_step


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
