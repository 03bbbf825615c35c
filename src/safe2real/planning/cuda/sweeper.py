"""Backward induction over a batch on the device: weights in, the values of greedy policies out; policies stay there.

The H launches of a sweep are recorded once, as a graph, and replayed: what changes between sweeps (weights, slots) is read
from the device's memory. Guarantee: values are those of float64 sums in the order of the CPU, without fused multiply-adds,
so that a sweep over the same weights gives the same numbers and policies bit for bit; only sums over all states (a start of
many states, the mean that uniform rows expect) are formed in another order above 256 states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.model.validation import Floats
from safe2real.planning.cuda.batch import Batch, fold_parts

Slots = NDArray[np.int32]
"""[N, M] where the policies of every system are written or read; -1 is nowhere."""


class Sweeper:
    """Sweeps over one batch. Call its methods under one stream that is not the default one."""

    def __init__(self, batch: Batch) -> None:
        cupy, shape = batch.cupy, (batch.systems, batch.lanes)
        self.batch = batch
        self._weights = cupy.zeros((*shape, batch.parts), dtype=np.float64)
        self._slots = cupy.zeros(shape, dtype=np.int32)
        self._lines = cupy.zeros((*shape, batch.parts), dtype=np.float64)
        self._recorded: dict[tuple[str, float], Any] = {}

    def greedy(self, weights: Floats, slots: Slots) -> Floats:
        """The policies that maximise weights [N, M, U] . values into their slots, and their values [N, M, U].

        The batch finds L policies in one pass over its rows, and makes as many passes as M needs.
        """
        lanes, found = self.batch.lanes, np.zeros(weights.shape)
        for first in range(0, slots.shape[1], lanes):
            here = slice(first, first + lanes)
            if (slots[:, here] >= 0).any():
                self._weights[...] = self.batch.cupy.asarray(weights[:, here])
                found[:, here] = self._replay("greedy", slots[:, here])
        return found

    def safest(self, tie: float, slots: Slots) -> Floats:
        """K = 1: policies [N, 1] that are as safe as any, up to `tie` in every step, and of those the most rewarding."""
        return self._replay("safest", slots, tie)[:, :1]

    def follow(self, slots: Slots) -> Floats:
        """The values [N, 1, U] of the policies in the slots [N, 1]."""
        return self._replay("follow", slots)[:, :1]

    def _replay(self, kernel: str, slots: Slots, tie: float = 0.0) -> Floats:
        cupy = self.batch.cupy
        whole = np.full(self._slots.shape, -1, dtype=np.int32)
        whole[:, : slots.shape[1]] = slots
        self._slots[...] = cupy.asarray(whole)
        stream = cupy.cuda.get_current_stream()
        key = (kernel, tie)
        if key not in self._recorded:
            stream.begin_capture()
            self._launch(kernel, tie)
            self._recorded[key] = stream.end_capture()
        self._recorded[key].launch(stream)
        return np.asarray(cupy.asnumpy(self._lines))

    def _launch(self, kernel: str, tie: float) -> None:
        batch, rows = self.batch, self.batch.rows
        horizon, states, actions = batch.shape
        launch: Callable[..., None] = batch.kernels.launch
        own = {"greedy": (self._weights,), "safest": (np.float64(tie),), "follow": ()}[kernel]
        later = batch.values[2]  # zeros: nothing comes after the last step
        for h in range(horizon - 1, -1, -1):
            now = batch.values[h % 2]
            launch(
                kernel, batch.systems * states * (batch.lanes // batch.group),
                rows.offset, rows.successor, rows.probability, h * rows.step, rows.stride,
                batch.utility, h * batch.utility_step, batch.utility_stride,
                later, now, batch.actions, h * states, horizon * states, self._slots, batch.systems, states, actions, *own,
            )  # fmt: skip
            if rows.uniform and h > 0:
                self._fold(now, None, 0, now[:, states:], states + 1, float(states))
            later = now
        stride = 0 if len(batch.start) == 1 else states
        self._fold(batch.values[0], batch.start, stride, self._lines, 1, 1.0)

    def _fold(self, terms: Any, weights: Any, weight_stride: int, sums: Any, sum_stride: int, divisor: float) -> None:
        """Sums over all states of every system, level by level."""
        batch, states = self.batch, self.batch.shape[1]
        levels = fold_parts(states)
        stride, count, begin = states + 1, states, 0
        for parts in levels:
            last = parts == 1
            out, out_stride = (sums, sum_stride) if last else (batch.sums[:, begin:], sum(levels[:-1]))
            batch.kernels.launch(
                "fold", batch.systems * parts * batch.lanes, terms, stride, count,
                batch.start if weights is None else weights, weight_stride, np.int32(weights is not None),
                out, out_stride, parts, np.float64(divisor if last else 1.0), batch.systems,
            )  # fmt: skip
            terms, stride, count, weights = out, out_stride, parts, None
            begin += parts
