"""`python -m experiments`: the tables and figures of the paper, and further studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.catalogue import NAMES
from experiments.reproduce import reproduce
from safe2real.cli.options import Address, EngineName
from safe2real.errors import Safe2RealError

app = typer.Typer(add_completion=False)


@app.command()
def main(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"What to regenerate: {', '.join(NAMES)}. All of the paper's if none.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds per setting; the paper's numbers by default.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time; -1 for one per core.")] = -1,
    out: Annotated[Path, typer.Option(help="Where results go; finished runs found there are not repeated.")] = Path("out"),
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Regenerate the paper's tables and figures, with its values beside ours, into one report."""
    console = Console()
    try:
        report = reproduce(names or [], out, seeds=seeds, jobs=jobs, engine=engine, address=address, console=console)
    except Safe2RealError as error:
        console.print(f"[red]error:[/red] {error}")
        raise typer.Exit(2) from error
    console.print(f"report: {report}")


if __name__ == "__main__":
    app()
