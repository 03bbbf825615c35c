"""Transition rows P_h(. | s, a) of a finite system, stored sparsely, validated once, then read only.

Rows are numbered (s * A + a) for stationary dynamics and ((h * S + s) * A + a) for dynamics that change with the step.
Row i owns the stored transitions begin[i] .. begin[i] + length[i] - 1. A row of length 0 is uniform over all
states: the empirical model of an unvisited pair (paper, eq. def-hat-P-real) is never written out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real._compiled.rows import Rows
from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import count
from safe2real.model.validation import (
    ROUNDING_OF_SUMS,
    Floats,
    Indices,
    finite_floats,
    frozen,
    place,
    positive_integer,
    row_tolerance,
    shown,
    whole_numbers,
)

_AT_ONCE = 2**22  # transitions that are compared at once


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Kernel:
    """Transition probabilities of a finite system; build one with a `from_*` constructor.

    R is S * A for stationary dynamics (`horizon` is None) and H * S * A otherwise; N is the number of stored transitions.
    """

    num_states: int
    num_actions: int
    horizon: int | None
    compiled_rows: Rows  # writable arrays, which compiled code takes and nothing ever writes to
    fitted_to: NDArray[np.int64] | None = None  # [m] fingerprints of the episodes that the rows were estimated from

    def __post_init__(self) -> None:
        if not isinstance(self.compiled_rows, Rows):
            raise InvalidInput(
                f"a kernel was put together by hand from {shown(self.compiled_rows)}; build one with Kernel.from_dense, "
                "from_triples or from_sparse"
            )

    def __repr__(self) -> str:
        sizes = (
            f"{self.num_states} states, {self.num_actions} actions, {count(self.compiled_rows.successor.size, 'transition')}"
        )
        return f"Kernel({sizes}, {'stationary' if self.is_stationary else f'{self.horizon} steps'})"

    @property
    def begin(self) -> Indices:
        """[R] first stored transition of each row."""
        return frozen(self.compiled_rows.begin)

    @property
    def length(self) -> Indices:
        """[R] stored transitions of each row; 0 means uniform over all states."""
        return frozen(self.compiled_rows.length)

    @property
    def successor(self) -> Indices:
        """[N] the successor of each stored transition."""
        return frozen(self.compiled_rows.successor)

    @property
    def probability(self) -> Floats:
        """[N] the probability of each stored transition."""
        return frozen(self.compiled_rows.probability)

    @property
    def is_stationary(self) -> bool:
        """Whether its rows are the same in every step."""
        return self.horizon is None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the rows: (S, A), or (H, S, A) for dynamics that change with the step."""
        pairs = (self.num_states, self.num_actions)
        return pairs if self.horizon is None else (self.horizon, *pairs)

    @property
    def num_rows(self) -> int:
        """S A, times H where rows change with the step."""
        return int(self.compiled_rows.begin.size)

    @property
    def rows_per_step(self) -> int:
        """The offset from the rows of a step to those of the next: 0 for stationary dynamics."""
        return 0 if self.horizon is None else self.num_states * self.num_actions

    @classmethod
    def from_dense(cls, transition: ArrayLike) -> Kernel:
        """Build a kernel from dense rows.

        Args:
            transition: [S, A, S] for stationary dynamics, or [H, S, A, S]; every row sums to 1.

        Returns:
            The kernel; probabilities of 0 are not stored.

        Raises:
            InvalidInput: another shape, or a row that is no distribution; names the entry.
        """
        dense = finite_floats("transition", transition)
        if dense.ndim not in (3, 4) or dense.shape[-3] != dense.shape[-1]:
            raise InvalidInput(f"transition has shape {dense.shape}; give (S, A, S) for stationary dynamics or (H, S, A, S)")
        num_states, num_actions = dense.shape[-3], dense.shape[-2]
        horizon = dense.shape[0] if dense.ndim == 4 else None
        flat = dense.reshape(-1, num_states) if num_states else dense.reshape(0, 1)
        # Negative entries are kept here so that the shared validation can name them.
        rows, successors = np.nonzero(flat)
        return cls._build(rows, successors, flat[rows, successors], num_states, num_actions, horizon)

    @classmethod
    def uniform_over(cls, possible: ArrayLike) -> Kernel:
        """Build a kernel of equal probabilities for all possible successors: for `Problem(..., support=...)`.

        Args:
            possible: booleans [S, A, S], or [H, S, A, S], of which every row allows at least one state.

        Returns:
            The kernel.

        Raises:
            InvalidInput: another shape or type, or a row that allows no state.
        """
        given = np.asarray(possible)
        if given.dtype != np.bool_ or given.ndim not in (3, 4):
            raise InvalidInput(f"possible is {given.dtype} of shape {given.shape}; give booleans (S, A, S) or (H, S, A, S)")
        allowed = given.sum(axis=-1, keepdims=True)
        if not allowed.all():
            place = np.argwhere(allowed[..., 0] == 0)[0].tolist()
            raise InvalidInput(f"possible{place} allows no state; every row leads somewhere: name all that it can lead to")
        return cls.from_dense(given / allowed)

    @classmethod
    def from_sparse(cls, matrix: Any, num_actions: int, *, horizon: int | None = None) -> Kernel:
        """Build a kernel from a sparse matrix.

        Args:
            matrix: a `scipy.sparse` matrix [S * A, S], or [H * S * A, S] with a `horizon`; rows ordered (h, s, a).
            num_actions: A.
            horizon: H, for dynamics that change with the step.

        Returns:
            The kernel.

        Raises:
            InvalidInput: another shape, or a row that is no distribution.
        """
        if not hasattr(matrix, "tocoo"):
            raise InvalidInput(f"matrix is a {type(matrix).__name__}; give a scipy.sparse matrix")
        triples = matrix.tocoo()
        num_actions = positive_integer("num_actions", num_actions)
        num_states = int(triples.shape[1])
        steps = 1 if horizon is None else positive_integer("horizon", horizon)
        expected = (steps * num_states * num_actions, num_states)
        if tuple(triples.shape) != expected:
            raise InvalidInput(f"matrix has shape {tuple(triples.shape)}; with {num_actions} actions it must be {expected}")
        return cls._build(triples.row, triples.col, triples.data, num_states, num_actions, horizon)

    @classmethod
    def from_triples(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        successors: ArrayLike,
        probabilities: ArrayLike,
        *,
        num_states: int,
        num_actions: int,
        steps: ArrayLike | None = None,
        horizon: int | None = None,
    ) -> Kernel:
        """Build a kernel from N listed transitions: `probabilities[i]` is P(successors[i] | states[i], actions[i]).

        Args:
            states: [N] from 0 to S - 1.
            actions: [N] from 0 to A - 1.
            successors: [N] from 0 to S - 1.
            probabilities: [N]; those of a transition that is listed more than once are summed.
            num_states: S.
            num_actions: A.
            steps: [N] from 0 to H - 1, together with `horizon`, for dynamics that change with the step.
            horizon: H.

        Returns:
            The kernel.

        Raises:
            InvalidInput: lists of different lengths, a number out of range, or a row that is no distribution.
        """
        num_states = positive_integer("num_states", num_states)
        num_actions = positive_integer("num_actions", num_actions)
        if (steps is None) != (horizon is None):
            raise InvalidInput("steps and horizon go together: give both for dynamics that change with the step")
        horizon = None if horizon is None else positive_integer("horizon", horizon)
        # Said before row numbers are computed that 64 bits may not hold.
        if (horizon or 1) * num_states * num_actions > np.iinfo(np.uint32).max:
            raise InvalidInput(
                f"num_states is {shown(num_states)}, num_actions {shown(num_actions)} and horizon {shown(horizon)}; "
                f"at most {np.iinfo(np.uint32).max} rows can be indexed: merge states, or look for a slip of the keys"
            )
        columns = {
            "states": whole_numbers("states", states, below=num_states, what="states"),
            "actions": whole_numbers("actions", actions, below=num_actions, what="actions"),
            "successors": whole_numbers("successors", successors, below=num_states, what="states"),
            "probabilities": finite_floats("probabilities", probabilities),
        }
        if steps is not None and horizon is not None:
            columns["steps"] = whole_numbers("steps", steps, below=horizon, what="steps")
        shapes = {name: column.shape for name, column in columns.items()}
        if len(set(shapes.values())) != 1 or len(shapes["states"]) != 1:
            raise InvalidInput(f"the lists have shapes {shapes}; give one-dimensional lists of one length")
        rows = columns["states"] * num_actions + columns["actions"]
        if "steps" in columns:
            rows = rows + columns["steps"] * (num_states * num_actions)
        return cls._build(rows, columns["successors"], columns["probabilities"], num_states, num_actions, horizon)

    @classmethod
    def _build(
        cls,
        rows: NDArray[Any],
        successors: NDArray[Any],
        probabilities: NDArray[Any],
        num_states: int,
        num_actions: int,
        horizon: int | None,
    ) -> Kernel:
        """The one place where transitions are validated; `rows` and `successors` are in range already."""
        positive_integer("the number of states", num_states)
        positive_integer("the number of actions", num_actions)
        if horizon is not None:
            horizon = positive_integer("the number of steps", horizon)
        shape = (num_states, num_actions) if horizon is None else (horizon, num_states, num_actions)
        num_rows = int(np.prod(shape))

        def where(row: int) -> str:
            return place("transition", np.unravel_index(row, shape))  # type: ignore[arg-type]

        data = np.asarray(probabilities, dtype=np.float64)
        bad = np.flatnonzero(~((data >= 0.0) & (data <= 1.0 + row_tolerance(data, 1))))
        if bad.size:
            i = bad[0]
            raise InvalidInput(
                f"{where(rows[i])} gives state {successors[i]} probability {data[i]:g}; probabilities lie between 0 and 1"
            )
        given = data
        rows, successors, data = merged(rows, successors, data, num_states)
        if num_rows > rows.size:
            # Some row has no transition at all: said before arrays of a size that only a slip of the keys explains are made.
            present = np.unique(rows)
            gaps = np.flatnonzero(present != np.arange(present.size))
            raise InvalidInput(
                f"{where(int(gaps[0]) if gaps.size else present.size)} sums to 0; rows must sum to 1: add the missing "
                f"successors ({rows.size} transitions are given for {count(num_rows, 'row')})"
            )
        totals = np.bincount(rows, weights=data, minlength=num_rows)
        allowed = row_tolerance(given, int(np.bincount(rows).max()))
        wrong = np.flatnonzero(np.abs(totals - 1.0) > allowed)
        if wrong.size:
            raise InvalidInput(
                f"{where(wrong[0])} sums to {totals[wrong[0]]:.12g}; rows must sum to 1: "
                "add the missing successors or divide the row by its sum"
            )
        drifted = np.abs(totals - 1.0) > ROUNDING_OF_SUMS
        if drifted.any():
            data = np.where(drifted[rows], data / totals[rows], data)
        length = np.bincount(rows, minlength=num_rows)
        # A row that gives every state the same probability is kept as "uniform" and stores nothing.
        full = length == num_states
        if full.any():
            low = np.full(num_rows, np.inf)
            np.minimum.at(low, rows, data)
            high = np.zeros(num_rows)
            np.maximum.at(high, rows, data)
            uniform = full & (low == high)
            keep = ~uniform[rows]
            rows, successors, data = rows[keep], successors[keep], data[keep]
            length[uniform] = 0
        if data.size > np.iinfo(np.uint32).max:
            raise InvalidInput(f"{data.size} transitions are stored; at most {np.iinfo(np.uint32).max} can be indexed")
        begin = np.cumsum(length) - length
        stored = Rows(begin.astype(np.uint32), length.astype(np.uint32), successors.astype(np.uint32), np.array(data))
        return cls(int(num_states), int(num_actions), horizon, stored)

    def repeated(self, horizon: int) -> Kernel:
        """Return the same dynamics with rows for each step; the stored transitions are shared.

        Args:
            horizon: H, at least 1.

        Returns:
            A kernel with rows [H, S, A].

        Raises:
            InvalidInput: the rows change with the step already.
        """
        if self.horizon is not None:
            raise InvalidInput(
                f"the kernel has rows for {self.horizon} steps already; only stationary kernels can be repeated"
            )
        steps = positive_integer("horizon", horizon)
        begin, length = np.tile(self.compiled_rows.begin, steps), np.tile(self.compiled_rows.length, steps)
        # All steps share the stored transitions.
        return replace(self, horizon=steps, compiled_rows=self.compiled_rows._replace(begin=begin, length=length))

    def row(self, index: int) -> tuple[Indices, Floats]:
        """Return successors and probabilities of one row; a uniform row is written out.

        Args:
            index: of the row, from 0 to R - 1.

        Returns:
            (successors [n], probabilities [n]).
        """
        first, count = int(self.compiled_rows.begin[index]), int(self.compiled_rows.length[index])
        if count == 0:
            return np.arange(self.num_states, dtype=np.uint32), np.full(self.num_states, 1.0 / self.num_states)
        stored = slice(first, first + count)
        return frozen(self.compiled_rows.successor[stored]), frozen(self.compiled_rows.probability[stored])

    def distances_to(self, other: Kernel) -> Floats:
        """Return the total variation distance of every row to the same row of another kernel.

        Args:
            other: a kernel of the same shape.

        Returns:
            [S, A], or [H, S, A], in [0, 1].

        Raises:
            InvalidInput: a kernel of another shape.
        """
        if self.shape != other.shape:
            raise InvalidInput(
                f"the kernels have rows of shape {self.shape} and {other.shape}; compare kernels of one shape"
            )
        result, states = np.empty(self.num_rows), self.num_states
        written = np.zeros(self.num_rows, dtype=np.int64)  # transitions of both up to a row, uniform rows written out
        for kernel in (self, other):
            length = kernel.compiled_rows.length.astype(np.int64)
            written += np.cumsum(np.where(length == 0, states, length))
        first = 0
        while first < self.num_rows:  # as many rows at once as a few million transitions
            before = written[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(written, before + _AT_ONCE)))
            (mine, here, p), (yours, there, q) = self.transitions(first, last), other.transitions(first, last)
            place = np.concatenate([(mine - first) * states + here, (yours - first) * states + there])
            order = np.argsort(place, kind="stable")
            begins = np.flatnonzero(np.diff(place[order], prepend=-1))
            apart = np.abs(np.add.reduceat(np.concatenate([p, -q])[order], begins))
            result[first:last] = np.bincount(place[order][begins] // states, apart, minlength=last - first) / 2.0
            first = last
        return frozen(result.reshape(self.shape))

    def transitions(self, first: int = 0, last: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """List the transitions of all rows, or of a range of them; uniform rows are written out.

        Args:
            first: the first row.
            last: the row after the last one; None for all that follow.

        Returns:
            (rows [N], successors [N], probabilities [N]) in the order of rows.
        """
        chosen = slice(first, self.num_rows if last is None else last)
        length, states = self.compiled_rows.length[chosen].astype(np.int64), self.num_states
        sizes = np.where(length == 0, states, length)
        rows = np.repeat(np.arange(length.size), sizes)
        within = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # the place of each in its row
        successors, probabilities = within.copy(), np.full(rows.size, 1.0 / states)
        stored = (length > 0)[rows]
        at = self.compiled_rows.begin[chosen].astype(np.int64)[rows[stored]] + within[stored]
        successors[stored], probabilities[stored] = self.compiled_rows.successor[at], self.compiled_rows.probability[at]
        return rows + first, successors, probabilities

    def to_dense(self) -> Floats:
        """Write out the transition probabilities as a dense array; meant for small systems and for tests.

        Returns:
            [S, A, S], or [H, S, A, S].
        """
        dense = np.zeros((self.num_rows, self.num_states))
        rows, successors, probabilities = self.transitions()
        dense[rows, successors] = probabilities
        return dense.reshape((*self.shape, self.num_states))

    def push(self, step: int, mass: Floats) -> Floats:
        """Move probability mass over state-action pairs one step on.

        Args:
            step: from 0; it matters only if the rows change with the step.
            mass: [S, A] at that step.

        Returns:
            [S] the mass of each state one step later.
        """
        first = step * self.rows_per_step
        here = slice(first, first + self.num_states * self.num_actions)
        begin, length = self.compiled_rows.begin[here], self.compiled_rows.length[here]
        flat = np.ascontiguousarray(mass).reshape(-1)
        stored = slice(int(begin[0]), int(begin[-1]) + int(length[-1]))
        moved = np.repeat(flat, length) * self.compiled_rows.probability[stored]
        arrived = np.bincount(self.compiled_rows.successor[stored], weights=moved, minlength=self.num_states)
        return np.asarray(arrived + flat[length == 0].sum() / self.num_states)


def merged(
    rows: NDArray[Any], successors: NDArray[Any], data: Floats, num_states: int
) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """Return the transitions sorted by row and successor, with repeated successors summed and zeros dropped."""
    positive = data > 0.0
    if not positive.all():
        rows, successors, data = rows[positive], successors[positive], data[positive]
    keys = rows.astype(np.int64) * num_states + successors
    if (np.diff(keys) > 0).all():
        return rows, successors, data
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.concatenate(([True], np.diff(keys) > 0))
    summed = np.add.reduceat(data[order], np.flatnonzero(first))
    return rows[order][first], successors[order][first], summed
