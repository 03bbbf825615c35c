"""Systems of one shape on the device: rows in chunks, utilities, starts, and what backward induction works in.

One large system is a batch of one. What all systems of a batch share (the same `Kernel`, the same reward array) is stored
once; so are rows and utilities that do not change with the step. The layout is explained in `sweeps.cu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.validation import Floats
from safe2real.planning.cuda.runtime import Kernels, check_memory, kernels

T = TypeVar("T")

WARP = 32  # rows of a chunk: threads that run together
WIDEST_UNROLLED = 16  # longer rows gain nothing from a loop that is unrolled
UNROLLED_FROM = 10_000  # states; below it one more compilation costs more than many plans


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Transitions on the device; `stride` and `step` are in chunks, 0 where systems or steps share their rows."""

    offset: Any  # [chunks + 1] int64, in transitions
    successor: Any  # [transitions] uint32; S is "everywhere alike"
    probability: Any  # [transitions] float64
    stride: int  # from one system to the next
    step: int  # from one step to the next
    width: int  # transitions of every row; 0 where that differs
    uniform: bool  # whether any row is uniform


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """N systems of one shape (H, S, A) with K constraints each, ready for sweeps; U is 1 + K."""

    cupy: Any
    kernels: Kernels
    systems: int
    shape: tuple[int, int, int]
    rows: Rows
    utility: Any  # [N or 1, 1 or H, A, S, U]
    start: Any  # [N or 1, S]
    values: Any  # [3, N, S + 1, L, U]: of two steps, and zeros; entry S is the mean. L policies are found in one pass
    sums: Any  # [N, parts, L, U] on the way to sums over all states
    actions: Any  # [slots, N, H, S] policies, as the smallest unsigned type
    group: int  # how many of the L a thread carries
    extents: Floats  # [N or 1, U] largest minus smallest entry of the reward and of each utility

    @property
    def parts(self) -> int:
        """U, the values that are carried together: the reward and K constraints."""
        return int(self.utility.shape[-1])

    @property
    def lanes(self) -> int:
        """L, the policies of every system that one pass finds."""
        return int(self.values.shape[-2])

    @property
    def utility_stride(self) -> int:
        """How many entries further the utilities of the next system are."""
        return 0 if len(self.utility) == 1 else int(np.prod(self.utility.shape[1:4]))

    @property
    def utility_step(self) -> int:
        """How many entries further the utilities of the next step are."""
        return 0 if self.utility.shape[1] == 1 else int(np.prod(self.utility.shape[2:4]))


def upload(cupy: Any, models: Sequence[CMDP], rewards: Sequence[Floats], slots: int, lanes: int) -> Batch:
    """Put N systems of one shape, and room for `slots` policies of each, on the device.

    Args:
        cupy: the module.
        models: N of them, or one that all share.
        rewards: N of them, [1 or H, S, A] each, or one that all share.
        slots: policies that a search may hold at once.
        lanes: policies of every system that one pass finds.

    Raises:
        InvalidInput: They do not fit there; nothing has been copied then.
    """
    first, systems = models[0], max(len(models), len(rewards))
    horizon, states, actions = first.shape
    parts, action = 1 + first.num_constraints, np.min_scalar_type(actions - 1)
    listed = _one_if_same([model.kernel for model in models])
    starts = _one_if_same([model.compiled_arrays.start for model in models])
    utilities = _one_if_same([model.compiled_arrays.utilities for model in models])
    steps = max([len(reward) for reward in rewards] + [table.shape[1] for table in utilities if parts > 1])
    tables = max(len(rewards), len(utilities) if parts > 1 else 1)
    lengths = _stacked([kernel.compiled_rows.length for kernel in listed]).reshape(-1, states, actions)
    widths = chunk_widths(lengths)
    folded = sum(fold_parts(states)[:-1])
    transitions = WARP * int(widths.sum()) + sum(
        kernel.compiled_rows.successor.size for kernel in listed
    )  # in chunks, as stored
    numbers = 12 * transitions + 8 * lengths.size + 8 * tables * steps * states * actions * 2 * parts
    work = 8 * lanes * parts * systems * (3 * (states + 1) + folded) + slots * systems * horizon * states * action.itemsize
    check_memory(cupy, numbers + work, f"{systems} systems of shape (H, S, A) = {first.shape}")

    same = int(widths.flat[0]) if (widths == widths.flat[0]).all() else 0
    unrolled = same if same <= WIDEST_UNROLLED and systems * states >= UNROLLED_FROM else 0
    group = group_for(lanes, parts, 8 * lanes * parts * systems * states)
    compiled = kernels(parts, lanes, group, unrolled, action.itemsize)
    utility = cupy.empty((tables, steps, actions, states, parts), dtype=np.float64)
    utility[..., 0] = cupy.asarray(_stacked(rewards)).transpose(0, 1, 3, 2)
    for k in range(parts - 1):
        utility[..., 1 + k] = cupy.asarray(_stacked([table[k] for table in utilities])).transpose(0, 1, 3, 2)
    return Batch(
        cupy=cupy,
        kernels=compiled,
        systems=systems,
        shape=first.shape,
        rows=_pack(cupy, compiled, listed, lengths, widths, unrolled),
        utility=utility,
        start=cupy.asarray(_stacked(starts)),
        values=cupy.zeros((3, systems, states + 1, lanes, parts), dtype=np.float64),
        sums=cupy.empty((systems, folded, lanes, parts), dtype=np.float64),
        actions=cupy.zeros((slots, systems, horizon, states), dtype=action),
        group=group,
        extents=cupy.asnumpy(utility.max(axis=(1, 2, 3)) - utility.min(axis=(1, 2, 3))),
    )


