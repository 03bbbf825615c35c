"""How much the sum of a constraint can differ between episodes: the narrower that range, the fewer rollouts confirm a mean.

Problem: bounds on a mean need a range that no value leaves. Over H steps of utilities in [0, 1] that is [0, H], whatever the
system. Where it is declared what can follow a state, it can be far less: after the end of an episode the rows are known, so
a fall that ends the episode costs at most once, and the range is [H - 1, H].

Algorithm: backward induction over what is POSSIBLE, not over probabilities. The largest sum from a state on is the largest
over actions of what is paid there plus the largest sum from any state that can follow: the successors of a known row, those
of the declared support, or else all states. Every episode of a real system for which the declarations are true is one of
these paths, so its sum is in the range.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.validation import Floats


def spans(
    model: CMDP,
    *,
    known: ArrayLike | None = None,
    support: Kernel | None = None,
    sums: Sequence[Floats] | None = None,
) -> list[tuple[float, float]]:
    """For each constraint the smallest and the largest sum that an episode can have.

    Args:
        model: with the constraints; of its rows only those count that are `known`.
        known: [S, A] or [H, S, A], rows that are exactly the model's on the real system.
        support: what can follow in the other rows; all states can if None.
        sums: each [1 or H, S, A], what is summed instead of the constraints' utilities.

    Returns:
        [K] pairs, or one for each of `sums`. They hold on every real system for which `known` and `support` are true,
        wherever its episodes begin.

    Raises:
        InvalidInput: `known` or `support` does not have the rows of the model.
    """
    tables = list(model.utilities) if sums is None else list(sums)
    if known is None and support is None:
        times = [1 if len(table) > 1 else model.horizon for table in tables]
        ends = [(table.min(axis=(1, 2)).sum(), table.max(axis=(1, 2)).sum()) for table in tables]
        return [(n * float(low), n * float(high)) for n, (low, high) in zip(times, ends, strict=True)]
    rows, successors = _declared(model, known, support)
    return [(-_largest(model, -table, rows, successors), _largest(model, table, rows, successors)) for table in tables]


def _declared(
    model: CMDP, known: ArrayLike | None, support: Kernel | None
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """(rows [n] in their order, what can follow each) of rows that not every state can follow."""
    kernel = model.kernel
    exact = np.zeros(kernel.num_rows, dtype=np.bool_) if known is None else np.asarray(known)
    if exact.size != kernel.num_rows or exact.dtype != np.bool_:
        raise InvalidInput(f"known has shape {exact.shape} and type {exact.dtype}; give booleans of shape {kernel.shape}")
    if support is not None and support.shape != kernel.shape:
        raise InvalidInput(f"support has rows of shape {support.shape}; give one with those of the system, {kernel.shape}")
    exact = exact.reshape(-1)
    chosen = np.flatnonzero(exact if support is None else np.ones(exact.size, dtype=np.bool_))
    found = [(kernel if exact[row] or support is None else support).row(int(row))[0] for row in chosen]
    return chosen, [np.asarray(one, dtype=np.int64) for one in found]


def _largest(model: CMDP, utility: Floats, rows: NDArray[np.int64], successors: list[NDArray[np.int64]]) -> float:
    """The largest sum of `utility` [1 or H, S, A] on a path that is possible."""
    horizon, states, actions = model.shape
    begins, following = np.cumsum([0, *map(len, successors)]), np.concatenate([*successors, np.empty(0, dtype=np.int64)])
    value = np.zeros(states)
    for step in reversed(range(horizon)):
        first = step * model.kernel.rows_per_step
        low, high = np.searchsorted(rows, (first, first + states * actions))
        after = np.full(states * actions, value.max())
        if low < high:
            cuts = begins[low : high + 1]
            after[rows[low:high] - first] = np.maximum.reduceat(value[following[cuts[0] : cuts[-1]]], cuts[:-1] - cuts[0])
        value = (utility[step if len(utility) > 1 else 0] + after.reshape(states, actions)).max(axis=1)
    return float(value.max())
