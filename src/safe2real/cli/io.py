"""Output of commands: one answer on standard output, errors as one line of JSON, and exit codes."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from safe2real import progress
from safe2real.campaign.journal.url import remember_secrets, safe_message, without_secrets
from safe2real.errors import Conflict, Halted, InvalidInput, OutOfOrder, Safe2RealError, StorageFailure
from safe2real.model.serialization import array_from_json, bounded, from_text
from safe2real.progress import Report

NOT_VERIFIED = 6  # the ledger is on stdout, with its problems
NOT_READY = 7  # a check failed, or a rehearsal was unsafe
_INTERRUPTED = 130  # as shells say it of SIGINT
_EXITS = {InvalidInput.kind: 2, OutOfOrder.kind: 3, Conflict.kind: 4, StorageFailure.kind: 5, Halted.kind: 8}
_CODES = {
    0: "done",
    1: "internal: a mistake of safe2real itself; please report it",
    2: "invalid-input: the input is invalid; nothing was recorded",
    3: "stopped: the campaign has stopped; nothing is left to deploy",
    4: "conflict: the record, or the folder, holds something else already, which stays",
    5: "storage: the database is missing, damaged, full, read-only or newer, or a file cannot be written",
    NOT_VERIFIED: "verify found problems; they are in its answer",
    NOT_READY: "a check fails, a rehearsed deployment was unsafe, or a promise was not kept",
    8: "halted: the data refute the baseline's margin; nothing more is deployed: stop the machine",
    _INTERRUPTED: "interrupted: by Ctrl-C; recorded events stay",
}


def exit_codes(*codes: int) -> str:
    """Return the text of a command's help about errors and these exit codes."""
    head = 'Errors are one JSON line on stderr, {"error": KIND, "message": TEXT}. Exit codes and kinds:'
    return "\n\n".join([head, *(f"{code}  {_CODES[code]}" for code in codes)])  # the help joins the lines of a paragraph


_STOPPED = "stopped by Ctrl-C; recorded events stay, and the same command goes on from there"
_TRACEBACK = "SAFE2REAL_TRACEBACK"
_CHATTY = ("psycopg", "sqlalchemy", "matplotlib", "numba", "gymnasium", "minari")

# Errors of options and arguments; Typer uses these classes of Click and does not export them.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_NoArguments = getattr(sys.modules[_UsageError.__module__], "NoArgsIsHelpError", ())


class JsonErrors(TyperGroup):
    """The program: errors of its commands and options are one JSON line."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        with _json_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _json_errors():
            return super().invoke(ctx)


@contextmanager
def _json_errors() -> Iterator[None]:
    try:
        yield
    except _NoArguments:  # the answer is the help
        raise
    except _UsageError as error:
        _fail_usage(error)
    except Safe2RealError as error:
        _fail(error.kind, str(error), _EXITS[error.kind], error)
    except KeyboardInterrupt as error:
        _fail("interrupted", _STOPPED, _INTERRUPTED, error)
    except typer.Abort as error:  # Ctrl-C, or the end of the input, at a question
        _fail("interrupted", "a question was not answered; answer it, or give its option", _INTERRUPTED, error)
    except (MemoryError, RecursionError) as error:
        what = "memory" if isinstance(error, MemoryError) else "depth"
        _fail("invalid-input", f"what was given needs more {what} than there is; give something smaller", 2, error)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of the answer is gone
            raise
        _fail("storage", f"the system refused ({error}); check names, permissions and the space on the disk", 5, error)


def _fail_usage(error: Any) -> NoReturn:
    where = f" (see `{error.ctx.command_path} --help`)" if error.ctx is not None else ""
    _fail("invalid-input", error.format_message() + where, 2, error)


def _fail(kind: str, message: str, code: int, cause: BaseException) -> NoReturn:
    typer.echo(_line(kind, message), err=True)
    raise typer.Exit(code) from cause


def _line(kind: str, message: str) -> str:
    """Return an error line without secrets; every message passes through here, since arguments may hold a password."""
    return json.dumps({"error": kind, "message": safe_message(message)})


def keep_to_one_line() -> None:
    """Suppress tracebacks (they could reveal passwords) and library warnings on standard error."""
    sys.excepthook = _last_word
    for argument in sys.argv[1:]:  # any of them may be a place with a password
        remember_secrets(argument)
    for name in _CHATTY:
        logging.getLogger(name).addHandler(logging.NullHandler())
    if not sys.warnoptions:  # requested with -W
        warnings.showwarning = _unsaid  # libraries add filters of their own when they are imported, as gymnasium does


def _unsaid(*_: Any, **__: Any) -> None:
    """Show nothing of a warning."""


def _last_word(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an unforeseen error."""
    frames = traceback.extract_tb(trace)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    message = (
        f"{kind.__name__}{where}: {error}; this is a mistake of safe2real: please report it ({_TRACEBACK}=1 shows more)"
    )
    typer.echo(_line("internal", message), err=True)
    if os.environ.get(_TRACEBACK):
        typer.echo(without_secrets("".join(traceback.format_exception(kind, error, trace))), err=True)


STANDARD_INPUT = "-"


def read_text(file: str, limit: int | None = None) -> str:
    """Read a whole file, or standard input for `-`: UTF-8, with or without a byte order mark."""
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
    """Read one JSON document of at most `limit` bytes; by default the limit of texts."""
    return from_text(read_text(file, limit), _name_of(file))


def read_array(file: str, name: str) -> Any:
    """Read an array from "file.npy" or "file.npz:name", else nested lists or a packed array from JSON."""
    if file.endswith((".npy", ".npz")) or ".npz:" in file:
        from safe2real.preflight.array_files import ArrayFiles

        return ArrayFiles(Path(), anywhere=True).array(file, name)
    return array_from_json(read_document(file), name)


def read_lines(file: str) -> list[Any]:
    """Read JSON Lines, one document a line; empty lines are skipped."""
    # Not splitlines, which would also cut at characters that may stand inside a JSON text.
    numbered = enumerate(read_text(file).split("\n"), start=1)
    return [from_text(line, f"line {number} of {_name_of(file)}") for number, line in numbered if line.strip()]


def answer(document: Any) -> None:
    """Print the command's one document; ASCII, so that no terminal or pipe can spoil it."""
    typer.echo(json.dumps(document, allow_nan=False, indent=2 if _watched(sys.stdout) else None))


def progress_bar(label: str) -> AbstractContextManager[Report | None]:
    """Show a bar with the time left on a terminal: yields `report(done, total)`, or None off a terminal."""
    return progress.progress_bar(label, after=0.0)


def _name_of(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def _watched(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal; a daemon may have closed it."""
    return stream is not None and stream.isatty()
