"""The command line: `safe2real new`, `check`, `run`, `spec`, `campaign ...` and `serve`."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Run the program; Ctrl-C ends it with one line, also while its modules are imported."""
    try:
        from safe2real.cli.program import app

        app(prog_name="safe2real")
    except KeyboardInterrupt:
        sys.stderr.write('{"error": "interrupted", "message": "stopped by Ctrl-C"}\n')
        sys.exit(130)


def __getattr__(name: str) -> Any:
    """`app`, the program as a Typer application, which takes a moment to import."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from safe2real.cli.program import app

    return app
