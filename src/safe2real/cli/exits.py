"""How a command ends: exit codes that scripts can rely on, and one JSON line on stderr that says why."""

from __future__ import annotations

import errno
import json
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from safe2real.errors import Conflict, Halted, InvalidInput, OutOfOrder, Safe2RealError, StorageFailure

NOT_VERIFIED = 6  # the ledger is on stdout, with its problems
NOT_READY = 7  # a check found what must be mended first, or a rehearsal was unsafe

_EXITS: tuple[tuple[type[Safe2RealError], str, int], ...] = (
    (InvalidInput, "invalid-input", 2),
    (OutOfOrder, "stopped", 3),
    (Conflict, "conflict", 4),
    (StorageFailure, "storage", 5),
    (Halted, "halted", 8),
)

# One paragraph for each code: the help joins the lines of a paragraph.
EXIT_CODES = "\n\n".join(
    (
        'Answers are one JSON document on stdout. Errors are one JSON line on stderr, {"error": KIND, "message": TEXT}. '
        "Exit codes and kinds:",
        "0  done",
        "2  invalid-input: what was given is wrong; nothing was recorded",
        "3  stopped: nothing is left to deploy; plans are as good as they will be",
        "4  conflict: the record says otherwise already; it stays",
        "5  storage: the database is missing, damaged, full, read-only or newer, or a file cannot be written",
        "6  verify has found problems; they are in its answer",
        "8  halted: the data refute the margin of the baseline; nothing is handed out any more: stop the machine",
    )
)

# The class of everything that is wrong with options and arguments; Typer has it from Click but does not export it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _InJson:
    """What turns errors into JSON lines: those of this package, and those about options and arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if not args and isinstance(self, TyperGroup):  # answered with the help
            return super().parse_args(ctx, args)  # type: ignore[misc]
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except _UsageError as error:
            _fail_usage(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)  # type: ignore[misc]
        except Safe2RealError as error:
            kind, code = next((kind, code) for family, kind, code in _EXITS if isinstance(error, family))
            _fail(kind, str(error), code, error)
        except _UsageError as error:
            _fail_usage(error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # nobody reads the answer any more, nor would anybody read this
                raise
            _fail("storage", f"the system refused ({error}); check names, permissions and the space on the disk", 5, error)


class JsonErrors(_InJson, TyperGroup):
    """Commands whose errors are for programs."""


class JsonErrorsCommand(_InJson, TyperCommand):
    """One command whose errors are for programs."""


def _fail_usage(error: Any) -> NoReturn:
    where = f" (see `{error.ctx.command_path} --help`)" if error.ctx is not None else ""
    _fail("invalid-input", error.format_message() + where, 2, error)


def _fail(kind: str, message: str, code: int, cause: Exception) -> NoReturn:
    typer.echo(json.dumps({"error": kind, "message": message}), err=True)
    raise typer.Exit(code) from cause
