"""Finished runs, kept: one JSON line per run, appended and flushed to disk as it ends, so that nothing is ever run twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import safe2real

Row = dict[str, Any]


@cache
def code_version() -> str:
    """The version and a digest of the sources that runs depend on: after any change to them, runs are done again."""
    root = Path(safe2real.__file__).parent
    digest = hashlib.sha256()
    for folder in ("_compiled", "model", "planning", "evidence", "theory", "systems", "exploration"):
        for path in sorted((root / folder).glob("*.py")):
            digest.update(path.read_bytes())
    for name in ("runs.py", "certified_runs.py", "inferred.py"):
        digest.update((root / "paper" / name).read_bytes())
    return f"{safe2real.__version__}+{digest.hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Task:
    """One run: which kind, with which settings (plain JSON values, the seed among them)."""

    kind: str
    settings: dict[str, Any]

    @property
    def id(self) -> str:
        """The same kind, settings and code give the same id."""
        text = json.dumps([self.kind, self.settings, code_version()], sort_keys=True)
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

    def add(self, task: Task, result: dict[str, Any], seconds: float) -> None:
        row: Row = {
            "id": task.id,
            "kind": task.kind,
            "version": code_version(),
            "seconds": round(seconds, 4),
            "settings": task.settings,
            "result": result,
        }
        path = self.folder / f"{task.kind}.jsonl"
        # A line that a power cut left unfinished must not swallow the next one.
        torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a") as file:
            file.write(("\n" if torn else "") + json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._rows[task.id] = row

    def rows(self, tasks: Iterable[Task]) -> list[Row]:
        """The finished rows of these tasks, in their order."""
        return [self._rows[task.id] for task in tasks if task.id in self._rows]


def _parse(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None  # torn by a crash: that run is simply done again
    return row if isinstance(row, dict) and "id" in row else None