def group_for(lanes: int, parts: int, value_bytes: int) -> int:
    """How many lanes a thread carries, as measured on an H200: two, but one where each has four values or more (registers),
    and all where each has two and values are far from fitting in a cache.
    """
    if parts >= 4:
        return 1
    return lanes if parts == 2 and value_bytes > 2**28 else min(2, lanes)


def fold_parts(states: int) -> tuple[int, ...]:
    """In how many parts a sum over all states is formed, level by level. Small ones in order, as on the CPU."""
    return (1,) if states <= 256 else (4096, 64, 1)


def chunk_widths(lengths: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The longest row of every chunk [groups, slices, A], from the lengths of rows [groups, S, A]; uniform rows need 1."""
    groups, states, actions = lengths.shape
    slices = -(-states // WARP)
    whole = states // WARP
    widths = np.ones((groups, slices, actions), dtype=np.int64)
    if whole:
        widths[:, :whole] = lengths[:, : whole * WARP].reshape(groups, whole, WARP, actions).max(axis=2)
    if slices > whole:
        widths[:, whole] = lengths[:, whole * WARP :].max(axis=1)
    return np.maximum(widths, 1)


def _pack(
    cupy: Any,
    compiled: Kernels,
    listed: Sequence[Kernel],
    lengths: NDArray[np.uint32],
    widths: NDArray[np.int64],
    width: int,
) -> Rows:
    """Copy rows as they are stored, and let the device sort them into chunks: the CPU would need longer than all sweeps."""
    groups, states, actions = lengths.shape
    offset = np.zeros(widths.size + 1, dtype=np.int64)
    np.cumsum(WARP * widths.reshape(-1), out=offset[1:])
    sizes = np.array([kernel.compiled_rows.successor.size for kernel in listed])
    shift = np.repeat(np.cumsum(sizes) - sizes, groups // len(listed))  # where a system's transitions begin
    stored = [
        cupy.asarray(np.concatenate(list(column)))
        for column in zip(*(kernel.compiled_rows for kernel in listed), strict=True)
    ]
    placed = cupy.asarray(offset)
    successor = cupy.empty(int(offset[-1]), dtype=np.uint32)
    probability = cupy.empty(int(offset[-1]), dtype=np.float64)
    compiled.launch(
        "pack", WARP * widths.size, *stored, cupy.asarray(shift), groups, states, actions, placed, successor, probability,
    )  # fmt: skip
    chunks = widths.size // groups
    return Rows(
        placed,
        successor,
        probability,
        stride=0 if len(listed) == 1 else chunks * (groups // len(listed)),
        step=0 if listed[0].is_stationary else chunks,
        width=width,
        uniform=bool((lengths == 0).any()),
    )


def _one_if_same(values: Sequence[T]) -> Sequence[T]:
    """Only the first where all are the same object."""
    return values[:1] if all(value is values[0] for value in values) else values


def _stacked(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """[n, ...]; arrays that differ in their first axis have 1 or H steps, and are written out for H."""
    if len(arrays) == 1:
        return arrays[0][None]  # large ones are not copied
    steps = max(len(array) for array in arrays)
    if all(len(array) == steps for array in arrays):
        return np.stack(arrays)
    return np.stack([np.broadcast_to(array, (steps, *array.shape[1:])) for array in arrays])
