"""`python -m torture --minutes 5`: every torture for its share of the time, and the table of what became of it.

Everything runs on this machine, in a temporary folder and on loopback. The exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torture.damage import damaged_files, torn_logs
from torture.forgeries import forgeries
from torture.hostile import hostile
from torture.kills import kills
from torture.partitions import partitions
from torture.restores import exchanged_files, restores
from torture.tally import Bench, Tally

TORTURES: tuple[Callable[[Bench], Tally], ...] = (
    kills, torn_logs, restores, exchanged_files, partitions, damaged_files, forgeries, hostile,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description="Campaigns under torture.")
    parser.add_argument("--minutes", type=float, default=5.0, help="for all of them together, about")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the places")
    named = ", ".join(torture.__name__ for torture in TORTURES)
    parser.add_argument("--only", nargs="*", default=[], help=f"names of tortures: {named}")
    given = parser.parse_args()
    chosen = [torture for torture in TORTURES if not given.only or torture.__name__ in given.only]
    tallies = []
    for torture in chosen:
        with tempfile.TemporaryDirectory(prefix="safe2real-torture-") as folder:
            tallies.append(torture(Bench(Path(folder), 60.0 * given.minutes / len(chosen), given.seed)))
            print(f"{tallies[-1].name}: {tallies[-1].attempted} attempts", file=sys.stderr, flush=True)
    print_table(tallies)
    for tally in tallies:
        for text in tally.lost[:5]:
            print(f"LOST, {tally.name}: {text}")
    return 1 if any(tally.lost for tally in tallies) else 0


def print_table(tallies: list[Tally]) -> None:
    table = Table("torture", "attempted", "survived", "of these refused", "lost", "seconds")
    for tally in tallies:
        if tally.skipped:
            table.add_row(tally.name, "-", "-", "-", "-", tally.skipped)
        else:
            numbers = (tally.attempted, tally.survived, tally.refused, len(tally.lost), f"{tally.seconds:.0f}")
            table.add_row(tally.name, *map(str, numbers))
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main())
