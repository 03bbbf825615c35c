"""The command line: `safe2real reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from safe2real import __version__
from safe2real.errors import Safe2RealError
from safe2real.experiments.engine import ENGINES
from safe2real.experiments.reproduce import ARTEFACTS
from safe2real.experiments.reproduce import reproduce as run_reproduce

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Provably safe sim-to-real transfer for finite systems.")
NAMES = ", ".join(artefact.name for artefact in ARTEFACTS)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Provably safe sim-to-real transfer for finite systems."""


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help=f"What to regenerate; everything if none: {NAMES}.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds per setting; the paper's numbers by default.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    out: Annotated[Path, typer.Option(help="Where results go; finished runs found there are not repeated.")] = Path("out"),
    engine: Annotated[str, typer.Option(help=f"Where runs are done: {', '.join(ENGINES)}.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Dask or Ray cluster.")] = None,
) -> None:
    """Regenerate the paper's tables and figures, with its values beside ours, into one report."""
    console = Console()
    try:
        report = run_reproduce(names or [], out, seeds=seeds, jobs=jobs, engine=engine, address=address, console=console)
    except Safe2RealError as error:
        console.print(f"[red]error:[/red] {error}")
        raise typer.Exit(2) from error
    console.print(f"report: {report}")


if __name__ == "__main__":
    app()
