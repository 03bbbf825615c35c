"""The best policy of a known CMDP, exactly.

Problem: maximise V_r subject to V_c >= threshold for K constraints (paper, eq. compute-CMDP). Algorithm: not the occupancy
linear program, but its Lagrangian dual, which is convex and piecewise linear in K multipliers and costs one backward
induction per evaluation. K = 1: move to the crossing of two supporting lines until the crossing lies on the dual. K >= 2:
column generation with backward induction as the pricing step. Stopping rule: a feasible mixture's value meets a dual bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from safe2real._compiled import columns, crossing, outcomes
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, frozen
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.shown import rounded_up
from safe2real.model.wording import Wording
from safe2real.planning.evaluate import checked_utility


class Status(Enum):
    """How a planning problem ended."""

    OPTIMAL = outcomes.OPTIMAL
    """Feasible, and `bound` shows that nothing is better (to 1e-9, relative above 1)."""
    INFEASIBLE = outcomes.INFEASIBLE
    """No policy meets every threshold; `shortfall` says by how much the best one misses."""
    INACCURATE = outcomes.INACCURATE
    """Rounding stopped the search: the policy meets its thresholds, but `bound` may be above `value` by more than 1e-9."""


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
    sweeps: int  # backward inductions used
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


def solve(model: CMDP, reward: ArrayLike, *, warm: Solution | None = None) -> Solution:
    """The exact optimum of `reward` ([S, A] or [H, S, A], any finite numbers) over the policies that meet every constraint.

    `warm` is the solution of a similar problem (other rewards, slightly other rows): its policies are evaluated anew in
    `model` and the search starts from them. The answer is certified in the same way, so a poor start costs time only.
    """
    horizon, states, actions = model.shape
    objective = checked_utility(model, reward, "reward")
    constraints = model.num_constraints
    slots = slots_for(constraints)
    policies = np.empty((slots, horizon, states), dtype=np.uint32)
    count = 0
    if warm is not None:
        if warm.policy.shape != model.shape:
            raise InvalidInput(f"the warm start has shape (H, S, A) = {warm.policy.shape}; this system has {model.shape}")
        for part in warm.policy.policies[: constraints + 1]:
            if part.actions is not None:
                policies[count] = part.actions
                count += 1
    lines = np.zeros((slots, 1 + constraints))
    weights = np.zeros(slots)
    multipliers = np.zeros(constraints)
    if warm is not None and warm.multipliers.size == constraints:
        multipliers[:] = warm.multipliers
    start, utilities, thresholds = model.arrays
    search = crossing.solve if constraints < 2 else columns.solve
    code, bound, shortfall, sweeps = search(
        *model.kernel.rows, start, objective, utilities, thresholds, horizon,
        count, policies, lines, weights, multipliers,
    )  # fmt: skip
    # Every call to NumPy costs as much as a hundred rows of a sweep, so there are few of them here.
    share = weights.tolist()
    used = [j for j, weight in enumerate(share) if weight > 0.0]
    kept = frozen(policies.take(used, axis=0))
    parts = [MarkovPolicy(horizon, states, actions, kept[i], None) for i in range(len(used))]
    totals = frozen(weights.dot(lines))
    return Solution(
        status=_STATUS[code],
        policy=Mixture(frozen(np.array([share[j] for j in used])), tuple(parts)),
        value=float(totals[0]),
        bound=bound,
        constraint_values=totals[1:],
        multipliers=frozen(multipliers),
        shortfall=shortfall,
        sweeps=sweeps,
        wordings=model.wordings,
    )


def slots_for(constraints: int) -> int:
    """How many policies the search may hold at once."""
    return (1, 3)[constraints] if constraints < 2 else 4 * constraints + 12
