"""Run many tasks on all cores, or on a cluster, keeping each as it ends; with a progress bar and the time left."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.store import Plain, Store, Task
from safe2real import parallel
from safe2real.exploration.simulate import compile_everything

_MOST_THREADS = 4  # of one process: a run plans for rewards afterwards, in calls that go back to the interpreter


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
    # In random order the mean time of what is done predicts the time of what is left.
    random.Random(0).shuffle(missing)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn()]  # fmt: skip
    with parallel.workers(engine, jobs=jobs, address=address):
        with console.status("preparing compiled code (a minute the first time, then a second)"):
            compile_everything()
        few = parallel.at_once() <= _MOST_THREADS
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("runs", total=len(missing))
            for compiled in (True, False):  # on this machine compiled runs come first, by threads; others need processes
                part = [task for task in missing if task.compiled == compiled]
                for number, (result, seconds) in parallel.run(_timed, part, compiled=compiled and few):
                    store.add(part[number], result, seconds)
                    progress.advance(bar)
    return len(missing)


def _timed(task: Task) -> tuple[Plain, float]:
    compile_everything()  # once in a process
    began = time.thread_time()  # a loaded machine makes no run dearer, nor does another run of this process
    result = task.run(task.settings)
    return result, time.thread_time() - began
