"""`safe2real spec SPEC`: a specification in the other form, TOML or JSON, with everything that its files hold."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from safe2real.cli.io import exit_codes
from safe2real.cli.options import FilesAnywhere, NoCode, Spec

EXITS = exit_codes(0, 1, 2, 130)


class Form(Enum):
    """What a specification is written as."""

    JSON = "json"
    TOML = "toml"


def spec(
    spec: Spec,
    form: Annotated[Form, typer.Option("--to", help="What to write.")] = Form.JSON,
    no_code: NoCode = False,
    files_anywhere: FilesAnywhere = False,
) -> None:
    """Print a specification as one JSON document, or as TOML, with its method.

    Arrays in files are written out, and an environment becomes its rows. What is
    rehearsed on (`real`, `guess`, `run`) is left out. `campaign init` takes both.
    """
    from safe2real.preflight.spec_file import read_spec_file

    read = read_spec_file(spec, allow_code=not no_code, files_anywhere=files_anywhere)
    typer.echo(read.to_text() if form is Form.JSON else read.to_toml(), nl=form is Form.JSON)
