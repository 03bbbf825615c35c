"""The iterates of a log barrier method: parameters of a softmax policy that move after every batch of its own episodes.

Policy gradients by reward-to-go (GPOMDP), with theta [H, S, A] and pi_h(a | s) proportional to exp theta[h, s, a].

Smoothness: the score of an episode has one block for each step, each of norm at most sqrt(2), and the Hessian of log pi has
norm at most 1/2, so for utilities in [0, 1] the Hessian of every V has norm at most M = 2 H^2 + H / 2. Confidence: returns
lie in [0, H] (Hoeffding), gradients of episodes have norm at most G = sqrt(2 sum_h (H - h)^2) (Pinelis). Then V_c of theta
+ x u is at least V_c - x b - M x^2 / 2 for a unit vector u along which V_c changes by at most b. Iteration t has the share
delta / (t (t + 1)), so all iterations hold together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import Trajectory, with_end
from safe2real.model.validation import Floats, Indices
from safe2real.planning.evaluate import occupancy, value_functions
from safe2real.problem.problem import Problem


class BarrierEvidence(Evidence):
    """Counts, and the current iterate with what is certain of it by the returns of its own episodes and of those before."""

    goes_by_returns: ClassVar[bool] = True

    def __init__(self, problem: Problem, reward: Floats, batch: int, eta: float) -> None:
        """The first iterate is the baseline; `reward` is [1 or H, S, A]."""
        super().__init__(problem, reuses_simulator=False, margin_by_sets=False)
        table, model = problem.baseline.probabilities, problem.simulator
        if not (table > 0.0).all():
            raise InvalidInput("the baseline never takes some action, so it is no softmax policy; mix it with a uniform one")
        self.theta: Floats = np.log(table)  # [H, S, A]
        self.tables = [reward, *model.utilities]
        self.batch, self.eta, self.iteration = batch, eta, 1
        self.slack: Floats = self.stated.copy()  # [K] V_c - threshold of the iterate is at least this
        self.norm = np.inf  # of the barrier's gradient, at the last step
        self._clear()

    def _clear(self) -> None:
        self.probabilities: Floats = _softmax(self.theta)
        self.policy = MarkovPolicy.stochastic(self.probabilities)
        self._number, self._returns = 0, np.zeros(len(self.tables))
        self._gradients = np.zeros((len(self.tables), *self.theta.shape))

    def take(
        self,
        trajectory: Trajectory,
        *,
        of_baseline: bool,
        of_candidate: bool = False,
        planned: NDArray[np.int64] | None = None,
    ) -> bool:
        super().take(trajectory, of_baseline=of_baseline, of_candidate=of_candidate, planned=planned)
        before = self.iteration
        if of_candidate:
            self._add(trajectory.states, trajectory.actions)
        return self.iteration > before or self.trust.halted

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
        for i in np.flatnonzero(of_candidate if of_candidate is not None else np.zeros(0)):
            self._add(states[ends[i] + i : ends[i + 1] + i + 1], actions[ends[i] : ends[i + 1]])

    def lose(self) -> None:
        """An episode that nobody saw: for all that is known it was worth nothing."""
        self._add(np.zeros(1, dtype=np.uint32), np.zeros(0, dtype=np.uint32))

    def _add(self, states: Indices, actions: Indices) -> None:
        before, taken = with_end(self.problem.simulator, states, actions)  # the end pays, and has no action to learn
        summed, before = np.arange(taken.size), before[: taken.size].astype(np.int64)
        steps, here = summed[: actions.size], before[: actions.size]
        for j, table in enumerate(self.tables):
            earned = table[summed if len(table) > 1 else 0, before, taken]
            to_go = np.cumsum(earned[::-1])[::-1][: actions.size]
            self._returns[j] += earned.sum()
            self._gradients[j, steps, here] -= to_go[:, None] * self.probabilities[steps, here]
            self._gradients[j, steps, here, actions] += to_go
        self._number += 1
        if self._number == self.batch:
            self._step()

    def expect(self, values: Floats, gradients: Floats) -> None:
        """A whole batch with what is expected of it, not sampled: `values` [1 + K] and `gradients` [1 + K, H, S, A]."""
        self._returns, self._gradients, self._number = self.batch * values, self.batch * gradients, self.batch
        self._step()

    def _step(self) -> None:
        """Up the barrier, as far as every constraint is certain to stay met."""
        horizon, count = self.problem.simulator.horizon, self.kept
        share = self.problem.settings.delta / (self.iteration * (self.iteration + 1.0) * 2.0 * max(1, count))
        values, gradients = self._returns / self.batch, self._gradients / self.batch
        unsure = horizon * np.sqrt(np.log(2.0 / share) / (2.0 * self.batch))
        longest = np.sqrt(2.0 * float(((horizon - np.arange(horizon)) ** 2).sum()))
        askew = 2.0 * longest / np.sqrt(self.batch) * (1.0 + np.sqrt(2.0 * np.log(1.0 / share)))
        slack = values[1:] - self.problem.simulator.thresholds
        least = np.maximum(self.slack, slack - unsure)  # [K]; what was certain before the batch still is
        ascent = gradients[0] + self.eta * np.tensordot(1.0 / np.maximum(slack, least), gradients[1:], axes=1)
        self.norm = float(np.sqrt((ascent**2).sum()))
        along = np.abs((gradients[1:] * ascent).sum(axis=(1, 2, 3))) / max(self.norm, 1e-300) + askew  # [K]
        smooth = 2.0 * horizon**2 + 0.5 * horizon
        barrier = smooth + float((10.0 * smooth * self.eta / least + 8.0 * self.eta * along**2 / least**2).sum())
        reach = float((least / (np.sqrt(smooth * least) + 2.0 * along)).min(initial=np.inf))
        moved = min(self.norm / barrier, reach)
        self.theta = self.theta + moved / max(self.norm, 1e-300) * ascent
        self.slack = least - moved * along - 0.5 * smooth * moved**2
        self.iteration += 1
        self._clear()


def expected_gradients(real: CMDP, policy: MarkovPolicy, tables: Sequence[Floats]) -> tuple[Floats, Floats]:
    """(values [1 + K], gradients [1 + K, H, S, A]) of a softmax policy on a known system: what batches tend to.

    The gradient of V is the advantage of every action times how often it is taken (the policy gradient theorem).
    """
    visits, dense = occupancy(real, policy), real.kernel.to_dense()  # [H, S, A], [S, A, S] or [H, S, A, S]
    values, gradients = [], []
    for table in tables:
        utility = table[0] if len(table) == 1 else table
        after = value_functions(real, policy, utility)  # [H + 1, S]
        ahead = np.einsum("sat,ht->hsa" if dense.ndim == 3 else "hsat,ht->hsa", dense, after[1:])
        gradients.append(visits * (utility + ahead - after[:-1, :, None]))
        values.append(float(real.start @ after[0]))
    return np.array(values), np.array(gradients)


def _softmax(theta: Floats) -> Floats:
    raised = np.exp(theta - theta.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))
