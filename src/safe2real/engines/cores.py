"""How many cores whoever runs may use: where many tasks run side by side, each has one, and what it calls takes no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ALONE = ContextVar("_ALONE", default=True)


def cores() -> int:
    """One within a task of an engine or of `simulate_many`, else all that this process may use."""
    if not _ALONE.get():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def on_one_core() -> Iterator[None]:
    """Within, `cores()` is 1: other tasks have the others. It holds for this thread."""
    before = _ALONE.set(False)
    try:
        yield
    finally:
        _ALONE.reset(before)
