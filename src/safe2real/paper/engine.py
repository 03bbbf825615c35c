"""Run many tasks on all cores, or on a cluster, keeping each as it ends; with a progress bar and the time left."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from safe2real.errors import InvalidInput, needed_for
from safe2real.paper.catalogue import ENGINES
from safe2real.paper.runs import compile_everything
from safe2real.paper.store import Plain, Store, Task

with needed_for("runs of the paper", "paper"):
    import joblib


def run_all(
    tasks: Sequence[Task],
    store: Store,
    *,
    jobs: int = -1,
    engine: str = "local",
    address: str | None = None,
    console: Console,
) -> int:
    """Run the tasks that are not in the store; returns how many that were."""
    missing = store.missing(tasks)
    if not missing:
        return 0
    with console.status("preparing compiled code (a minute the first time, then a second)"):
        compile_everything()
    # In random order the mean time of what is done predicts the time of what is left.
    random.Random(0).shuffle(missing)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn()]  # fmt: skip
    with _backend(engine, address), Progress(*columns, console=console) as progress:
        bar = progress.add_task("runs", total=len(missing))
        workers = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
        for task, result, seconds in workers(joblib.delayed(_timed)(task) for task in missing):
            store.add(task, result, seconds)
            progress.advance(bar)
    return len(missing)


def _timed(task: Task) -> tuple[Task, Plain, float]:
    began = time.process_time()  # a loaded machine makes no run dearer
    result = task.run(task.settings)
    return task, result, time.process_time() - began


def _backend(engine: str, address: str | None) -> AbstractContextManager[None]:
    if engine == "local":
        return nullcontext()
    if engine in ("dask", "ray"):
        return _dask(address) if engine == "dask" else _ray(address)
    raise InvalidInput(f"engine is {engine!r}; choose one of {', '.join(ENGINES)}")


@contextmanager
def _dask(address: str | None) -> Iterator[None]:
    try:
        from distributed import Client
    except ImportError as error:
        raise InvalidInput("engine 'dask' needs its extra: pip install 'safe2real[dask]'") from error
    client = Client(address) if address else Client()  # type: ignore[no-untyped-call]
    with client, joblib.parallel_config(backend="dask"):
        yield


@contextmanager
def _ray(address: str | None) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise InvalidInput("engine 'ray' needs its extra: pip install 'safe2real[ray]'") from error
    ray.init(address=address, ignore_reinit_error=True)
    register_ray()
    with joblib.parallel_config(backend="ray"):
        yield
