"""Many independent tasks on the cores of this machine or on a cluster, by joblib.

`run` is one `joblib.Parallel`, so `joblib.parallel_config` chooses the backend (loky, threading, dask, ray) and the number
of jobs. `workers` sets that configuration for a command's `--engine`, and starts a cluster where none is named.

Tasks are functions of their arguments alone, so results do not depend on the backend, on the number of workers, or on how
often a task was run. joblib's backends give up where a worker is lost (killed, out of memory, its machine gone): loky and
Ray at once, Dask after `distributed.scheduler.allowed-failures` attempts of its own. `run` then restarts the tasks without
a result. A task that raises ends the run with its exception.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from safe2real.errors import InvalidInput, needed_for

ENGINES = ("local", "threads", "dask", "ray")
"""Values of a command's `--engine`."""
MOST_LOSSES = 5
"""Workers lost in a row, with no result in between, after which `run` suspects its tasks."""
Task = TypeVar("Task")
Result = TypeVar("Result")
_PATIENCE = 10.0  # seconds, for threads that end by themselves
_ALONE = ContextVar("_ALONE", default=True)


class LostTask(InvalidInput):
    """Workers were lost again and again: a task needs more memory than there is, or ends its process."""


def run(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    jobs: int | None = None,
    compiled: bool = False,
    ordered: bool = False,
) -> Generator[tuple[int, Result], None, None]:
    """Run `function` on every task, many at a time.

    Args:
        function: from a task to its result; of a module, so that every worker finds it by its name.
        tasks: taken as workers become free, so there may be endlessly many.
        jobs: tasks at a time; -1 for one per core, or for all of a cluster. As `joblib.parallel_config` says if None: one,
            unless it says otherwise.
        compiled: a task is nearly all compiled code, which leaves the interpreter to other threads. Threads of this process
            run it then, unless `joblib.parallel_config` names a backend.
        ordered: yield in the order of the tasks, and not as they end.

    Yields:
        (index of the task, its result), each index once.

    Raises:
        LostTask: workers were lost `MOST_LOSSES` times in a row.
        Exception: the exception of a task; waiting tasks are cancelled.
    """
    from joblib import Parallel, delayed  # takes half as long to import as planning does, which needs `cores` only
    from joblib.parallel import get_active_backend

    backend, configured = get_active_backend()
    jobs = configured if jobs is None else jobs  # joblib itself forgets the configured number where threads are preferred
    shared = _Shared(function, at_once(jobs) == 1, digest_of_package())
    mode: Literal["list", "generator", "generator_unordered"] = "generator" if ordered else "generator_unordered"
    numbered, taken = enumerate(tasks), dict[int, Task]()
    pulling, attempt, losses, lost = threading.Lock(), 0, 0, None

    def calls(mine: int, again: Iterator[tuple[int, Task]]) -> Iterator[Any]:
        while True:
            with pulling:  # joblib asks from several threads, also for an attempt that has been given up
                following = next(again, None) or next(numbered, None) if mine == attempt else None
                if following is None:
                    return
                taken[following[0]] = following[1]
            yield delayed(shared)(*following)

    while losses < MOST_LOSSES:
        parallel = Parallel(
            n_jobs=jobs,
            prefer="threads" if compiled else None,
            return_as=mode if backend.supports_return_generator else "list",  # Ray's own backend cannot give one by one
            max_nbytes=None,  # arrays are copied: compiled code takes no memory-mapped ones
        )
        try:
            for number, result in parallel(calls(attempt, iter(sorted(taken.items())))):
                del taken[number]
                losses = 0
                yield number, result
            return
        except _lost_worker() as error:
            losses, lost = losses + 1, error
            with pulling:
                attempt += 1
    raise LostTask(
        f"workers were lost {losses} times in a row, with no result in between, by one of the tasks {sorted(taken)}; give "
        "workers more memory, or run with one job to see why"
    ) from lost


def at_once(jobs: int | None = None) -> int:
    """Return how many tasks `run` does at a time.

    Args:
        jobs: as for `run`.

    Returns:
        At least 1.
    """
    from joblib import effective_n_jobs

    return int(effective_n_jobs(jobs))


