"""The worst a policy can do on any system that the data allow: exact minima over the rectangular TV balls.

Problem: min over all kernels P with TV(P_h(. | s, a), model row) <= gap(row), every P a distribution on its support, of V_f
of a policy. Algorithm: backward induction; in each row the mass `gap` moves from the successors of the highest value to the
lowest one that can be reached, which is the exact minimum of a linear function over a TV ball in the simplex. The real
kernel is one of those minimised over (if the radius holds), so the minimum is a lower bound on the real value, far tighter
than the value on the model minus a bonus.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safe2real._compiled import robust
from safe2real._compiled.rows import Reach
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, bare
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import Mixture, Policy


@dataclass(frozen=True, eq=False, slots=True)
class TVBalls:
    """A model and the TV distances `gaps` within which the real rows lie: reality at its worst and at its best.

    Utilities are [1 or H, S, A] and have been checked. `reach` limits where mass can go, as in `HybridModel`.
    """

    model: CMDP
    gaps: Floats  # [R]
    reach: Reach

    def worst(self, policy: Policy, utility: Floats) -> float:
        """min of V_f over the kernels in the balls.

        For a mixture the sum of its parts' minima, which is a lower bound on the minimum: the parts may be met by different
        kernels.
        """
        if isinstance(policy, Mixture):
            parts = zip(policy.weights, policy.policies, strict=True)
            return float(sum(weight * self.worst(part, utility) for weight, part in parts))
        fixed = np.empty((0, 0), dtype=np.uint32) if policy.actions is None else bare(policy.actions)
        table = np.empty((0, 0, 0)) if policy.table is None else bare(policy.table)
        rows, start = self.model.kernel.rows, self.model.arrays.start
        return float(robust.worst_value(rows, self.reach, self.gaps, bare(utility), table, fixed, start))

    def best(self, utility: Floats) -> float:
        """max of V_f over all policies AND all kernels in the balls: an upper bound on what a policy reaches in reality."""
        rows, start, horizon = self.model.kernel.rows, self.model.arrays.start, self.model.horizon
        return -float(robust.least_cost(rows, self.reach, self.gaps, -utility, start, horizon))

    def worst_constraints(self, policy: Policy) -> Floats:
        """[K]"""
        return np.array([self.worst(policy, utility) for utility in self.model.arrays.utilities])

    def best_feasible(self, reward: Floats, multipliers: Floats, largest: float) -> float:
        """An upper bound on V_r of every policy that meets the constraints in reality, by Lagrangian duality.

        For any multipliers >= 0 the real optimum is at most the best value of r + sum_k lambda_k c_k over all policies and
        kernels in the balls, minus lambda . thresholds. `multipliers` [K] is where the search for good ones starts,
        coordinate by coordinate up to `largest`; every one of them gives a valid bound.
        """
        from scipy.optimize import minimize_scalar  # late: importing it takes longer than all of planning

        model = self.model

        def bound(weights: Floats) -> float:
            total = reward + np.tensordot(weights, model.utilities, axes=1) if weights.size else reward
            return self.best(total) - float(weights @ model.thresholds)

        best, weights = bound(multipliers), multipliers.copy()
        for k in list(range(weights.size)) * (1 if weights.size == 1 else 2):

            def along(value: float, k: int = k) -> float:
                moved = weights.copy()
                moved[k] = value
                return bound(moved)

            found = minimize_scalar(along, bounds=(0.0, largest), method="bounded", options={"xatol": 1e-4 * largest})
            if found.fun < best:
                best, weights[k] = float(found.fun), float(found.x)
        return min(best, bound(np.zeros_like(weights)))


def reach_of(support: Kernel | None, simulator: Kernel) -> Reach:
    if support is None:
        nothing = np.empty(0, dtype=np.uint32)
        return Reach(nothing, nothing, nothing)
    shapes = [(k.horizon, k.num_states, k.num_actions) if isinstance(k, Kernel) else None for k in (support, simulator)]
    if shapes[0] != shapes[1]:
        raise InvalidInput(
            f"support is for (H, S, A) = {shapes[0]} and the simulator for {shapes[1]}; give a kernel of the "
            "simulator's shape whose successors are the possible ones"
        )
    return Reach(*support.rows[:3])
