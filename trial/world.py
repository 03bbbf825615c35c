"""The real system of a case as users meet it: something that runs an episode of a policy, or an environment with a seed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from safe2real import MarkovPolicy, Trajectory
from safe2real.exploration import roll_out
from safe2real.model.validation import Floats
from trial.exact import Truth, dense_rows
from trial.systems import Case


class World:
    """Episodes of the real system, each unlike all others."""

    def __init__(self, truth: Truth, rng: np.random.Generator) -> None:
        self.model, self._seed, self._runs = truth.model, int(rng.integers(2**63)), 0

    def run(self, policy: MarkovPolicy) -> Trajectory:
        """One episode."""
        self._runs += 1
        return roll_out(self.model, policy, seed=self._seed, round_number=self._runs)

    def worth(self, episode: Trajectory, utility: Floats) -> float:
        """The sum of a utility ([S, A], [1, S, A] or [H, S, A]) over an episode, the end included if it counts."""
        steps = np.broadcast_to(utility, self.model.shape)
        states, actions = episode.states, episode.actions
        end = steps[-1, states[-1], 0] if self.model.counts_end else 0.0
        return float(steps[np.arange(actions.size), states[:-1], actions].sum() + end)

    def is_bad(self, episode: Trajectory) -> bool:
        """Whether an episode is worth less to the first constraint than its threshold."""
        return bool(self.worth(episode, self.model.utilities[0]) < self.model.thresholds[0])


class SeededEnv(gymnasium.Env[int, int]):
    """The real system as an environment: what happens in an episode is a function of its seed and the actions."""

    def __init__(self, case: Case) -> None:
        self.observation_space = gymnasium.spaces.Discrete(case.task.num_states)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(case.task.num_actions)  # type: ignore[assignment]
        self._start = np.cumsum(case.task.start)
        self._rows = np.cumsum(dense_rows(case.real, case.task.horizon), axis=-1)
        self._state = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._state = 0, self._draw(self._start)
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._state = self._draw(self._rows[self._step, self._state, action])
        self._step += 1
        return self._state, 0.0, False, False, {}

    def _draw(self, cumulative: Floats) -> int:
        drawn = self.np_random.random() * cumulative[-1]
        return int(np.searchsorted(cumulative, drawn, side="right"))
