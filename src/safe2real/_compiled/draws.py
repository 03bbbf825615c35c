"""Random numbers as a function of (seed, round, index) alone, so that any round can be replayed."""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import compiled, inner


@inner
def scramble(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def stream(seed, round_number):
    """Where the random numbers of one round begin: a function of (seed, round) alone, so that any round can be replayed."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    return scramble(scramble(np.uint64(seed) + golden) ^ (np.uint64(round_number) * golden))


@inner
def uniform(origin, index):
    """The index-th uniform number in [0, 1) of a stream."""
    z = scramble(origin + (np.uint64(index) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@compiled
def draw(seed, round_number, index):
    """A uniform number in [0, 1) that depends on (seed, round, index) alone; for callers outside compiled code."""
    return uniform(stream(seed, round_number), index)


@compiled
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
