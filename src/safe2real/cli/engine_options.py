"""The options of commands that make many runs: on this machine or on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from safe2real.parallel import ENGINES

EngineName = Annotated[str, typer.Option("--engine", help=f"Where runs are done: {', '.join(ENGINES)}.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a Dask or Ray cluster that runs already; else one is started here.")
]
