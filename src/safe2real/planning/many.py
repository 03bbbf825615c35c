"""Exact plans of many systems at once: seeds of a study, rewards or thresholds of one system, alternatives.

On a GPU all of them are searched together, one sweep over all per step of the search, and only numbers come back; that pays
from some thousand systems on. On the CPU they are solved one after the other. Either way each answer has its own dual bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, Indices, frozen
from safe2real.model.cmdp import CMDP
from safe2real.planning.evaluate import checked_utility
from safe2real.planning.solve import Solution, Status, check_device, solve


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Solutions:
    """The answers to N planning problems with K constraints each: as arrays, and as one `Solution` each by `[i]`."""

    statuses: tuple[Status, ...]  # [N]
    values: Floats  # [N] V_r of the policies, by evaluation
    bounds: Floats  # [N] no feasible policy is worth more
    constraint_values: Floats  # [N, K]
    multipliers: Floats  # [N, K]
    shortfalls: Floats  # [N] 0 where feasible
    sweeps: Indices  # [N]
    at: Callable[[int], Solution]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.statuses.count(status)} {status.name}" for status in Status if status in self.statuses)
        return f"Solutions({counts})"

    def __len__(self) -> int:
        return len(self.statuses)

    def __getitem__(self, index: int) -> Solution:
        return self.at(range(len(self))[index])

    def __iter__(self) -> Iterator[Solution]:
        return (self.at(i) for i in range(len(self)))


def solve_many(
    models: CMDP | Sequence[CMDP], rewards: ArrayLike | Sequence[ArrayLike], *, device: str = "cpu"
) -> Solutions:  # fmt: skip
    """The exact optimum of each of N problems, as `solve` finds it.

    Args:
        models: one system, or N of one shape (H, S, A) with equally many constraints, all with rows that change with the
            step or none. What they share (`with_thresholds` of one system shares its rows) is stored once.
        rewards: one array [S, A] or [H, S, A] for all, or a list or tuple of N.
        device: "cpu", or "cuda" for a GPU (extra `gpu`).

    Returns:
        N answers.

    Raises:
        InvalidInput: The systems differ in shape, a list has the wrong length, or there is no such device.
    """
    check_device(device)
    listed = [models] if isinstance(models, CMDP) else list(models)
    if not listed:
        raise InvalidInput("models is empty; give one system, or as many as there are rewards")
    kinds = [_kind(model) for model in listed]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise InvalidInput(
                f"models[{i}] has (H, S, A), constraints and stationary rows {kind}; models[0] has {kinds[0]}: solve "
                "systems of one kind at once"
            )
    given: list[Any] = list(rewards) if isinstance(rewards, (list, tuple)) else [rewards]
    count = max(len(listed), len(given))
    if len(listed) not in (1, count) or len(given) not in (1, count):
        raise InvalidInput(
            f"there are {len(listed)} models and {len(given)} rewards; give as many of both, or one of either"
        )
    if device == "cuda":
        from safe2real.planning.cuda.solve import solve_on_device  # which gives solutions

        tables = [checked_utility(listed[0], reward, f"rewards[{i}]") for i, reward in enumerate(given)]
        answers = solve_on_device(listed, tables)
        found, totals = answers.found, np.einsum("nc,ncu->nu", answers.found.weights, answers.found.lines)
        reached = np.where(found.status == Status.INFEASIBLE.value, -np.inf, totals[:, 0])  # by policies that are feasible
        return Solutions(
            statuses=tuple(Status(code) for code in found.status.tolist()),
            values=frozen(totals[:, 0]),
            bounds=frozen(np.maximum(found.bound, reached)),
            constraint_values=frozen(totals[:, 1:]),
            multipliers=frozen(found.multipliers),
            shortfalls=frozen(found.shortfall),
            sweeps=frozen(found.passes.astype(np.uint32)),
            at=answers.solution,
        )
    solved = [solve(listed[i % len(listed)], given[i % len(given)]) for i in range(count)]
    return Solutions(
        statuses=tuple(one.status for one in solved),
        values=frozen(np.array([one.value for one in solved])),
        bounds=frozen(np.array([one.bound for one in solved])),
        constraint_values=frozen(np.stack([one.constraint_values for one in solved])),
        multipliers=frozen(np.stack([one.multipliers for one in solved])),
        shortfalls=frozen(np.array([one.shortfall for one in solved])),
        sweeps=frozen(np.array([one.sweeps for one in solved], dtype=np.uint32)),
        at=solved.__getitem__,
    )


def _kind(model: CMDP) -> tuple[tuple[int, int, int], int, bool]:
    return model.shape, model.num_constraints, model.kernel.is_stationary
