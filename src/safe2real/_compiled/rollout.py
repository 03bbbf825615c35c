"""Random numbers as a function of (seed, round, index) alone, so that any round can be replayed; episodes drawn by them."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import borrowing, compiled, shared_borrowing
from safe2real._compiled.tally import count_episode, lacks_room
from safe2real._compiled.transitions import rows_per_step


@borrowing
def scramble(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@borrowing
def stream(seed, round_number):
    """Return the origin of a round's random numbers, a function of (seed, round) alone: any round can be replayed."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    return scramble(scramble(np.uint64(seed) + golden) ^ (np.uint64(round_number) * golden))


@borrowing
def uniform(origin, index):
    """The index-th uniform number in [0, 1) of a stream."""
    z = scramble(origin + (np.uint64(index) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@shared_borrowing
def pick(weights, u):
    """Index drawn from weights that sum to 1; never one of weight 0."""
    last = 0
    total = 0.0
    for i in range(weights.size):
        if weights[i] > 0.0:
            last = i
            total += weights[i]
            if u < total:
                return i
    return last


def draw(seed: int, round_number: int, index: int) -> float:
    """A uniform number in [0, 1) that depends on (seed, round, index) alone: `uniform` of `stream`, for Python."""
    origin = _scrambled(_scrambled((seed + _GOLDEN) % _WORD) ^ (round_number * _GOLDEN) % _WORD)
    return (_scrambled((origin + (index + 1) * _GOLDEN) % _WORD) >> 11) * 2.0**-53


def _scrambled(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _WORD
    return z ^ z >> 31


_GOLDEN, _WORD = 0x9E3779B97F4A7C15, 2**64


@borrowing
def roll_out(rows, start, policy, fixed, component, origin, states, actions):
    """One episode on a known system, into states [n + 1] and actions [n], n <= H.

    Follows the deterministic actions fixed[component] of [C, H, S], or the stochastic `policy` [H, S, A] for component C.
    Draw 0 of the stream is the mixture's coin, draw 1 the first state, draws 2 + 2h and 3 + 2h the action and successor
    of step h.
    """
    _, S, A = policy.shape
    begin, length, successor, probability = rows
    stride = rows_per_step(begin, S, A)
    is_fixed = component < fixed.shape[0]
    s = pick(start, uniform(origin, 1))
    states[0] = s
    for h in range(actions.size):
        if is_fixed:
            a = np.int64(fixed[component, h, s])
        else:  # `pick` on policy[h, s], written out: a slice would cost more than the rest of the step
            u, total, a = uniform(origin, 2 + 2 * h), 0.0, 0
            for i in range(A):
                if policy[h, s, i] > 0.0:
                    a = i
                    total += policy[h, s, i]
                    if u < total:
                        break
        row = h * stride + s * A + a
        n = np.int64(length[row])
        u = uniform(origin, 3 + 2 * h)
        if n == 0:
            s = min(np.int64(u * S), S - 1)
        else:
            i = np.int64(begin[row])
            end, total = i + n - 1, probability[i]
            while i < end and not u < total:
                i += 1
                total += probability[i]
            s = np.int64(successor[i])
        actions[h] = a
        states[h + 1] = s


@compiled
def roll_out_round(rows, start, policy, seed, round_number, states, actions):
    """`roll_out` of a stochastic policy for callers outside compiled code."""
    fixed = np.empty((0, 0, 0), dtype=np.uint32)
    origin = stream(seed, round_number)
    roll_out(rows, start, policy, fixed, 0, origin, states, actions)


@compiled
def collect(tally, rows, start, policy, steps, seed, first_episode, episodes, tally_rows_per_step):
    """Count episodes of one policy on a known system until a row needs more room; returns how many were counted."""
    H, S, A = policy.shape
    states, actions = np.empty(steps + 1, dtype=np.uint32), np.empty(steps, dtype=np.uint32)
    fixed = np.empty((0, 0, 0), dtype=np.uint32)
    for t in range(episodes):
        origin = stream(seed, first_episode + t)
        roll_out(rows, start, policy, fixed, 0, origin, states, actions)
        count_episode(tally, states, actions, A, tally_rows_per_step)
        if lacks_room(tally, states, actions, H, S, A, tally_rows_per_step):
            return t + 1
    return episodes
