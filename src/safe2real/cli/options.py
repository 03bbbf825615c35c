"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from safe2real.parallel import ENGINES

# Of specifications

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The specification, a .toml or .json file.")]
NoCode = Annotated[
    bool, typer.Option("--no-code", help="Refuse environments, which run code: for a SPEC that you did not write.")
]
FilesAnywhere = Annotated[
    bool, typer.Option("--files-anywhere", help="Let SPEC name files outside its own folder, also by links.")
]
GuessRows = Annotated[
    int | None,
    typer.Option(
        help="Rehearse on a guessed reality with this number of wrong rows, drawn at random, instead of the file's."
    ),
]
GuessGap = Annotated[
    float | None, typer.Option(help="TV distance of the guess's wrong rows; the settings' mismatch_gap by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

# Of many runs

EngineName = Annotated[str, typer.Option("--engine", help=f"Where runs are executed: {', '.join(ENGINES)}.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a running Dask or Ray cluster; by default one is started here.")
]

# Of campaigns

Url = Annotated[
    str,
    typer.Argument(metavar="URL", help="The campaign: a file name (SQLite), or postgresql://user@host/database."),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The deployment's id, from the answer to ask.")]
Worker = Annotated[str | None, typer.Option(help="The worker that ran it; refused if another worker holds the deployment.")]
Force = Annotated[str | None, typer.Option(metavar="REASON", help="Why another worker than the holder does this; recorded.")]
Partial = Annotated[bool, typer.Option("--partial", help="Episodes may have been cut short; give all observed transitions.")]
