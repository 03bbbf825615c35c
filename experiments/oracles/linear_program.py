"""The occupancy linear program of the paper on HiGHS (SciPy): the reference the exact solver is tested against.

Problem: maximise sum d r over occupancy measures d [H, S, A] that start right, conserve flow and meet the constraints.
It has H*S*A variables and H*S equations; `solve` answers the same question hundreds of times faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import linprog

from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import frozen
from safe2real.planning.evaluate import checked_utility, constraint_values, evaluate
from safe2real.planning.solve import Solution, Status


def occupancy_program(model: CMDP, reward: ArrayLike) -> dict[str, Any]:
    """Arguments for `scipy.optimize.linprog` that state the problem; variables are d[h, s, a], flattened."""
    (H, S, A), kernel = model.shape, model.kernel
    objective = np.broadcast_to(checked_utility(model, reward, "reward"), model.shape)
    rows, successors, probabilities = kernel.transitions()
    moves = sparse.csr_array((probabilities, (rows, successors)), shape=(kernel.num_rows, S))
    leave = sparse.kron(sparse.identity(S), np.ones((1, A)))  # [S, S*A] sums the actions of a state
    blocks: list[list[Any]] = [[None] * H for _ in range(H)]
    for h in range(H):
        blocks[h][h] = leave
        if h + 1 < H:
            first = h * kernel.rows_per_step
            blocks[h + 1][h] = -moves[first : first + S * A].T
    balance = np.zeros(H * S)
    balance[:S] = model.start
    problem: dict[str, Any] = {
        "c": -objective.reshape(-1),
        "A_eq": sparse.csr_array(sparse.block_array(blocks)),
        "b_eq": balance,
        "bounds": (0.0, None),
    }
    if model.num_constraints:
        shape = (model.num_constraints, H, S, A)
        problem["A_ub"] = -np.broadcast_to(model.utilities, shape).reshape(model.num_constraints, -1)
        problem["b_ub"] = -model.thresholds
    return problem


def solve_linear_program(model: CMDP, reward: ArrayLike) -> Solution:
    """As `solve`, through the occupancy program. The policy is one stochastic Markov policy.

    HiGHS works to its own tolerances: `constraint_values` are evaluated, and may miss a threshold by about 1e-9.
    """
    result = linprog(
        **occupancy_program(model, reward),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    constraints = model.num_constraints
    if result.status == 2 or result.x is None:
        policy = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
        status, bound = (Status.INFEASIBLE, -np.inf) if result.status == 2 else (Status.INACCURATE, np.inf)
        multipliers = np.full(constraints, np.inf)
    else:
        policy = MarkovPolicy.proportional(np.maximum(result.x.reshape(model.shape), 0.0))
        status = Status.OPTIMAL if result.status == 0 else Status.INACCURATE
        bound = float(-np.asarray(result.fun))
        multipliers = -np.asarray(result.ineqlin.marginals) if constraints else np.empty(0)
    reached = constraint_values(model, policy)
    shortfall = float(np.max(model.thresholds - reached, initial=0.0)) if status is Status.INFEASIBLE else 0.0
    return Solution(
        status=status,
        policy=Mixture(frozen(np.ones(1)), (policy,)),
        value=evaluate(model, policy, reward),
        bound=bound,
        constraint_values=frozen(reached),
        multipliers=frozen(multipliers),
        shortfall=shortfall,
        sweeps=0,
        wordings=model.wordings,
    )
