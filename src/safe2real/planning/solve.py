"""The best policy of a known CMDP, exactly.

Problem: maximise V_r subject to V_c >= threshold for K constraints (paper, eq. compute-CMDP). Algorithm: not the occupancy
linear program, but its Lagrangian dual, which is convex and piecewise linear in K multipliers and costs one backward
induction per evaluation. K = 1: move to the crossing of two supporting lines until the crossing lies on the dual. K >= 2:
column generation with backward induction as the pricing step. Stopping rule: a feasible mixture's value meets a dual bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real._compiled import codes, search
from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import Wording, rounded_up
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats, Indices, frozen
from safe2real.planning.evaluate import checked_utility
from safe2real.planning.sweeper import Outcome, Sweeper, search_by, slots_for
from safe2real.planning.threads import threads_for


class Status(Enum):
    """How a planning problem ended."""

    OPTIMAL = codes.OPTIMAL
    """Feasible, and `bound` shows that nothing is better (to 1e-9, relative above 1)."""
    INFEASIBLE = codes.INFEASIBLE
    """No policy meets every threshold; `shortfall` says by how much the best one misses."""
    INACCURATE = codes.INACCURATE
    """Rounding stopped the search: the policy meets its thresholds, but `bound` may be above `value` by more than 1e-9."""


# Actions of all policies of a search beyond which they are kept in the smallest type that holds them: 16 MiB and more.
LARGE = 2**22

_STATUS = {status.value: status for status in Status}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Solution:
    """The answer to one planning problem.

    `bound` is a dual bound: no policy that meets the thresholds is worth more. When INFEASIBLE, `policy` is the one whose
    largest miss is smallest, `value` is its reward, `bound` is -inf and the multipliers are infinite.
    """

    status: Status
    policy: Mixture  # at most K + 1 deterministic policies
    value: float  # V_r of `policy`, by evaluation
    bound: float  # no feasible policy is worth more
    constraint_values: Floats  # [K] V_c of `policy`, by evaluation
    multipliers: Floats  # [K] price of safety: reward lost per unit of threshold
    shortfall: float  # smallest possible largest miss; 0 when feasible
    sweeps: int  # passes over all actions; those over the actions of two policies alone are not counted
    wordings: tuple[Wording, ...]  # [K] how the constraints were written

    def __repr__(self) -> str:
        pairs = zip(self.wordings, self.constraint_values, strict=True)
        reached = "".join(f", {words.quantity} {words.number(value):.6g}" for words, value in pairs)
        missed = f", misses by {self.shortfall:.6g}" if self.shortfall else ""
        head = f"Solution({self.status.name}, value {self.value:.6g} of at most {rounded_up(self.bound)}{reached}{missed})"
        return f"{head}\n{self.policy}"

    @property
    def is_feasible(self) -> bool:
        """Whether its policy meets every threshold."""
        return self.status is not Status.INFEASIBLE and self.shortfall == 0.0


def solve(
    model: CMDP, reward: ArrayLike, *, warm: Solution | None = None, threads: int | None = None, device: str = "cpu"
) -> Solution:
    """Return the exact optimum of a reward over the policies that satisfy every constraint.

    Args:
        model: the system, and its constraints.
        reward: [S, A] or [H, S, A], any finite numbers.
        warm: the solution of a similar problem (other rewards, slightly other rows): its policies are evaluated anew in
            `model` and the search starts from them. The answer is certified in the same way: a poor start costs time only.
        threads: how many sweep together; None chooses. The answer is the same, bit for bit, for any number.
        device: "cpu", or "cuda" for a GPU (extra `gpu`), which pays from some 10,000 states on.
            The answer is certified by the same bound; its policies stay on the GPU until their actions are read.

    Returns:
        The best mixture, its values by evaluation, and a dual bound that shows that nothing is better.

    Raises:
        InvalidInput: for a reward or a warm start of another shape, for an invalid number of threads, and for a device that
            is missing or has no room for the system.
    """
    check_device(device)
    objective = checked_utility(model, reward, "reward")
    if device == "cuda":
        from safe2real.planning.cuda.solve import solve_on_device  # which gives solutions

        return solve_on_device([model], [objective], warm).solution(0)
    start, utilities, thresholds = model.compiled_arrays
    together = threads_for(model.kernel, model.horizon, threads)
    shape = (slots_for(thresholds.size), model.horizon, start.size)
    large = together > 1 or math.prod(shape) > LARGE
    policies = np.empty(shape, dtype=np.min_scalar_type(objective.shape[2] - 1) if large else np.uint32)
    parts, multipliers = ([], np.zeros(thresholds.size)) if warm is None else warm_start(model, warm)
    for slot, actions in enumerate(parts):
        policies[slot] = actions
    lines, weights = np.zeros((shape[0], 1 + thresholds.size)), np.zeros(shape[0])
    status, bound, shortfall, sweeps = search.solve(
        search.like_of(thresholds.size), model.kernel.compiled_rows, start, objective, utilities, thresholds, model.horizon,
        len(parts), policies, lines, weights, multipliers, together,
    )  # fmt: skip
    found = Outcome(status, bound, shortfall, sweeps, lines, weights, multipliers)
    return as_solution(model, found, policies.__getitem__)


def solve_by(sweeper: Sweeper, model: CMDP, objective: Floats, *, warm: Solution | None = None) -> Solution:
    """Solve like `solve` with the sweeps of `sweeper`; its rows, reward and utilities are those of `model` and `objective`.

    Args:
        sweeper: with `sweeper.slots_for(K)` slots.
        model: whose thresholds and shape are read.
        objective: the reward [1 or H, S, A].
        warm: as in `solve`.

    Returns:
        The solution, certified as ever; its `sweeps` are the passes that `sweeper` made.
    """
    parts, multipliers = ([], np.zeros(model.num_constraints)) if warm is None else warm_start(model, warm)
    for slot, actions in enumerate(parts):
        sweeper.put(slot, actions)
    _, utilities, thresholds = model.compiled_arrays
    rate = 1.0 if thresholds.size != 1 else float(np.ptp(objective)) / max(float(np.ptp(utilities[0])), 1e-300)
    found = search_by(sweeper, thresholds, model.horizon, rate=rate, warm=len(parts), multipliers=multipliers)
    return as_solution(model, found, sweeper.take)


def warm_start(model: CMDP, warm: Solution) -> tuple[list[Indices], Floats]:
    """The policies [H, S] and multipliers [K] of a solution that a search can start from."""
    multipliers = warm_multipliers(model, warm)
    policies = warm.policy.policies[: model.num_constraints + 1]
    return [part.actions for part in policies if part.actions is not None], multipliers


def warm_multipliers(model: CMDP, warm: Solution) -> Floats:
    """[K] the multipliers of a solution to start from, or zeros where it is for another number of constraints.

    Raises:
        InvalidInput: it was made for a system of another shape.
    """
    if warm.policy.shape != model.shape:
        raise InvalidInput(f"the warm start has shape (H, S, A) = {warm.policy.shape}; this system has {model.shape}")
    return warm.multipliers.copy() if warm.multipliers.size == model.num_constraints else np.zeros(model.num_constraints)


def as_solution(model: CMDP, found: Outcome, take: Callable[[list[int]], Any]) -> Solution:
    """Return a search's result as a solution; `take` gives the policies of some slots: actions [n, H, S], or policies."""
    # Every call costs as much as many rows of a sweep, so there are few of them here.
    share = found.weights.tolist()
    used = [j for j in range(len(share)) if share[j] > 0.0]
    parts = take(used)
    if isinstance(parts, np.ndarray):
        kept = frozen(parts.astype(np.uint32, copy=False))
        shape = (*kept.shape[1:], model.kernel.num_actions)
        parts = [MarkovPolicy(shape[0], shape[1], shape[2], kept[i], None) for i in range(len(used))]
    totals = frozen(found.weights.dot(found.lines))
    value = float(totals[0])
    # A threshold that only the safest policy meets has a price of millions: missing it by rounding is worth something then.
    bound = max(found.bound, value) if found.status != codes.INFEASIBLE else found.bound
    return Solution(
        status=_STATUS[found.status],
        policy=Mixture(frozen(found.weights[used]), tuple(parts)),
        value=value,
        bound=bound,
        constraint_values=totals[1:],
        multipliers=frozen(found.multipliers),
        shortfall=found.shortfall,
        sweeps=found.sweeps,
        wordings=model.wordings,
    )


def check_device(device: str) -> None:
    """Refuse a device other than "cpu" and "cuda"."""
    if device not in ("cpu", "cuda"):
        raise InvalidInput(f'device is {device!r}; choose "cpu", or "cuda" for a GPU')


# Exact plans of many systems at once: seeds of a study, rewards or thresholds of one system.
#
# On a GPU all of them are searched together, one sweep over all per step of the search, and only numbers come back; that
# pays from some thousand systems on. On the CPU they are solved one after the other. Either way each answer has its own
# dual bound.


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
    """Return the exact optimum of each of N problems, as `solve` finds it.

    Args:
        models: one system, or N of one shape (H, S, A) with equally many constraints, all with rows that change with the
            step or none. Shared parts (`with_thresholds` of one system shares its rows) are stored once.
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
