"""Many searches of `bracket` side by side: what they ask is answered by one pass over all systems of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import bracket
from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.rows import Array

NOTHING = np.empty(0)  # is put aside: all actions are looked at in every pass


class Searches(NamedTuple):
    """The arrays of N `bracket.Search`es, each with an axis for the systems before its own."""

    lines: Array  # [N, C, 2]
    at: Array  # [N, C]
    held: Array  # [N, 4]
    asked: Array  # [N, LANES]
    slots: Array  # [N, LANES]
    weights: Array  # [N, C]
    multipliers: Array  # [N, 1]
    thresholds: Array  # [N, 1]
    H: int
    numbers: Array  # [N, NUMBERS]


@inner
def search_of(searches, i):
    return bracket.Search(
        searches.lines[i], searches.at[i], searches.held[i], searches.asked[i], searches.slots[i], searches.weights[i],
        searches.multipliers[i], searches.thresholds[i, 0], searches.H, searches.numbers[i], NOTHING,
    )  # fmt: skip


@compiled
def begin(searches, warm, rates):
    """Every search before its first question, as `bracket.begin`; `rates` [N]."""
    for i in range(len(searches.lines)):
        begun = bracket.begin(
            searches.lines[i],
            searches.weights[i],
            searches.multipliers[i],
            searches.thresholds[i],
            searches.H,
            warm,
            rates[i],
        )
        searches.at[i], searches.held[i], searches.numbers[i] = begun.at, begun.held, begun.numbers


@compiled
def ask(searches, status, counts):
    """What each search that goes on asks, into `counts` [N]; 0 where it has ended."""
    for i in range(len(searches.lines)):
        counts[i] = bracket.ask(search_of(searches, i)) if status[i] == bracket.GO_ON else 0


@compiled
def tell(searches, status, counts):
    """Let each search that asked draw its conclusions from `lines`, into `status` [N]."""
    for i in range(len(searches.lines)):
        if counts[i] != 0:
            status[i] = bracket.tell(search_of(searches, i), counts[i])