@contextmanager
def workers(engine: str = "local", *, jobs: int = -1, address: str | None = None) -> Iterator[None]:
    """Have every `run` within use an engine: a `joblib.parallel_config` by a command's options.

    Args:
        engine: "local" for processes of this machine, or threads of this process for compiled tasks; "threads" for threads
            of this process; "dask" or "ray" for a cluster (extras of the same names).
        jobs: tasks at a time on this machine; -1 for one per core. With 1, everything runs in this process.
        address: of a cluster that runs already, with its own number of workers. Else one is started here, and ended.

    Returns:
        A context manager.

    Raises:
        InvalidInput: there is no such engine, or the arguments do not fit it.
        MissingExtra: its package is not installed.

    Example:
        >>> with workers("dask", address="tcp://head:8786"):
        ...     runs = simulate_many(problem, range(1_000), real)
    """
    from joblib import parallel_config

    if engine not in ENGINES:
        raise InvalidInput(f"engine is {engine!r}; choose one of {', '.join(ENGINES)}")
    if isinstance(jobs, bool) or not isinstance(jobs, int) or (jobs < 1 and jobs != -1):
        raise InvalidInput(f"jobs is {jobs!r}; give a number of processes, or -1 for one per core")
    if address is not None and (engine in ("local", "threads") or jobs != -1):
        cure = "leave jobs out: the cluster has its own workers" if engine in ("dask", "ray") else "choose dask or ray"
        raise InvalidInput(f"address is {address!r} with engine {engine!r} and jobs {jobs}; {cure}")
    with ExitStack() as stack:
        if engine == "dask":
            backend = {"backend": "dask", "client": stack.enter_context(_dask_client(jobs, address))}
        elif engine == "ray":
            backend = {"backend": stack.enter_context(_ray_backend(jobs, address))}
        else:
            backend = {"backend": "threading"} if engine == "threads" else {}
        stack.enter_context(parallel_config(n_jobs=jobs, **backend))
        yield


@contextmanager
def _dask_client(jobs: int, address: str | None) -> Iterator[Any]:
    with needed_for("Dask clusters", "dask"):
        library = import_module("distributed")
    with ExitStack() as stack:
        if address is None:
            quiet = {"dashboard_address": None, "silence_logs": logging.ERROR}
            local = library.LocalCluster(n_workers=jobs if jobs > 0 else None, threads_per_worker=1, **quiet)
            address = stack.enter_context(local)
        yield stack.enter_context(library.Client(address, set_as_default=False))


@contextmanager
def _ray_backend(jobs: int, address: str | None) -> Iterator[str]:
    with needed_for("Ray clusters", "ray"):
        library = import_module("ray")
        module = import_module("ray.util.joblib.ray_backend")
        pool = import_module("ray.util.multiprocessing.pool")
    from joblib import register_parallel_backend

    class OneByOne(module.RayBackend):  # type: ignore[misc, name-defined]
        """Ray's backend, which yields each result as soon as it is ready; Ray's own class does not allow it."""

        supports_return_generator = True

    register_parallel_backend("safe2real-ray", OneByOne)
    if library.is_initialized():  # by the caller, who also shuts it down
        yield "safe2real-ray"
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        quiet |= {"num_cpus": jobs if jobs > 0 else None, "include_dashboard": False}
    library.init(address=address, **quiet)
    try:
        yield "safe2real-ray"
    finally:
        for thread in threading.enumerate():
            if isinstance(thread, pool.ResultThread):  # a thread that still waits for its result would start Ray again
                thread.join(_PATIENCE)
        library.shutdown()


def _lost_worker() -> tuple[type[Exception], ...]:
    """Return the exceptions by which joblib's backends report a lost worker; of Dask and Ray only if they are imported."""
    ray = ("RayActorError", "WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError")
    kinds = {"distributed.scheduler": ("KilledWorker",), "ray.exceptions": ray}
    in_use = {sys.modules[module]: names for module, names in kinds.items() if module in sys.modules}
    return (BrokenProcessPool, *(getattr(module, name) for module, names in in_use.items() for name in names))


@cache
def digest_of_package() -> str:
    """Digest all sources of this package that are installed here."""
    here, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Shared:
    """A function as a worker calls it: with the same sources as the caller's, and on one core beside other tasks."""

    function: Callable[[Any], Any]
    alone: bool
    digest: str  # of the caller's sources

    def __call__(self, number: int, task: Any) -> tuple[int, Any]:
        if self.digest != digest_of_package():
            raise InvalidInput(
                f"the worker on {socket.gethostname()} has other sources of safe2real ({digest_of_package()}) than "
                f"the caller ({self.digest}), so its results could differ; install the same on all machines"
            )
        token = _ALONE.set(self.alone and _ALONE.get())
        try:
            return number, self.function(task)
        finally:
            _ALONE.reset(token)


def cores() -> int:
    """Return how many cores a task may use.

    Returns:
        1 beside other tasks of `run`, else all cores that this process may use.
    """
    if not _ALONE.get():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
