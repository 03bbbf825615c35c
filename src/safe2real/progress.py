"""Progress with the time left: a bar on a terminal, lines of the log elsewhere.

A bar by rich where that is installed (it comes with the extra `campaign`), else one line that counts. Off a terminal one
line a second at most goes to the logger `safe2real`, at the level INFO, which a program turns on by
`logging.basicConfig(level="INFO")`. Tasks of less than a second show nothing.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from safe2real.errors import InvalidInput

Report = Callable[[int, int], None]
"""(done, in all)"""
_LOG = logging.getLogger("safe2real")
_PATIENCE = 1.0  # seconds before a bar is worth showing
_BETWEEN = 0.1  # seconds from one update to the next, on a terminal
_BETWEEN_LINES = 10.0  # where every update is a line that stays
_BETWEEN_RECORDS = 1.0  # in a log


@contextmanager
def progress_bar(label: str, wanted: bool | Report | None = None, *, after: float = _PATIENCE) -> Iterator[Report | None]:
    """Yield `report(done, total)` for a bar with the time left; None where nothing is to be shown.

    Args:
        label: the counted units, in the plural.
        wanted: True shows a bar on standard error, False none, None one where that is a terminal, and lines of the log
            elsewhere if the log takes them. A function is told instead of a bar.
        after: seconds before anything is shown.

    Raises:
        InvalidInput: `wanted` is something else.
    """
    if wanted is not None and not isinstance(wanted, bool) and not callable(wanted):
        raise InvalidInput(f"progress is {wanted!r}; give True, False, None for on terminals, or a function (done, total)")
    if callable(wanted):
        yield wanted
        return
    stream = sys.stderr  # a daemon may have closed it altogether
    watched = stream is not None and stream.isatty()
    logged = wanted is None and not watched and _LOG.isEnabledFor(logging.INFO)
    if not logged and (wanted is False or stream is None or (wanted is None and not watched)):
        yield None
        return
    bar = _Bar(label, after, logged=logged)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """Shown from the first report on that comes late enough: by rich, else as a line with the time left."""

    def __init__(self, label: str, after: float, *, logged: bool) -> None:
        self._label, self._next, self._logged = label, time.monotonic() + after, logged
        self._watched = sys.stderr is not None and sys.stderr.isatty()
        self._between = _BETWEEN_RECORDS if logged else _BETWEEN if self._watched else _BETWEEN_LINES
        self._first: tuple[float, int] | None = None  # (time, progress) at the first update: the rate is measured from there
        self._rich: Any = None
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        if self._first is None:
            self._first = now, done
            self._rich = None if self._logged else _rich_bar(self._label)
            self._between = self._between if self._rich is None else _BETWEEN
        self._next = now + self._between
        if self._rich is not None:
            self._rich.update(self._rich.task_ids[0], completed=done, total=total)
            return
        begun, before = self._first
        made = done - before
        left = f", {_in_words((total - done) * (now - begun) / made)} left" if made > 0 else ""
        self._write(f"{self._label}: {done:,} of {total:,}{left}")

    def _write(self, text: str) -> None:
        if self._logged:
            _LOG.info("%s", text)
            return
        sys.stderr.write(f"\r{text:{self._width}}" if self._watched else f"{text}\n")
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        if self._rich is not None:
            self._rich.stop()
        elif self._watched and self._width:
            self._write("")
            sys.stderr.write("\r")


def _rich_bar(label: str) -> Any:
    """Return a started bar by rich; None if rich is not installed or the terminal cannot redraw."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return None
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn()]  # fmt: skip
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task(label, total=None)
    bar.start()
    return bar


def _in_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
