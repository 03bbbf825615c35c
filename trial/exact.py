"""Textbook evaluation on dense arrays: a second opinion that shares no code with the library's compiled passes.

Letters: S states, A actions, H steps. `rows` are [H, S, A, S], utilities [H, S, A].
"""

from __future__ import annotations

import numpy as np

from safe2real import CMDP, Kernel, MarkovPolicy, Mixture
from safe2real.model.validation import Floats


def dense_rows(kernel: Kernel, horizon: int) -> Floats:
    """[H, S, A, S], also of a kernel that does not change with the step."""
    dense = kernel.to_dense()
    return np.broadcast_to(dense, (horizon, *dense.shape[-3:])) if kernel.is_stationary else dense


def value_functions(rows: Floats, utility: Floats, policy: Floats) -> Floats:
    """[H + 1, S] of a policy [H, S, A]."""
    values = np.zeros((len(rows) + 1, rows.shape[1]))
    for h in reversed(range(len(rows))):
        values[h] = (policy[h] * (utility[h] + rows[h] @ values[h + 1])).sum(axis=1)
    return values


def greedy(rows: Floats, utility: Floats) -> Floats:
    """The best policy for a utility, as probabilities [H, S, A]."""
    policy, after = np.zeros(utility.shape), np.zeros(rows.shape[1])
    states = np.arange(rows.shape[1])
    for h in reversed(range(len(rows))):
        worth = utility[h] + rows[h] @ after
        policy[h, states, worth.argmax(axis=1)] = 1.0
        after = worth.max(axis=1)
    return policy


def policy_value(rows: Floats, start: Floats, utility: Floats, policy: Floats) -> float:
    """The expected sum of a utility over an episode of a policy [H, S, A]."""
    return float(start @ value_functions(rows, utility, policy)[0])


class Truth:
    """A real system, and the values that policies have on it."""

    def __init__(self, task: CMDP, real: Kernel) -> None:
        self.model = task.with_kernel(real)
        self._rows = dense_rows(real, task.horizon)

    def value(self, policy: MarkovPolicy | Mixture, utility: Floats) -> float:
        """The expected sum of a utility ([S, A], [1, S, A] or [H, S, A]) over all steps, the end included if it counts."""
        if isinstance(policy, Mixture):
            parts = zip(policy.weights, policy.policies, strict=True)
            return float(sum(weight * self.value(part, utility) for weight, part in parts))
        table, missing = policy.probabilities, self.model.horizon - policy.horizon
        if missing:  # the end, where nothing is done
            table = np.concatenate([table, table[-missing:]])
        return policy_value(self._rows, self.model.start, np.broadcast_to(utility, self.model.shape), table)

    def earned(self, policy: MarkovPolicy | Mixture, reward: Floats) -> float:
        """The expected sum of a reward, which pays nothing at the end."""
        steps = np.broadcast_to(reward, self.model.shape).copy()
        steps[self.model.steps :] = 0.0
        return self.value(policy, steps)

    def constraint_values(self, policy: MarkovPolicy | Mixture) -> Floats:
        """[K]"""
        return np.array([self.value(policy, utility) for utility in self.model.utilities])

    def differences(self, estimate: Floats) -> Floats:
        """An estimate ([S, A, S], or [H, S, A, S]) minus the real rows."""
        return np.asarray(estimate - (self._rows[0] if estimate.ndim == 3 else self._rows))

    def distances(self, estimate: Floats) -> Floats:
        """TV distance of every row of an estimate to the real one's, [S, A] or [H, S, A]."""
        return np.asarray(0.5 * np.abs(self.differences(estimate)).sum(axis=-1))
