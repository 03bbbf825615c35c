"""A Dask cluster: one that runs, by the address of its scheduler, or worker processes of this machine.

The scheduler gives the tasks of a lost worker to others by itself, `distributed.scheduler.allowed-failures` times; a task
that it gives up then counts as lost once.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from safe2real.engines.base import LOST, Engine
from safe2real.errors import needed_for

_LOOK = 5.0  # seconds from one count of the workers to the next


class Dask(Engine):
    """The cluster that `client` is connected to, which others may use, too."""

    name = "dask"

    def __init__(self, client: Any) -> None:
        self._client = client
        self._counted, self._workers = -_LOOK, 0

    @property
    def workers(self) -> int:
        if time.monotonic() > self._counted + _LOOK:  # they come and go
            self._workers = sum(self._client.nthreads().values())
            self._counted = time.monotonic()
        return self._workers

    def submit(self, function: Callable[[Any], Any], task: Any) -> Any:
        return self._client.submit(function, task, key=f"safe2real-{uuid.uuid4().hex}", pure=False)

    def finished(self, handles: Collection[Any]) -> list[tuple[Any, Any]]:
        with self._client.as_current():
            ended = _library().wait(list(handles), return_when="FIRST_COMPLETED").done
        return [(handle, _result_of(handle)) for handle in ended]

    def cancel(self, handles: Collection[Any]) -> None:
        if handles:
            self._client.cancel(list(handles))


def _library() -> Any:
    with needed_for("Dask clusters", "dask"):
        return import_module("distributed")


def _result_of(handle: Any) -> Any:
    try:
        return handle.result()
    except _library().scheduler.KilledWorker:
        return LOST


@contextmanager
def dask(jobs: int, address: str | None) -> Iterator[Dask]:
    """The cluster at `address`, or `jobs` processes here (as many as there are cores for -1), one task at a time each."""
    library = _library()
    if address is not None:
        with library.Client(address, set_as_default=False) as client:
            yield Dask(client)
        return
    workers = {"n_workers": jobs if jobs > 0 else None, "threads_per_worker": 1}
    quiet = {"dashboard_address": None, "silence_logs": logging.ERROR}
    with library.LocalCluster(**workers, **quiet) as cluster, library.Client(cluster, set_as_default=False) as client:
        yield Dask(client)
