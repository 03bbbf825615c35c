"""What the returns of ONE policy's own episodes say about it: bounds that need no model.

For every constraint and every named reward there is a lower bound on what the candidate is worth (`running.py`), from the
sums of its own episodes alone. A step that nobody saw pays nothing: an episode that was cut short, left the model or was
given up counts for the least it can have been worth, and is never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from safe2real.evidence.running import RunningLower
from safe2real.model.checks import Floats, Indices
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import with_end


class CandidateReturns:
    """Lower bounds on the real value of one fixed candidate by the returns of its own episodes."""

    def __init__(self, model: CMDP, policies: Sequence[MarkovPolicy], rewards: Mapping[str, Floats], alpha: float) -> None:
        """Nothing is counted yet.

        Args:
            model: its constraints come first.
            policies: the candidate is a mixture of these; one of them makes each of its episodes.
            rewards: [1 or H, S, A] in [0, 1], by name.
            alpha: how likely each single bound may ever be false.
        """
        self.policies = tuple(policies)
        self.names = (*model.labels, *rewards)
        self.logged = 0  # episodes of the candidate that came in logs
        self._model, self._wordings = model, model.wordings
        self._tables: list[Floats] = [*model.utilities, *rewards.values()]  # [1 or H, S, A] each
        self.bounds = tuple(RunningLower(alpha, high=_most(table, model.horizon)) for table in self._tables)

    @property
    def floors(self) -> dict[str, float]:
        """What is certain of the candidate on the real system, in the words of the constraints and rewards.

        Of a utility or a reward it is at least this much that is expected; of a cost, at most.
        """
        proved = [one.bound for one in self.bounds]
        for k, wording in enumerate(self._wordings):
            proved[k] = wording.number(proved[k])
        return dict(zip(self.names, proved, strict=True))

    def missing(self, goals: Mapping[str, float]) -> float:
        """By how much the floors miss these at most; unbounded where there are none."""
        floors, costs = self.floors, {one.label for one in self._wordings if one.is_cost}
        return max(((floors[key] - goal) * (1.0 if key in costs else -1.0) for key, goal in goals.items()), default=np.inf)

    @property
    def lower_bounds(self) -> Floats:
        """[K] on the candidate's V_c."""
        return np.array([one.bound for one in self.bounds[: len(self._wordings)]])

    @property
    def episodes(self) -> int:
        """How many episodes of the candidate were counted, lost ones too."""
        return self.bounds[0].count if self.bounds else 0

    def take(self, states: Indices, actions: Indices) -> bool:
        """One episode of the candidate; says whether a bound has risen."""
        return self._add(self._returns(states, actions))

    def count(
        self, states: Indices, actions: Indices, ends: NDArray[np.int64], of_candidate: NDArray[np.bool_], *, at_once: bool
    ) -> None:
        """Those `of_candidate` [episodes] among episodes laid end to end; `at_once` for a log, whose order may be chosen."""
        found = [
            self._returns(states[ends[i] + i : ends[i + 1] + i + 1], actions[ends[i] : ends[i + 1]])
            for i in np.flatnonzero(of_candidate)
        ]
        if not at_once:
            for returns in found:
                self._add(returns)
        elif found:
            self.logged += len(found)
            for one, values in zip(self.bounds, zip(*found, strict=True), strict=True):
                one.add_block(values)

    def lose(self) -> None:
        """An episode of the candidate that nobody saw: for all that is known it was worth nothing."""
        self._add([0.0] * len(self.bounds))

    def _returns(self, states: Indices, actions: Indices) -> list[float]:
        """What an episode was worth to every constraint and reward; steps that are missing pay nothing."""
        before, taken = with_end(self._model, states, actions)
        steps, before = np.arange(taken.size), before[: taken.size]
        return [float(table[steps if len(table) > 1 else 0, before, taken].sum()) for table in self._tables]

    def _add(self, returns: Sequence[float]) -> bool:
        risen = [one.add(value) for one, value in zip(self.bounds, returns, strict=True)]  # all of them, whatever the first
        return any(risen)


def _most(table: Floats, horizon: int) -> float:
    """The largest sum that any H steps can have, on whatever system."""
    return (1 if len(table) > 1 else horizon) * float(table.max(axis=(1, 2)).sum())
