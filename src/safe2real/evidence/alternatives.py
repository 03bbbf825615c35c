"""Which of several simulators the data still allow.

Problem: the real system is one of M simulators, stated by somebody who may be wrong. Test: the likelihood of everything that
was seen, under each of them, against that of a mixture: half of it the mean of all M, half a free component that knows
nothing (a Krichevsky-Trofimov mixture in each row), which is there to win if it is none of them. Under simulator j the ratio
mixture / j is a nonnegative martingale that begins at 1, whatever chose the actions, so by Ville's inequality it ever
reaches 1 / delta' with probability at most delta'. A simulator for which it does is dropped, for good; when none is left,
the statement is refuted. Likelihoods depend on counts alone, so it can be looked at at any time. Proof: docs/structure.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from safe2real.evidence.counts import Counts
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import Policy
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.problem.alternatives import Alternatives
from safe2real.problem.problem import Problem

_FREE = 0.5  # the free component's share of the mixture
ALTERNATIVES_SHARE = 0.25
"""Of delta, for dropping alternatives, where certificates may rest on them."""


def share_of_sets(problem: Problem) -> float:
    """The share of delta that is the confidence sets' own."""
    spent = problem.alternatives is not None and problem.alternatives.exact
    return 1.0 - ALTERNATIVES_SHARE if spent else 1.0


class Surviving:
    """The simulators that are left, and what a policy is worth on them."""

    def __init__(self, model: CMDP, stated: Alternatives, delta: float) -> None:
        """`delta` is the probability with which the right one is dropped, at most."""
        self.stated, self._model, self._delta = stated, model, delta
        self.alive: NDArray[np.bool_] = np.ones(len(stated.simulators), dtype=np.bool_)  # [M] it only ever shrinks
        self._samples = 0  # when it was last looked at
        self._tables = [_Table(kernel) for kernel in stated.simulators]
        self._sizes = _union_sizes(stated.simulators)

    @property
    def is_refuted(self) -> bool:
        """Whether it is none of them: final."""
        return not self.alive.any()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Those that are left."""
        return tuple(one for one, left in zip(self.stated.simulators, self.alive, strict=True) if left)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.stated.name(number) for number in np.flatnonzero(self.alive).tolist())

    def look(self, counts: Counts) -> None:
        """Drop what the counts rule out."""
        if counts.samples == self._samples:
            return
        self._samples = counts.samples
        logs, free = self.likelihoods(counts)
        possible = logs > -np.inf
        mixture = math.log(_FREE) + free
        if possible.any():
            mean = math.log((1.0 - _FREE) / logs.size) + np.logaddexp.reduce(logs[possible])
            mixture = float(np.logaddexp(mixture, mean))
        self.alive &= possible & (mixture - np.where(possible, logs, 0.0) < math.log(1.0 / self._delta))

    def likelihoods(self, counts: Counts) -> tuple[Floats, float]:
        """([M] the log-likelihood of what was seen under each simulator, that of the free component)."""
        rows, successors, often = counts.transitions()
        logs = np.array([float(often @ table.logs(rows, successors)) if rows.size else 0.0 for table in self._tables])
        return logs, _free(rows, often, self._sizes) if rows.size else 0.0

    def constraints(self, policy: Policy) -> Floats:
        """[J, K] V_c of a policy on each that is left."""
        values = [constraint_values(self._model.with_kernel(kernel), policy) for kernel in self.kernels]
        return np.array(values).reshape(len(values), self._model.num_constraints)

    def values(self, policy: Policy, reward: Floats) -> Floats:
        """[J] V_r of a policy on each that is left."""
        return np.array([evaluate(self._model.with_kernel(kernel), policy, reward) for kernel in self.kernels])


class _Table:
    """The probabilities of a kernel, to look single ones up."""

    def __init__(self, kernel: Kernel) -> None:
        rows, successors, probabilities = kernel.transitions()
        self._states = kernel.num_states
        self._keys = rows * kernel.num_states + successors
        order = np.argsort(self._keys, kind="stable")
        self._keys, self._probabilities = self._keys[order], probabilities[order]

    def logs(self, rows: NDArray[np.int64], successors: NDArray[np.int64]) -> Floats:
        """[n]; -inf where something is impossible."""
        keys = rows * self._states + successors
        at = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        found = np.where(self._keys[at] == keys, self._probabilities[at], 0.0)
        return np.log(found, out=np.full(found.shape, -np.inf), where=found > 0.0)


def _union_sizes(kernels: tuple[Kernel, ...]) -> NDArray[np.int64]:
    """[R] how many successors the simulators have between them in each row."""
    states = kernels[0].num_states
    keys = np.unique(
        np.concatenate([rows * states + successors for rows, successors, _ in map(Kernel.transitions, kernels)])
    )
    return np.bincount(keys // states, minlength=kernels[0].num_rows)


def _free(rows: NDArray[np.int64], often: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
    """log of the product over rows of the Dirichlet(1/2) mixture of what was seen there."""
    visited, at = np.unique(rows, return_inverse=True)
    place = np.arange(rows.size) - np.searchsorted(rows, rows)  # rows come in order
    counts = np.zeros((visited.size, int(place.max()) + 1), dtype=np.int64)
    counts[at.reshape(-1), place] = often
    # What no simulator has rules all of them out anyway.
    return float(mixtures(counts, np.maximum(sizes[visited], (counts > 0).sum(axis=1))).sum())


def mixtures(counts: NDArray[np.int64], possible: NDArray[np.int64]) -> Floats:
    """[n] log of the Dirichlet(1/2) mixture of laws over so many `possible` outcomes [n], of what was counted.

    It is the product of (count so far + 1/2) / (visits so far + possible / 2), whatever the order.
    """
    from scipy.special import gammaln  # late: it takes longer to import than all of this package

    half = 0.5 * possible
    each = (gammaln(counts + 0.5) - gammaln(0.5)).sum(axis=1)
    return np.asarray(each + gammaln(half) - gammaln(half + counts.sum(axis=1)))
