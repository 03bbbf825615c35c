"""The seam between the planner's search and what sweeps over the rows: another processor is another `Sweeper`.

The search never sees rows or policies. It asks for the values of the policies that are greedy for some weights, several in
one pass, and mixes two of them. So whatever can do backward induction can be planned with, and bounds, statuses and stopping
rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from safe2real._compiled import bracket, outcomes
from safe2real.model.checks import Floats, Indices


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

        Returns:
            [1 + K] values of that policy, which goes to `slot`.
        """

    def evaluate(self, slot: int) -> Floats:
        """[1 + K] values of the policy in a slot."""

    def put(self, slot: int, actions: Indices) -> None:
        """Put a policy [H, S] into a slot, to start from."""

    def take(self, slots: Sequence[int]) -> Indices:
        """[n, H, S] the policies of some slots."""


LANES, SLOTS = bracket.LANES, bracket.SLOTS


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
    """The best mixture under K <= 1 constraints; what `_compiled.crossing.solve` does, with the sweeps of `sweeper`.

    Args:
        sweeper: its first `warm` slots hold policies to start from; it has `SLOTS` of them.
        thresholds: [K] what the constraints' values must reach.
        horizon: H.
        rate: the extent of the reward (largest minus smallest entry) over that of the utility.
        warm: how many slots hold policies to start from.
        multipliers: [K] those that went with them, or zeros; overwritten.

    Returns:
        The outcome: accepted only because a feasible mixture's value meets a dual bound.
    """
    lines, weights = np.zeros((SLOTS, 1 + thresholds.size)), np.zeros(SLOTS)
    if thresholds.size == 0:
        lines[:1] = sweeper.sweep(np.ones((1, 1)), [0])
        weights[0] = 1.0
        return Outcome(outcomes.OPTIMAL, float(lines[0, 0]), 0.0, 1, lines, weights, multipliers)
    for slot in range(warm):
        lines[slot] = sweeper.evaluate(slot)
    search = bracket.begin(lines, weights, multipliers, thresholds, horizon, warm, rate)
    status = bracket.GO_ON
    while status == bracket.GO_ON:
        count = bracket.ask(search)
        slots = search.slots[: abs(count)].tolist()
        if count == bracket.BREAK_TIES:
            lines[slots[0]] = sweeper.break_ties(slots[0], bracket.TIE * horizon)
        else:
            lines[slots] = sweeper.sweep(_weights_of(search.asked[:count]), slots)
        status = bracket.tell(search, count)
    bound, shortfall, passes = search.numbers[[bracket.BOUND, bracket.SHORTFALL, bracket.PASSES]].tolist()
    return Outcome(int(status), bound, shortfall, int(passes), lines, weights, multipliers)


def _weights_of(multipliers: Floats) -> Floats:
    """[n, 2] weights of reward and utility; an infinite multiplier means the utility alone."""
    last = np.isinf(multipliers)
    return np.stack([np.where(last, 0.0, 1.0), np.where(last, 1.0, multipliers)], axis=1)
