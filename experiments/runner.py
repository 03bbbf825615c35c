"""Run many tasks on all cores, or on a cluster, keeping each as it ends; with a progress bar and the time left."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.store import Plain, Store, Task
from safe2real.engines.job import Job
from safe2real.engines.opening import opened
from safe2real.exploration.warm_up import compile_everything


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
    engines = [
        (opened(engine, jobs=jobs, address=address, compiled=compiled), part) for compiled, part in _divided(missing, engine)
    ]
    with console.status("preparing compiled code (a minute the first time, then a second)"):
        compile_everything()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("runs", total=len(missing))
        for opening, part in engines:
            with opening as workers:
                for number, (result, seconds) in workers.run(Job(_timed, compile_everything), part):
                    store.add(part[number], result, seconds)
                    progress.advance(bar)
    return len(missing)


def _divided(tasks: list[Task], engine: str) -> list[tuple[bool, list[Task]]]:
    """(whether they are compiled, tasks): on this machine such tasks come first, by threads; others need processes."""
    if engine != "local":
        return [(False, tasks)]
    parts = [(compiled, [task for task in tasks if task.compiled == compiled]) for compiled in (True, False)]
    return [(compiled, part) for compiled, part in parts if part]


def _timed(task: Task) -> tuple[Plain, float]:
    began = time.thread_time()  # a loaded machine makes no run dearer, nor does another run of this process
    result = task.run(task.settings)
    return result, time.thread_time() - began
