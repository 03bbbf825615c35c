"""The seam between the planner's search and what sweeps over the rows: another processor is another `Sweeper`.

The search never sees rows or policies. It asks for the values of the policies that are greedy for some weights, several in
one pass, and mixes few of them. So whatever can do backward induction can be planned with, and bounds, statuses and stopping
rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from safe2real._compiled import dual_search, lanes, search
from safe2real.model.validation import Floats, Indices


class Sweeper(Protocol):
    """A model, a reward, K constraints, and slots that each hold one deterministic policy.

    `lines` [C, 1 + K] are the values, from the start, of the reward and of every utility for the policy of each slot.
    """

    def sweep(self, weights: Floats, slots: Indices, lines: Floats, pair: tuple[int, int] | None) -> None:
        """Backward induction on weights[i, 0] * reward + sum of weights[i, 1 + k] * utility k, for every i in one pass.

        The greedy policies go into slots[i], their values into lines[slots[i]]. Of equally good actions the first is taken.

        Args:
            weights: [LANES, 1 + K]; lanes that are not needed repeat the first.
            slots: [LANES] where the greedy policies go.
            lines: [C, 1 + K], written.
            pair: two slots whose policies' actions are the only ones to look at; None for all actions.
        """

    def break_ties(self, slot: int, tie: float, lines: Floats) -> None:
        """Backward induction on utility 0 alone; of the actions within `tie` of the best, the one with the most reward.

        Called only with one constraint (K = 1). The policy goes into `slot` and its values into lines[slot].
        """

    def evaluate(self, slot: int, lines: Floats) -> None:
        """The values of the policy in a slot, into lines[slot]."""

    def narrow_to(self, one: int, other: int) -> bool:
        """Return whether sweeps of only two policies' actions are cheaper.

        If so, every slot except `other` holds the policy `one` afterwards. A sweeper that always sweeps all actions returns
        False.
        """

    def put(self, slot: int, actions: Indices) -> None:
        """Put a policy [H, S] into a slot, to start from."""

    def take(self, slots: Sequence[int]) -> Indices:
        """[n, H, S] the policies of some slots."""


LANES, SLOTS = lanes.LANES, dual_search.SLOTS


def slots_for(constraints: int) -> int:
    """Return the largest number of policies that the search under `constraints` constraints holds at once."""
    return (1, SLOTS)[constraints] if constraints < 2 else 4 * constraints + 12


class Outcome(NamedTuple):
    """How a search ended; C slots."""

    status: int  # as in `_compiled.codes`
    bound: float
    shortfall: float
    sweeps: int
    lines: Floats  # [C, 1 + K] values of the policy in each slot
    weights: Floats  # [C] of the mixture
    multipliers: Floats  # [K]


def search_by(sweeper: Sweeper, thresholds: Floats, horizon: int, *, rate: float, warm: int, multipliers: Floats) -> Outcome:
    """The best mixture under K constraints, with the sweeps of `sweeper`.

    Args:
        sweeper: its first `warm` slots hold policies to start from; it has `slots_for(K)` of them.
        thresholds: [K] lower bounds on the constraints' values.
        horizon: H.
        rate: the extent of the reward (largest minus smallest entry) over that of the utility; read where K = 1.
        warm: how many slots hold policies to start from.
        multipliers: [K] those that went with them, or zeros; overwritten.

    Returns:
        The outcome: accepted only because a feasible mixture's value meets a dual bound.
    """
    slots = slots_for(thresholds.size)
    lines, weights = np.zeros((slots, 1 + thresholds.size)), np.zeros(slots)
    status, bound, shortfall, passes = search.find(sweeper, lines, weights, multipliers, thresholds, horizon, warm, rate)
    return Outcome(status, bound, shortfall, passes, lines, weights, multipliers)


def weights_of(multipliers: Floats) -> Floats:
    """[..., 2] weights of reward and utility; an infinite multiplier means the utility alone."""
    last = np.isinf(multipliers)
    return np.stack([np.where(last, 0.0, 1.0), np.where(last, 1.0, multipliers)], axis=-1)
