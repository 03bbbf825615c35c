"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from safe2real.parallel import ENGINES

# Of specifications

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The specification, a .toml or .json file.")]
NoCode = Annotated[
    bool, typer.Option("--no-code", help="Refuse environments: SPEC comes from elsewhere, and an environment runs code.")
]
FilesAnywhere = Annotated[
    bool, typer.Option("--files-anywhere", help="SPEC may name files outside its own folder, links followed.")
]
GuessRows = Annotated[
    int | None,
    typer.Option(help="Rehearse on a guess with this number of wrong rows, drawn at random, instead of the file's own."),
]
GuessGap = Annotated[
    float | None, typer.Option(help="TV distance of the wrong rows of the guess; mismatch_gap of the settings if none.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]

# Of many runs

EngineName = Annotated[str, typer.Option("--engine", help=f"Where runs are done: {', '.join(ENGINES)}.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a Dask or Ray cluster that runs already; else one is started here.")
]

# Of campaigns

Url = Annotated[
    str,
    typer.Argument(metavar="URL", help="Where the campaign is: a file name (SQLite), or postgresql://user@host/database."),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The deployment's id, from the answer to ask.")]
Worker = Annotated[str | None, typer.Option(help="Who ran it; refused if another worker holds the deployment.")]
Force = Annotated[
    str | None, typer.Option(metavar="REASON", help="Why another than the worker that holds it does this; recorded.")
]
Partial = Annotated[
    bool, typer.Option("--partial", help="Episodes may have been cut short; give all transitions that were seen.")
]
