"""A progress bar for a run whose length nobody knows in advance, shared by the case studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_to(tolerance: float, label: str) -> Iterator[Callable[[int, float], None]]:
    """`report(rounds, Delta)` for `safe2real.simulate`; the bar is full when Delta reaches the tolerance.

    Delta falls like one over the square root of the samples, so (tolerance / Delta)^2 is about the share that is done.
    """
    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(label, total=1.0)

        def report(rounds: int, delta: float) -> None:
            share = min(1.0, (tolerance / delta) ** 2) if delta > 0.0 else 1.0
            progress.update(bar, completed=share, description=f"{label}: {rounds:,} episodes")

        yield report
