"""Timing and printing that the benchmarks share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One promise, and what was measured."""

    name: str
    wanted: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"{'PASS' if self.met else 'MISS'}  {self.name}: {self.measured} (target {self.wanted})"


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def interleaved(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median time of each call. They take turns, so that a noisy moment of the machine hits all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            taken.append(seconds(call))
    return [statistics.median(taken) for taken in times]


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns padded to their widest entry, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}")
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells), flush=True)


def milliseconds(value: float) -> str:
    """A time in the unit that suits most of what is measured here."""
    return f"{1e3 * value:.3f} ms" if value < 1.0 else f"{value:.2f} s"
