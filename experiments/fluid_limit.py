"""Long runs in batches that grow with the run: sampled, or in the fluid limit, where every visit is the expected one.

Problem: some methods, with the constants that they were published with, need 1e7 to 1e13 real samples; no loop over episodes
gets there. Algorithm: a plan is deployed for a batch of episodes, a fixed share of all so far, before the method is asked
again. Sampled, the batch is rolled out in compiled code. In the fluid limit it is not rolled out at all: every row gets the
visits that the deployed mixture is expected to make, in the proportions of the real row, rounded. Stopping rule: that of the
method, or the limit of episodes.

A fluid limit is NOT a run: nothing is random in it, so it shows no failure that a confidence level allows, and it is
labelled by `BatchedRun.expected`. tests/experiments/test_fluid_limit.py compares it with sampled runs. In neither kind are
returns of the baseline looked at: its margin is taken as stated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.simulate import collect
from safe2real.methods.base import Decision, Method, Reason
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import Mixture
from safe2real.model.validation import Floats, finite_number
from safe2real.planning.evaluate import checked_utility, occupancy
from safe2real.problem.problem import Problem

GROWTH = 0.02  # of all episodes so far, in one batch
_ERROR = 1e-9  # of an exact evaluation


@dataclass(frozen=True, eq=False, slots=True)
class BatchedRun:
    """The record of a run in batches: arrays have an entry for each of T plans."""

    expected: bool  # the fluid limit: nothing was sampled
    stopped: bool
    horizon: int
    episodes: NDArray[np.int64]  # [T] how many each plan was deployed for
    baseline_only: NDArray[np.bool_]  # [T]
    uncertainty: Floats  # [T (+ 1)] of the method; the last one is that of the stop
    real_values: Floats  # [T, K] exact V_c of every deployed mixture on the real system
    rewards: Floats  # [T, N] exact V_r of the same, for the rewards that were asked about
    thresholds: Floats  # [K]

    @property
    def samples(self) -> int:
        return int(self.episodes.sum()) * self.horizon

    @property
    def samples_on_baseline(self) -> int:
        """Real samples before anything but the baseline alone was deployed."""
        first = int(np.argmin(self.baseline_only)) if not self.baseline_only.all() else self.episodes.size
        return int(self.episodes[:first].sum()) * self.horizon

    @property
    def unsafe_share(self) -> float:
        """Share of episodes whose deployed mixture misses a threshold on the real system, by exact evaluation."""
        unsafe = (self.real_values < self.thresholds - _ERROR).any(axis=1)
        return float(self.episodes[unsafe].sum() / max(1, self.episodes.sum()))

    @property
    def average(self) -> tuple[Floats, Floats]:
        """(V_r [N], V_c [K]) of the uniform mixture of all rounds, what a method with little regret has to offer."""
        share = self.episodes / max(1, self.episodes.sum())
        return share @ self.rewards, share @ self.real_values


def run_in_batches(
    problem: Problem,
    method: Method,
    real: Kernel,
    *,
    most: float,
    expected: bool = False,
    growth: float = GROWTH,
    rewards: Sequence[Floats] = (),
    progress: Callable[[int, Decision, Evidence], bool | None] | None = None,
) -> tuple[BatchedRun, Evidence]:
    """Run `method` on the known system `real` until it stops, or for `most` episodes.

    Args:
        problem: what is given and assumed.
        method: any that goes by counts of rows; one that goes by single episodes is for `simulate`.
        real: the rows of the "real" system; it counts per step if and only if the simulator does.
        most: episodes.
        expected: the fluid limit in place of samples.
        growth: the share of all episodes so far that one plan is deployed for.
        rewards: [S, A] or [H, S, A] each; what every deployed mixture is worth to them is kept.
        progress: is told (episodes so far, decision, evidence) before every batch; the run ends where it answers True.

    Returns:
        The record, and the evidence at its end.

    Raises:
        InvalidInput: the method keeps data that counts do not have, or `real` does not fit.
    """
    evidence, model = method.evidence(problem), problem.simulator.with_kernel(real)
    if type(evidence) is not Evidence:
        raise InvalidInput(f"the method {method.name!r} goes by more than counts of rows; run it with simulate")
    if real.is_stationary != problem.simulator.kernel.is_stationary:
        raise InvalidInput("one of simulator and real system changes with the step, the other does not; repeat the latter")
    if not 0.0 < finite_number("growth", growth) <= 1.0:
        raise InvalidInput(f"growth is {growth:g}; give a share above 0 and at most 1")
    limit = int(finite_number("most", most))
    utilities = [checked_utility(model, reward, "reward") for reward in rewards]
    fluid = _Fluid(evidence, real) if expected else None
    entries: list[tuple[int, bool, float, Floats, Floats]] = []
    done, memory, stopped, last = 0, None, False, np.inf
    while done < limit:
        decision = method.propose(
            problem, evidence, seed=problem.settings.coin_seed, round_number=done + 1, memory=memory
        )  # fmt: skip
        memory, last = decision.memory, decision.uncertainty
        if progress is not None and progress(done, decision, evidence):
            break
        mixture = decision.mixture(problem.baseline)
        if mixture is None:
            stopped = decision.reason is Reason.STOP
            break
        batch = int(min(max(1.0, growth * done), limit - done))
        visits = occupancy(model, mixture)  # [H, S, A]
        values = np.array([(visits * utility).sum() for utility in model.utilities])
        worth = np.array([(visits * utility).sum() for utility in utilities])
        entries.append((batch, decision.exploration_weight == 0.0, decision.uncertainty, values, worth))
        if fluid is not None:
            fluid.add(batch * visits[: model.steps])
            evidence.counts.episodes += batch
        else:
            _sample(model, mixture, evidence, batch, problem.settings.coin_seed)
        evidence.update()
        done += batch
    columns: list[Any] = [np.array(column) for column in zip(*entries, strict=True)] or [np.empty(0)] * 5
    record = BatchedRun(
        expected=expected,
        stopped=stopped,
        horizon=model.steps,
        episodes=columns[0].astype(np.int64),
        baseline_only=columns[1].astype(np.bool_),
        uncertainty=np.append(columns[2], last) if stopped else columns[2],
        real_values=columns[3].reshape(len(entries), model.num_constraints),
        rewards=columns[4].reshape(len(entries), len(utilities)),
        thresholds=np.array(model.thresholds),
    )
    return record, evidence


def _sample(model: CMDP, mixture: Mixture, evidence: Evidence, episodes: int, seed: int) -> None:
    """Roll a batch out: how many episodes each part of the mixture gets is drawn at once."""
    rng = np.random.default_rng([seed, evidence.counts.episodes])
    shares = rng.multinomial(episodes, mixture.weights / mixture.weights.sum())
    for part, number in zip(mixture.policies, shares.tolist(), strict=True):
        if number:
            collect(model, part, evidence.counts, episodes=number, seed=seed)


class _Fluid:
    """Counts that are what is expected of them."""

    def __init__(self, evidence: Evidence, real: Kernel) -> None:
        rows, successors, probabilities = real.transitions()
        order = np.lexsort((-probabilities, rows))  # the likely successors of a row first: they are seen first
        self.rows, self.probabilities = rows[order], probabilities[order]
        counts = evidence.counts
        counts.add(self.rows, successors[order], np.zeros(rows.size, dtype=np.int64))  # so that all have a place
        self.counts, self.expected = counts, np.zeros(real.num_rows)
        first = np.searchsorted(self.rows, self.rows)  # of the row's own transitions
        self.place = counts.tally.begin.astype(np.int64)[self.rows] + np.arange(rows.size) - first
        counts.tally.length[:] = 0

    def add(self, visits: Floats) -> None:
        """So many more visits [H, S, A], expected ones."""
        pooled = visits.sum(axis=0) if self.counts.simulator.is_stationary else visits
        self.expected += pooled.reshape(-1)
        tally, counted = self.counts.tally, np.rint(self.expected[self.rows] * self.probabilities).astype(np.int64)
        tally.count[self.place] = counted
        tally.visits[:] = np.bincount(self.rows, counted, minlength=tally.visits.size).astype(np.int64)
        tally.length[:] = np.bincount(self.rows, counted > 0, minlength=tally.visits.size).astype(np.uint32)
