"""What the returns of ONE policy's own episodes say about it: evidence that needs no model.

Beside the counts of rows, which every evidence keeps, this one keeps for every constraint and every named reward a lower
bound on what the candidate is worth (`running.py`), from the sums of its own episodes alone. A step that nobody saw pays
nothing: an episode that was cut short, left the model or was given up counts for the least it can have been worth, and is
never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real.evidence.evidence import Evidence
from safe2real.evidence.running import RunningLower
from safe2real.model.checks import Floats, Indices
from safe2real.model.trajectory import Trajectory
from safe2real.problem.problem import Problem


class ReturnsEvidence(Evidence):
    """Counts, and lower bounds on the real value of one fixed candidate by the returns of its own episodes."""

    goes_by_returns: ClassVar[bool] = True

    def __init__(self, problem: Problem, rewards: Mapping[str, Floats], alpha: float) -> None:
        """Nothing is counted yet.

        Args:
            problem: its constraints come first; its margins are used as stated and tested by returns alone.
            rewards: [1 or H, S, A] in [0, 1], by name.
            alpha: how likely each single bound may ever be false.
        """
        super().__init__(problem, margin_by_sets=False)
        model = problem.simulator
        self.names = (*model.labels, *rewards)
        self.logged = 0  # episodes of the candidate that came in logs
        self._tables: list[Floats] = [*model.utilities, *rewards.values()]  # [1 or H, S, A] each
        self.bounds = tuple(RunningLower(alpha, high=_most(table, model.horizon)) for table in self._tables)

    @property
    def floors(self) -> dict[str, float]:
        """What the candidate is worth at least on the real system: V_c of every constraint, and every named reward."""
        return {name: one.bound for name, one in zip(self.names, self.bounds, strict=True)}

    @property
    def candidate_lower(self) -> Floats:
        """[K] lower bounds on the candidate's V_c."""
        return np.array([one.bound for one in self.bounds[: self.kept]])

    @property
    def candidate_episodes(self) -> int:
        """How many episodes of the candidate were counted, lost ones too."""
        return self.bounds[0].count if self.bounds else 0

    def take(
        self,
        trajectory: Trajectory,
        *,
        of_baseline: bool,
        of_candidate: bool = False,
        planned: NDArray[np.int64] | None = None,
    ) -> bool:
        """See `Evidence.take`; another decision is due when a bound has risen or the margin is refuted."""
        super().take(trajectory, of_baseline=of_baseline, of_candidate=of_candidate, planned=planned)
        risen = of_candidate and self._add(self._returns(trajectory.states, trajectory.actions))
        return risen or self.trust.halted

    def count(
        self,
        states: Indices,
        actions: Indices,
        ends: NDArray[np.int64],
        *,
        of_baseline: NDArray[np.bool_] | None = None,
        of_candidate: NDArray[np.bool_] | None = None,
        at_once: bool = False,
    ) -> None:
        super().count(states, actions, ends, of_baseline=of_baseline, of_candidate=of_candidate, at_once=at_once)
        if of_candidate is None:
            return
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
        steps = np.arange(actions.size)
        return [
            float(table[steps if len(table) > 1 else 0, states[: actions.size], actions].sum()) for table in self._tables
        ]

    def _add(self, returns: Sequence[float]) -> bool:
        risen = [one.add(value) for one, value in zip(self.bounds, returns, strict=True)]  # all of them, whatever the first
        return any(risen)


def _most(table: Floats, horizon: int) -> float:
    """The largest sum that any H steps can have, on whatever system."""
    return (1 if len(table) > 1 else horizon) * float(table.max(axis=(1, 2)).sum())
