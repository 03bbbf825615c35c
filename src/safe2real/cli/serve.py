"""`safe2real serve ...`: campaigns over HTTP, and tokens for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from safe2real.cli.io import answer
from safe2real.errors import InvalidInput

if TYPE_CHECKING:
    from safe2real.service.tokens import Tokens

# The service's dependencies are imported by the commands that use them.


class _Serving(TyperGroup):
    """`serve PLACE` is `serve run PLACE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        known = args[:1] in ([], ["--help"]) or args[0] in self.commands
        return super().parse_args(ctx, args if known else ["run", *args])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the options of `serve PLACE`, too."""
        super().format_help(ctx, formatter)
        run = self.commands["run"]
        run.format_help(run.context_class(run, ctx.parent, info_name="serve"), formatter)


commands = typer.Typer(
    cls=_Serving,
    no_args_is_help=True,
    subcommand_metavar="PLACE | token ... | warm",
    help="Serve campaigns over HTTP: `safe2real serve PLACE [OPTIONS]`, with the options below. PLACE is a folder of "
    "SQLite campaigns (NAME.db), or postgresql://user@host/database, where each campaign is a schema.",
)
tokens = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens, kept as digests beside the campaigns.")
commands.add_typer(tokens, name="token")
At = Annotated[
    str | None,
    typer.Option(metavar="PLACE", envvar="SAFE2REAL_PLACE", show_envvar=True, help="The PLACE of `safe2real serve`."),
]


@commands.command(hidden=True)
def run(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A folder of SQLite campaigns, or postgresql://user@host/database.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for one that is free.", min=0, max=65535)] = 8080,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Answer without tokens, on loopback only.")] = False,
    alert_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="SAFE2REAL_ALERT_URL",
            show_envvar=True,
            help="A webhook for alerts: refutations, silent workers, stops. Set the variable if it contains a secret.",
        ),
    ] = None,
    silent_after: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Alert when a worker holds a deployment for longer.")
    ] = None,
    trusted_proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            envvar="SAFE2REAL_TRUSTED_PROXY",
            show_envvar=True,
            help="The proxy (address or network) whose X-Forwarded-For is trusted; none by default.",
        ),
    ] = None,
) -> None:
    """Serve until the process is stopped."""
    from safe2real.service.alerts import AlertTerms
    from safe2real.service.server import run as serve

    if silent_after is not None and alert_url is None:
        raise InvalidInput("--silent-after needs --alert-url, or no alert could be sent; give both")
    alerts = None if alert_url is None else AlertTerms(alert_url, silent_after)
    with suppress(KeyboardInterrupt):  # the way to stop it
        serve(place, host, port, auth=not no_auth, alerts=alerts, trusted_proxy=trusted_proxy)


@commands.command()
def warm() -> None:
    """Compile the numerical code in advance, for which the first request would wait: in a container's build, for example."""
    from safe2real.service.server import warm as compile_all

    compile_all()
    answer({"warm": True})


@tokens.command()
def add(
    name: Annotated[str, typer.Argument(help="The owner, by whose name records say who asked, told or abandoned.")],
    role: Annotated[str, typer.Option(metavar="worker|operator|auditor", help="The rights of the token.")],
    campaign: Annotated[str | None, typer.Option(help="The only campaign of the token; all by default.")] = None,
    at: At = None,
) -> None:
    """Make a token. It is shown once, here; only its digest is stored.

    A worker asks and tells under its own name; an operator may do everything; an auditor reads, plans and verifies.
    """
    token = _tokens(at).add(name, role, campaign)
    answer({"name": name, "role": role, "campaign": campaign, "token": token})


@tokens.command("list")
def list_all(at: At = None) -> None:
    """List the tokens' names, roles and dates, not the tokens."""
    answer({"tokens": [asdict(one) for one in _tokens(at).all()]})


@tokens.command()
def revoke(name: Annotated[str, typer.Argument(help="The name of the token.")], at: At = None) -> None:
    """Revoke a token; every server refuses it within a second."""
    answer({"name": name, "revoked": _tokens(at).revoke(name)})


def _tokens(at: str | None) -> Tokens:
    from safe2real.service.storage import places_at
    from safe2real.service.tokens import Tokens

    if at is None:
        raise InvalidInput("--at is missing: the folder or database that is served (or set SAFE2REAL_PLACE)")
    return Tokens(places_at(at))
