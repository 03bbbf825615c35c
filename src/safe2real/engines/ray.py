"""A Ray cluster: one that runs, by its address, or worker processes of this machine.

Ray is told not to try again by itself, so that what counts as a lost worker is decided in one place, `base`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from safe2real.engines.base import LOST, Engine
from safe2real.errors import needed_for

_LOOK = 5.0  # seconds from one count of the workers to the next


class Ray(Engine):
    """The cluster that this process is connected to."""

    name = "ray"

    def __init__(self, library: Any) -> None:
        self._ray = library
        self._remote = library.remote(max_retries=0, num_cpus=1)(_call)
        self._counted, self._workers = -_LOOK, 0

    @property
    def workers(self) -> int:
        if time.monotonic() > self._counted + _LOOK:  # they come and go
            self._workers = int(self._ray.cluster_resources().get("CPU", 0))
            self._counted = time.monotonic()
        return self._workers

    def submit(self, function: Callable[[Any], Any], task: Any) -> Any:
        return self._remote.remote(function, task)

    def finished(self, handles: Collection[Any]) -> list[tuple[Any, Any]]:
        done, _ = self._ray.wait(list(handles), num_returns=1)
        return [(handle, self._result_of(handle)) for handle in done]

    def cancel(self, handles: Collection[Any]) -> None:
        for handle in handles:
            self._ray.cancel(handle)

    def _result_of(self, handle: Any) -> Any:
        kinds = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except (kinds.WorkerCrashedError, kinds.NodeDiedError, kinds.ObjectLostError, kinds.OutOfMemoryError):
            return LOST


def _call(function: Callable[[Any], Any], task: Any) -> Any:
    return function(task)


@contextmanager
def ray(jobs: int, address: str | None) -> Iterator[Ray]:
    """The cluster at `address`, or `jobs` processes here (as many as there are cores for -1), one task at a time each."""
    with needed_for("Ray clusters", "ray"):
        library: Any = import_module("ray")
    if library.is_initialized():  # by whoever calls: it stays theirs
        yield Ray(library)
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is not None:
        library.init(address=address, **quiet)
    else:
        library.init(num_cpus=jobs if jobs > 0 else None, include_dashboard=False, **quiet)
    try:
        yield Ray(library)
    finally:
        library.shutdown()
