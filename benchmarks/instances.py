"""Random systems to plan in, with thresholds that bind.

Successors are spread over the whole state space, one in each of as many equal parts of it, so that a sweep cannot profit
from neighbouring states being neighbours in memory; or, on demand, they lie near the state, as in most systems that move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from experiments.paper.windy_instances import with_mismatch
from safe2real import CMDP, AtLeast, Kernel, solve
from safe2real._compiled.rows import Rows
from safe2real.model.validation import Floats
from safe2real.planning import Solution, constraint_values


@dataclass(frozen=True, eq=False, slots=True)
class Size:
    """How large a random system is."""

    states: int
    actions: int
    horizon: int
    successors: int = 5  # per row; at most this many when `ragged`
    per_step: bool = False  # rows, rewards and utilities that change with the step
    ragged: bool = False  # rows of different lengths
    constraints: int = 1
    near: bool = False  # successors are neighbours of their state
    grid: bool = False  # the paper's kind of system: a slippery grid with neighbouring successors, an unsafe wall

    def __str__(self) -> str:
        if self.grid:
            return f"({self.states}, {self.actions}, {self.horizon}) grid"
        rows = "per-step" if self.per_step else "stationary"
        return f"({self.states}, {self.actions}, {self.horizon}) {rows}{' near' * self.near}"


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """A planning problem whose constraints bind at the optimum."""

    model: CMDP
    reward: Floats  # [S, A] or [H, S, A]


def random_kernel(rng: np.random.Generator, size: Size) -> Kernel:
    """Rows built straight in the stored form: the validating constructors need several times the memory of the result."""
    rows = size.states * size.actions * (size.horizon if size.per_step else 1)
    part = 2 if size.near else size.states // size.successors
    successor = rng.integers(part, size=(rows, size.successors), dtype=np.uint32)
    successor += np.arange(size.successors, dtype=np.uint32) * np.uint32(part)
    if size.near:
        state = np.arange(rows) // size.actions % size.states
        successor += np.clip(state - size.successors, 0, size.states - 2 * size.successors).astype(np.uint32)[:, None]
    probability = rng.random((rows, size.successors))
    probability += 1e-3
    length = np.full(rows, size.successors, dtype=np.uint32)
    if size.ragged:
        kept = rng.random((rows, size.successors)) < 0.7
        kept[:, 0] |= ~kept.any(axis=1)
        probability *= kept
        length = kept.sum(axis=1, dtype=np.uint32)
        successor = successor[kept]
    probability /= probability.sum(axis=1, keepdims=True)
    return Kernel(
        num_states=size.states,
        num_actions=size.actions,
        horizon=size.horizon if size.per_step else None,
        compiled_rows=Rows(
            (np.cumsum(length, dtype=np.uint32) - length).astype(np.uint32),
            length,
            successor.reshape(-1),
            probability[kept] if size.ragged else probability.reshape(-1),
        ),
    )


def random_instance(size: Size, seed: int) -> Instance:
    """Thresholds lie halfway between what the best unconstrained policy reaches and the most that any policy can reach.

    With several constraints they start from the policy that is best for all constraints at once, so that all can be met.
    """
    rng = np.random.default_rng(seed)
    if size.grid:
        return grid_instance(rng, size)
    kernel = random_kernel(rng, size)
    lead = (size.horizon,) if size.per_step else ()
    shape = (*lead, size.states, size.actions)
    reward = rng.random(shape)
    utilities = [rng.random(shape) for _ in range(size.constraints)]
    loose = CMDP.of(kernel, size.horizon, 0, [AtLeast(utility, 0.0) for utility in utilities])
    # Without a threshold one pass is enough, and its values come with it: an evaluation would write occupancies out.
    rewarding = solve(loose, reward).constraint_values
    safest = solve(loose, np.mean(utilities, axis=0)).constraint_values
    return Instance(loose.with_thresholds(0.5 * (rewarding + safest)), reward)


def without_limits(instance: Instance) -> Instance:
    """The same with thresholds that every policy meets: a plan is one pass over all rows then, and nothing else."""
    return Instance(instance.model.with_thresholds(np.zeros(instance.model.num_constraints)), instance.reward)


def grid_instance(rng: np.random.Generator, size: Size) -> Instance:
    """A windy grid with a random reward and a threshold halfway between what reward alone and safety alone reach."""
    side = math.isqrt(size.states)
    grid = with_mismatch(max(3, size.states // 8), 0.8, 0, size=side, horizon=size.horizon)
    loose, reward = grid.cmdp(grid.real(), 0.0), rng.random((size.states, size.actions))
    rewarding = constraint_values(loose, solve(loose, reward).policy)
    safest = constraint_values(loose, solve(loose, grid.safety()).policy)
    return Instance(loose.with_thresholds(0.5 * (rewarding + safest)), reward)


def perturbed(
    instance: Instance, rng: np.random.Generator, *, rows: int, row_change: float, reward_change: float
) -> Instance:
    """What the next round of learning looks like: some rows have moved, and all rewards a little. Changes are relative."""
    kernel = instance.model.kernel
    probability = kernel.probability.copy()
    for row in rng.choice(kernel.num_rows, size=rows, replace=False):
        stored = slice(int(kernel.begin[row]), int(kernel.begin[row]) + int(kernel.length[row]))
        probability[stored] *= np.exp(row_change * rng.standard_normal(int(kernel.length[row])))
        probability[stored] /= probability[stored].sum()
    reward = instance.reward * np.exp(reward_change * rng.standard_normal(instance.reward.shape))
    return Instance(
        instance.model.with_kernel(replace(kernel, compiled_rows=kernel.compiled_rows._replace(probability=probability))),
        reward,
    )


def relative_gap(solution: Solution) -> float:
    """How far the certificate leaves the optimum open, relative above 1."""
    return (solution.bound - solution.value) / max(1.0, abs(solution.value))
