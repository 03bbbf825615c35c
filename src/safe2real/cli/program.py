"""The program `safe2real` with all of its commands."""

from __future__ import annotations

from typing import Annotated

from safe2real.errors import needed_for

with needed_for("commands", "campaign"):
    import typer

from safe2real.cli import campaign, check, run, serve, spec
from safe2real.cli.io import JsonErrors, keep_to_one_line
from safe2real.version import __version__

app = typer.Typer(
    cls=JsonErrors, no_args_is_help=True, add_completion=False, help="Provably safe sim-to-real transfer for finite systems."
)
app.command(epilog=spec.NEW_EXITS)(spec.new)
app.command(epilog=check.EXITS)(check.check)
app.command(epilog=run.EXITS)(run.run)
app.command(epilog=spec.SPEC_EXITS)(spec.spec)
app.add_typer(campaign.commands, name="campaign")
app.add_typer(serve.commands, name="serve")


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
    keep_to_one_line()
