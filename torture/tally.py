"""What every torture reports, and how long it may take."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """One row of the table: how often it was tried, and what was lost, doubled, altered or falsely believed."""

    name: str
    attempted: int = 0
    lost: list[str] = field(default_factory=list)  # what went wrong, one text for each attempt that did not survive
    refused: int = 0  # attempts that ended in an error of ours that says what to do, with nothing written
    seconds: float = 0.0
    skipped: str = ""  # why it could not be tried here

    @property
    def survived(self) -> int:
        return self.attempted - len(self.lost)


@dataclass(frozen=True)
class Bench:
    """Where a torture works, and how long."""

    folder: Path
    seconds: float
    seed: int

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    def attempts(self, tally: Tally, least: int = 1) -> Iterator[int]:
        """Numbers from 0 on while there is time, and `least` in any case; keeps the time and the count."""
        began = time.monotonic()
        while tally.attempted < least or time.monotonic() - began < self.seconds:
            tally.attempted += 1
            yield tally.attempted - 1
            tally.seconds = time.monotonic() - began
