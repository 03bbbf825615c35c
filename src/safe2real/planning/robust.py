"""The worst a policy can do on any system that the data allow: exact minima over the rectangular TV balls.

Problem: min over all kernels P with TV(P_h(. | s, a), model row) <= gap(row), every P a distribution on its support, of V_f
of a policy. Algorithm: backward induction; in each row the mass `gap` moves from the successors of the highest value to the
lowest one that can be reached, which is the exact minimum of a linear function over a TV ball in the simplex. The real
kernel is one of those minimised over (if the radius holds), so the minimum is a lower bound on the real value, far tighter
than the value on the model minus a bonus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real._compiled import robust
from safe2real._compiled.rows import Reach, Sets
from safe2real._compiled.team import Team
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, bare, finite_floats
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy, Mixture, Policy, fitted
from safe2real.planning.evaluate import checked_utility
from safe2real.planning.threads import run_together, threads_for


def worst_value(model: CMDP, policy: Policy, utility: ArrayLike, gaps: ArrayLike, *, support: Kernel | None = None) -> float:
    """min of V_f over the kernels within TV distance `gaps` ([S, A], or [H, S, A] per step) of the model's rows.

    For a mixture the sum of its parts' minima, which is a lower bound on the minimum: the parts may be met by different
    kernels. `support` limits where mass can go, as in `HybridModel`.
    """
    policy = fitted(policy, model)
    return _sets(model, gaps, support).worst(policy, checked_utility(model, utility))


def worst_constraint_values(model: CMDP, policy: Policy, gaps: ArrayLike, *, support: Kernel | None = None) -> Floats:
    """`worst_value` of every constraint of `model` [K]."""
    policy = fitted(policy, model)
    return _sets(model, gaps, support).worst_constraints(policy)


def best_value(model: CMDP, utility: ArrayLike, gaps: ArrayLike, *, support: Kernel | None = None) -> float:
    """max of V_f over all policies AND all kernels within `gaps`: an upper bound on what any policy can reach in reality."""
    return _sets(model, gaps, support).best(checked_utility(model, utility))


class RowSets:
    """A model and where the real rows lie around it: reality at its worst and at its best."""

    def __init__(
        self, model: CMDP, gaps: Floats, reach: Reach, divergences: Floats | None = None, *, threads: int | None = None
    ) -> None:
        """`gaps` [R] are TV distances, `divergences` [R] bound KL(model row, real row) where they are not inf.

        So many `threads` share the states out, None for as many as pay; the numbers are the same for any number of them.
        """
        self.model, self.gaps, self.reach = model, gaps, reach
        self._threads = threads_for(model.kernel, model.horizon, threads)
        self.divergences = np.full(gaps.shape, np.inf) if divergences is None else divergences

    @property
    def arrays(self) -> Sets:
        """For compiled code."""
        return Sets(self.model.kernel._rows, self.reach, self.gaps, self.divergences)

    def worst(self, policy: Policy, utility: Floats) -> float:
        """`worst_value` of a utility [1 or H, S, A] that has been checked."""
        if isinstance(policy, Mixture):
            parts = zip(policy.weights, policy.policies, strict=True)
            return float(sum(weight * self.worst(part, utility) for weight, part in parts))
        return self.follow(policy, utility, np.empty((2, self.model.num_states)))

    def follow(self, policy: MarkovPolicy, utility: Floats, values: Floats) -> float:
        """The same of one Markov policy; the worst values from every step and state on go into `values` [H + 1, S].

        With [2, S] only those of the first step are kept.
        """
        fixed = np.empty((0, 0), dtype=np.uint32) if policy.actions is None else bare(policy.actions)
        table = np.empty((0, 0, 0)) if policy.table is None else bare(policy.table)
        given = self.arrays, bare(utility), table, fixed, self.model._arrays.start, values
        return float(self.together(lambda team: robust.follow(*given, team)))

    def together(self, member: Callable[[Team], Any]) -> Any:
        """What a compiled pass gives that takes its share of the states from a team."""
        return run_together(member, self._threads)

    def worst_constraints(self, policy: Policy) -> Floats:
        """[K]"""
        return np.array([self.worst(policy, utility) for utility in self.model._arrays.utilities])

    def best(self, utility: Floats) -> float:
        """`best_value` of a utility [1 or H, S, A] that has been checked."""
        model = self.model
        values, nobody = np.empty((2, model.num_states)), np.empty((0, 0), dtype=np.uint32)
        given = self.arrays, -utility, model._arrays.start, model.horizon, values, nobody
        return -float(self.together(lambda team: robust.cheapest(*given, team)))

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


def _sets(model: CMDP, gaps: ArrayLike, support: Kernel | None) -> RowSets:
    return RowSets(model, _gaps(model, gaps), reach_of(support, model.kernel))


def _gaps(model: CMDP, gaps: ArrayLike) -> Floats:
    balls, expected = finite_floats("gaps", gaps), model.kernel.shape
    if balls.shape != expected or (balls < 0.0).any():
        raise InvalidInput(f"gaps have shape {balls.shape}; give TV distances of at least 0 of shape {expected}")
    return balls.reshape(-1)


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
    return Reach(*support._rows[:3])
