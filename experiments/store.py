"""Finished runs, kept: one JSON line per run, appended and flushed to disk as it ends, so that nothing is ever run twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments.sources import digest_of_sources
from safe2real.version import __version__

Plain = dict[str, Any]
"""What JSON can hold: the settings of a run, the seed among them, and its results."""
Row = Plain
Runner = Callable[[Plain], Plain]
"""From settings to results: a function of a module, so that any machine finds it by its name."""


@cache
def code_version(module: str) -> str:
    """The version and a digest of all sources that `module` imports: after any change to them its runs are done again."""
    return f"{__version__}+{digest_of_sources(module)[:8]}"


@dataclass(frozen=True, slots=True)
class Task:
    """One run: what does it, with which settings."""

    run: Runner
    settings: Plain
    compiled: bool = False  # nearly all of it is compiled code, which threads of one process run side by side

    @property
    def kind(self) -> str:
        """What rows and files are called: `explore` for `explore_run`."""
        return self.run.__name__.removesuffix("_run")

    @property
    def version(self) -> str:
        return code_version(self.run.__module__)

    @property
    def id(self) -> str:
        """The same kind, settings and code give the same id."""
        text = json.dumps([self.kind, self.settings, self.version], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """Rows of finished runs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._rows: dict[str, Row] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                row = _parse(line)
                if row is not None:
                    self._rows[row["id"]] = row

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks without a finished run, each once."""
        return list({task.id: task for task in tasks if task.id not in self._rows}.values())

    def add(self, task: Task, result: Plain, seconds: float) -> None:
        row: Row = {
            "id": task.id,
            "kind": task.kind,
            "version": task.version,
            "seconds": round(seconds, 4),
            "settings": task.settings,
            "result": result,
        }
        path = self.folder / f"{task.kind}.jsonl"
        # A line that a power cut left unfinished must not swallow the next one.
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            torn = file.read(1) not in (b"", b"\n")
            file.write((("\n" if torn else "") + json.dumps(row) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self._rows[task.id] = row

    def rows(self, tasks: Iterable[Task]) -> list[Row]:
        """The finished rows of these tasks, in their order."""
        return [self._rows[task.id] for task in tasks if task.id in self._rows]


def results_where(rows: Iterable[Row], **settings: Any) -> list[Plain]:
    """The results of the runs with these settings, in the order of the rows."""
    return [row["result"] for row in rows if all(row["settings"][key] == value for key, value in settings.items())]


def _parse(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None  # torn by a crash: that run is simply done again
    return row if isinstance(row, dict) and "id" in row else None
