"""JSON in, JSON out: files or standard input, one document on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

import typer

from safe2real import progress
from safe2real.errors import InvalidInput
from safe2real.model.serialization import array_from_json, bounded, from_text
from safe2real.progress import Report

STANDARD_INPUT = "-"


def read_text(file: str, limit: int | None = None) -> str:
    """The whole of a file, or of standard input for `-`; UTF-8, with or without the mark some editors put before it."""
    name = _name_of(file)
    if file == STANDARD_INPUT and sys.stdin is None:
        raise InvalidInput("standard input is closed; give a file, or a pipe that stays open")
    try:
        with nullcontext(sys.stdin.buffer) if file == STANDARD_INPUT else Path(file).open("rb") as opened:
            content = bounded(opened, name, limit)
    except OSError as error:
        raise InvalidInput(
            f"{name} cannot be read ({error.strerror}); check the name and the permissions, or give - for standard input"
        ) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 text (byte {error.start}: {error.reason}); save it as UTF-8") from error


def read_document(file: str, limit: int | None = None) -> Any:
    """One JSON document, of at most `limit` bytes; of the usual limit of texts by default."""
    return from_text(read_text(file, limit), _name_of(file))


def read_array(file: str, name: str) -> Any:
    """An array as specifications name it, "file.npy" or "file.npz:name"; else nested lists or a packed array in JSON."""
    if file.endswith((".npy", ".npz")) or ".npz:" in file:
        from safe2real.preflight.array_files import ArrayFiles

        return ArrayFiles(Path(), anywhere=True).array(file, name)
    return array_from_json(read_document(file), name)


def read_lines(file: str) -> list[Any]:
    """JSON Lines: one document a line; empty lines are passed over."""
    # Not splitlines, which would also cut at characters that may stand inside a JSON text.
    numbered = enumerate(read_text(file).split("\n"), start=1)
    return [from_text(line, f"line {number} of {_name_of(file)}") for number, line in numbered if line.strip()]


def answer(document: Any) -> None:
    """The command's one document; ASCII, so that no terminal or pipe can spoil it."""
    typer.echo(json.dumps(document, allow_nan=False, indent=2 if _watched(sys.stdout) else None))


def progress_bar(label: str) -> AbstractContextManager[Report | None]:
    """`report(done, total)` for a bar with the time left, where somebody is watching; None where nobody is."""
    return progress.progress_bar(label, after=0.0)


def _name_of(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def _watched(stream: TextIO | None) -> bool:
    """Whether somebody reads this on a terminal; a daemon may have closed the stream altogether."""
    return stream is not None and stream.isatty()
