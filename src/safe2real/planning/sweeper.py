"""The seam between the planner's search and what sweeps over the rows: another processor is another `Sweeper`.

The search never sees rows or policies. It asks for the values of the policies that are greedy for some weights, several in
one pass, and mixes few of them. So whatever can do backward induction can be planned with, and bounds, statuses and stopping
rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from safe2real._compiled import bracket, lanes, outcomes, pricing
from safe2real.model.validation import Floats, Indices


class Sweeper(Protocol):
    """A model, a reward, K constraints, and slots that each hold one deterministic policy."""

    def sweep(self, weights: Floats, slots: Sequence[int]) -> Floats:
        """Backward induction on weights[i, 0] * reward + sum of weights[i, 1 + k] * utility k, for every i in one pass.

        Args:
            weights: [n, 1 + K], at most `LANES` rows.
            slots: [n] where the greedy policies go; different ones. Of equally good actions the first is taken.

        Returns:
            [n, 1 + K] values of the reward and of every utility for each of these policies, from the start.
        """

    def break_ties(self, slot: int, tie: float) -> Floats:
        """Backward induction on utility 0 alone; of the actions within `tie` of the best, the one with the most reward.

        It is asked for where K = 1 alone.

        Returns:
            [1 + K] values of that policy, which goes to `slot`.
        """

    def evaluate(self, slot: int) -> Floats:
        """[1 + K] values of the policy in a slot."""

    def put(self, slot: int, actions: Indices) -> None:
        """Put a policy [H, S] into a slot, to start from."""

    def take(self, slots: Sequence[int]) -> Indices:
        """[n, H, S] the policies of some slots."""


LANES, SLOTS = lanes.LANES, bracket.SLOTS


def slots_for(constraints: int) -> int:
    """How many policies the search under so many constraints may hold at once."""
    return (1, SLOTS)[constraints] if constraints < 2 else 4 * constraints + 12


class Outcome(NamedTuple):
    """How a search ended; C slots."""

    status: int  # as in `_compiled.outcomes`
    bound: float
    shortfall: float
    sweeps: int
    lines: Floats  # [C, 1 + K] values of the policy in each slot
    weights: Floats  # [C] of the mixture
    multipliers: Floats  # [K]


def search_by(sweeper: Sweeper, thresholds: Floats, horizon: int, *, rate: float, warm: int, multipliers: Floats) -> Outcome:
    """The best mixture under K constraints; what `_compiled.crossing` and `columns` do, with the sweeps of `sweeper`.

    Args:
        sweeper: its first `warm` slots hold policies to start from; it has `slots_for(K)` of them.
        thresholds: [K] what the constraints' values must reach.
        horizon: H.
        rate: the extent of the reward (largest minus smallest entry) over that of the utility; read where K = 1.
        warm: how many slots hold policies to start from.
        multipliers: [K] those that went with them, or zeros; overwritten.

    Returns:
        The outcome: accepted only because a feasible mixture's value meets a dual bound.
    """
    slots = slots_for(thresholds.size)
    lines, weights = np.zeros((slots, 1 + thresholds.size)), np.zeros(slots)
    if thresholds.size == 0:
        lines[:1] = sweeper.sweep(np.ones((1, 1)), [0])
        weights[0] = 1.0
        return Outcome(outcomes.OPTIMAL, float(lines[0, 0]), 0.0, 1, lines, weights, multipliers)
    for slot in range(warm):
        lines[slot] = sweeper.evaluate(slot)
    if thresholds.size == 1:
        one = bracket.begin(lines, weights, multipliers, thresholds, horizon, warm, rate)
        return _outcome(_search_bracket(sweeper, one), one, one.numbers[[bracket.BOUND, bracket.SHORTFALL, bracket.PASSES]])
    several = pricing.begin(lines, weights, multipliers, thresholds, horizon, warm)
    status = bracket.GO_ON
    while status == bracket.GO_ON:
        pricing.ask(several)
        lines[several.slots] = sweeper.sweep(several.asked, several.slots.tolist())
        status = pricing.tell(several)
    return _outcome(status, several, several.numbers[[pricing.BOUND, pricing.SHORTFALL, pricing.PASSES]])


def _search_bracket(sweeper: Sweeper, search: bracket.Search) -> int:
    """Ask and tell until the search for one multiplier has ended; returns its status."""
    status = bracket.GO_ON
    while status == bracket.GO_ON:
        count = bracket.ask(search)
        slots = search.slots[: abs(count)].tolist()
        if count == bracket.BREAK_TIES:
            search.lines[slots[0]] = sweeper.break_ties(slots[0], bracket.TIE * search.H)
        else:
            search.lines[slots] = sweeper.sweep(weights_of(search.asked[:count]), slots)
        status = bracket.tell(search, count)
    return status


def _outcome(status: int, search: bracket.Search | pricing.Search, numbers: Floats) -> Outcome:
    """`numbers`: bound, shortfall, passes."""
    bound, shortfall, passes = numbers.tolist()
    return Outcome(int(status), bound, shortfall, int(passes), search.lines, search.weights, search.multipliers)


def weights_of(multipliers: Floats) -> Floats:
    """[..., 2] weights of reward and utility; an infinite multiplier means the utility alone."""
    last = np.isinf(multipliers)
    return np.stack([np.where(last, 0.0, 1.0), np.where(last, 1.0, multipliers)], axis=-1)
