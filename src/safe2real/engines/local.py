"""Processes of this machine; where one is enough, this one; where tasks are compiled code, threads of this one.

Where one of several processes is lost, the pool of the standard library gives up all that were running; those are done again
in a new pool, and what had ended before stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from safe2real.engines.base import LOST, Engine
from safe2real.engines.cores import cores

MOST_THREADS = 4
"""Of one process: compiled runs spend about a fifth of their time in the interpreter, which one thread has at a time."""


class Local(Engine):
    """`workers` processes."""

    name = "local"

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._begun()

    def _begun(self) -> Executor:
        # Started afresh and not forked: a fork would inherit threads of libraries that do not survive it.
        return ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"))

    @property
    def workers(self) -> int:
        return self._workers

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future[Any]:
        try:
            return self._pool.submit(function, task)
        except BrokenProcessPool:
            self._pool = self._begun()
            return self._pool.submit(function, task)

    def finished(self, handles: Collection[Future[Any]]) -> list[tuple[Future[Any], Any]]:
        return [(handle, _result_of(handle)) for handle in wait(handles, return_when=FIRST_COMPLETED).done]

    def cancel(self, handles: Collection[Future[Any]]) -> None:
        for handle in handles:
            handle.cancel()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Threads(Local):
    """`workers` threads of this process: nothing is started, loaded or copied.

    Compiled code runs side by side, because it leaves the interpreter to others; tasks that are not nearly all compiled code
    take turns. A task that ends its process ends all.
    """

    def _begun(self) -> Executor:
        return ThreadPoolExecutor(self._workers)


class Alone(Engine):
    """This process, one task after the other: what fails can be seen in a debugger."""

    name = "local"

    @property
    def workers(self) -> int:
        return 1

    def submit(self, function: Callable[[Any], Any], task: Any) -> Callable[[], Any]:
        return lambda: function(task)

    def finished(self, handles: Collection[Callable[[], Any]]) -> list[tuple[Callable[[], Any], Any]]:
        first = next(iter(handles))
        return [(first, first())]

    def cancel(self, handles: Collection[Callable[[], Any]]) -> None:
        """None has begun."""


def _result_of(handle: Future[Any]) -> Any:
    try:
        return handle.result()
    except BrokenProcessPool:
        return LOST


@contextmanager
def local(jobs: int, *, compiled: bool = False) -> Iterator[Engine]:
    """`jobs` processes, or as many as there are cores for -1; ended when they are left.

    Args:
        jobs: how many; for 1 it is this process.
        compiled: tasks are nearly all compiled code. Up to `MOST_THREADS` jobs are threads of this process then.
    """
    workers = jobs if jobs > 0 else cores()
    if workers == 1:
        yield Alone()
        return
    engine = Threads(workers) if compiled and workers <= MOST_THREADS else Local(workers)
    try:
        yield engine
    finally:
        engine.close()
