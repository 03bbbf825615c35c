"""The extended linear program over q(h, s, a, s') on HiGHS (SciPy): what `solve_optimistic` is tested against.

Problem: q(h, s, a, s') is the probability of being in s at step h, taking a and going to s'; d(h, s, a) is its sum over s'.
Maximise sum d r subject to the flow, the constraints, and q(h, s, a, .) in d(h, s, a) times the set of the row. Boxes are
low d <= q <= high d; a TV ball is u >= q - p d, u >= 0, sum u <= gap d. It has H S A (S + 1) variables for boxes and
H S A (2 S + 1) for balls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from experiments.related.rectangular import KernelSet
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import checked_utility


def dense_boxes(sets: KernelSet) -> tuple[Floats, Floats]:
    """(least, largest) probabilities [R, S] of a set of boxes."""
    (begin, length, successor, _), low, high, rest, _ = sets.around
    states = sets.model.num_states
    least, largest = np.zeros((length.size, states)), np.repeat(rest[:, None], states, axis=1)
    for row, (first, count) in enumerate(zip(begin.astype(int), length.astype(int), strict=True)):
        if count:
            held = slice(first, first + count)
            least[row, successor[held]], largest[row, successor[held]] = low[held], high[held]
        else:
            least[row] = max(0.0, 1.0 / states - rest[row])
            largest[row] = min(1.0, 1.0 / states + rest[row])
    return least, largest


def extended_program(sets: KernelSet, reward: ArrayLike) -> dict[str, Any]:
    """Arguments for `scipy.optimize.linprog` that state the problem; variables are d, q and, for balls, u."""
    model = sets.model
    H, S, A = model.shape
    pairs, moves = H * S * A, H * S * A * S
    row_of = np.arange(pairs) % model.kernel.num_rows  # of every (h, s, a)
    spread = sparse.kron(sparse.identity(pairs), np.ones((S, 1)), format="csr")  # [moves, pairs] repeats d
    objective = np.broadcast_to(checked_utility(model, reward, "reward"), model.shape).reshape(-1)
    leave = sparse.kron(sparse.identity(H * S), np.ones((1, A)))  # [H S, pairs] sums the actions
    # Where step h arrives, step h + 1 begins; where the last step arrives nobody asks.
    step, rest = np.divmod(np.arange(moves), S * A * S)
    inside = step + 1 < H
    arrive = sparse.csr_array(
        (np.ones(int(inside.sum())), (((step + 1) * S + rest % S)[inside], np.flatnonzero(inside))), shape=(H * S, moves)
    )
    balance = np.zeros(H * S)
    balance[:S] = model.start
    equal: list[list[Any]] = [[leave, -arrive], [sparse.identity(pairs), -spread.T]]  # flow, and d = sum of q
    identity = sparse.identity(moves)
    least: list[list[Any]]
    if sets.around.gap.size:
        held = model.kernel.to_dense().reshape(-1, S)[row_of].reshape(-1, 1)
        least = [
            [-spread.multiply(held), identity, -identity],  # q - p d <= u
            [-sparse.diags(sets.around.gap[row_of]), None, spread.T],  # sum u <= gap d
        ]
        equal = [[*line, None] for line in equal]
        columns = pairs + 2 * moves
    else:
        low, high = (bounds[row_of].reshape(-1, 1) for bounds in dense_boxes(sets))
        least = [[spread.multiply(low), -identity], [-spread.multiply(high), identity]]
        columns = pairs + moves
    above: list[Any] = [sparse.block_array(least)]
    right = [np.zeros(above[0].shape[0])]
    if model.num_constraints:
        utilities = np.broadcast_to(model.compiled_arrays.utilities, (model.num_constraints, H, S, A)).reshape(-1, pairs)
        above.append(sparse.csr_array(np.hstack([-utilities, np.zeros((len(utilities), columns - pairs))])))
        right.append(-model.compiled_arrays.thresholds)
    whole: Any = sparse.block_array(equal)
    whole = sparse.hstack([whole, sparse.csr_array((whole.shape[0], columns - whole.shape[1]))])
    return {
        "c": np.concatenate([-objective, np.zeros(columns - pairs)]),
        "A_eq": sparse.csr_array(whole),
        "b_eq": np.concatenate([balance, np.zeros(pairs)]),
        "A_ub": sparse.csr_array(sparse.vstack(above)),
        "b_ub": np.concatenate(right),
        "bounds": (0.0, None),
    }
