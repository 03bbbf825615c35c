"""Many searches of `pricing` side by side: what they ask is answered by one pass over all systems of a batch."""

from __future__ import annotations

from typing import NamedTuple

from safe2real._compiled import pricing
from safe2real._compiled.bracket import GO_ON
from safe2real._compiled.cache import compiled, inner
from safe2real._compiled.rows import Array


class Searches(NamedTuple):
    """The arrays of N `pricing.Search`es, each with an axis for the systems before its own."""

    lines: Array  # [N, C, 1 + K]
    used: Array  # [N, C]
    limits: Array  # [N, K]
    basis: Array  # [N, K + 1]
    solution: Array  # [N, K + 1]
    dual: Array  # [N, K + 1]
    previous: Array  # [N, K + 1]
    asked: Array  # [N, LANES, 1 + K]
    slots: Array  # [N, LANES]
    weights: Array  # [N, C]
    multipliers: Array  # [N, K]
    H: int
    numbers: Array  # [N, NUMBERS]


@inner
def search_of(searches, i):
    return pricing.Search(
        searches.lines[i], searches.used[i], searches.limits[i], searches.basis[i], searches.solution[i], searches.dual[i],
        searches.previous[i], searches.asked[i], searches.slots[i], searches.weights[i], searches.multipliers[i],
        searches.H, searches.numbers[i],
    )  # fmt: skip


@compiled
def begin(searches, warm):
    """Every search before its first question, as `pricing.start`."""
    for i in range(len(searches.lines)):
        pricing.start(search_of(searches, i), warm)


@compiled
def ask(searches, status, counts):
    """What each search that goes on asks, into `counts` [N]; 0 where it has ended."""
    for i in range(len(searches.lines)):
        counts[i] = pricing.ask(search_of(searches, i)) if status[i] == GO_ON else 0


@compiled
def tell(searches, status, counts):
    """Let each search that asked draw its conclusions from `lines`, into `status` [N]."""
    for i in range(len(searches.lines)):
        if counts[i] != 0:
            status[i] = pricing.tell(search_of(searches, i))
