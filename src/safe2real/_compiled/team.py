"""Threads that share out the states of every step, and end a step together before the next begins.

A state's values are computed by one thread from the values one step later, in an order that the others do not change:
results are the same bits for any number of threads. Plain threads of Python: compiled code runs without the interpreter's
lock, and numba's own parallel loops abort the process after a fork (OpenMP) or when two threads of a service plan at once
(workqueue).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any


class Team:
    """`size` threads including the caller's, which end with the `with` block, so that a later fork is safe."""

    def __init__(self, size: int, states: int) -> None:
        self.size, self._bounds = size, [i * states // size for i in range(size + 1)]
        self._pool = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def share(self, function: Callable[..., Any], *given: Any) -> None:
        """Call `function(*given, first, last)` on ranges that cover every state once; return when all are done.

        Where the system gives no more threads the caller does the work alone.
        """
        begun, bounds = [], self._bounds
        if self._pool is not None:
            try:
                for i in range(1, self.size):
                    begun.append(self._pool.submit(function, *given, bounds[i], bounds[i + 1]))
            except RuntimeError:  # no thread can be started; queued calls must not run later
                self._pool.shutdown(cancel_futures=True)
                self._pool, begun, bounds = None, [], [bounds[0], bounds[-1]]
                self.size, self._bounds = 1, bounds
        function(*given, bounds[0], bounds[1])
        for future in begun:
            future.result()
