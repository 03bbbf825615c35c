"""`safe2real campaign trial ...`: one policy on trial within a campaign."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from safe2real.campaign import Campaign, Receipt
from safe2real.cli.io import JsonErrors, answer, read_array, read_document
from safe2real.errors import InvalidInput
from safe2real.model.serialization import mixture_from_json

commands = typer.Typer(
    cls=JsonErrors,
    no_args_is_help=True,
    help="Put one policy on trial within the campaign: it is deployed as far as the returns of its own episodes allow.",
)
Url = Annotated[str, typer.Argument(metavar="URL", help="Where the campaign is: a file name, or postgresql://...")]


@commands.command()
def begin(
    url: Url,
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="A JSON file: a policy, a mixture, or the whole answer of plan.")
    ],
    delta: Annotated[
        float, typer.Option(help="How likely a floor may ever be false, in ADDITION to the campaign's own delta.")
    ],
    reward: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="A reward to get a floor for. Repeatable.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="The floor of a constraint or reward that ends the trial. Repeatable."),
    ] = None,
) -> None:
    """Begin a trial, from the next deployment on. What is out stays out; all episodes count for the rows as before."""
    given = read_document(policy)
    rewards = {name: read_array(file, f"rewards.{name}") for name, file in _pairs("--reward", reward).items()}
    goals = {name: _number(name, text) for name, text in _pairs("--target", target).items()}
    with Campaign.open(url) as opened:
        model = opened.problem.simulator
        document = given["policy"] if isinstance(given, dict) and "policy" in given else given
        tried = mixture_from_json(document, "policy", horizon=model.horizon, num_states=model.num_states)
        _answer(opened, opened.begin_trial(tried, delta=delta, rewards=rewards, target=goals))


@commands.command()
def end(url: Url) -> None:
    """End the trial that runs, and go on with the campaign's method. Its floors stay true; status shows them."""
    with Campaign.open(url) as opened:
        _answer(opened, opened.end_trial())


def _answer(campaign: Campaign, receipt: Receipt) -> None:
    found = campaign.status(forecast=False).trial
    answer({"sequence": receipt.sequence, "new": receipt.new, "trial": None if found is None else asdict(found)})


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals and value) or name in found:
            raise InvalidInput(f"{option} is {one!r}; give NAME=VALUE, each name once")
        found[name] = value
    return found


def _number(name: str, text: str) -> Any:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(f"--target {name}={text}: give a number") from error
