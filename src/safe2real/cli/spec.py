"""`safe2real spec SPEC`: a specification as one JSON document, with everything that its files hold."""

from __future__ import annotations

import typer

from safe2real.cli.io import exit_codes
from safe2real.cli.options import FilesAnywhere, NoCode, Spec

EXITS = exit_codes(0, 1, 2, 130)


def spec(spec: Spec, no_code: NoCode = False, files_anywhere: FilesAnywhere = False) -> None:
    """Print a specification as one JSON document, with its method.

    Arrays in files are written out, and an environment becomes its rows. What is
    rehearsed on (`real`, `guess`, `run`) is left out. `campaign init` takes it.
    """
    from safe2real.preflight.spec_file import read_spec_file

    typer.echo(read_spec_file(spec, allow_code=not no_code, files_anywhere=files_anywhere).to_text())
