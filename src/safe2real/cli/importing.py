"""`safe2real campaign import`: episodes that were collected earlier, from a log or from another campaign."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from safe2real.campaign import Campaign, Overlap, carry_over, documents
from safe2real.cli.io import answer, read_document, read_lines
from safe2real.errors import InvalidInput
from safe2real.model.serialization import policy_from_json

BASELINE = "baseline"

Url = Annotated[
    str,
    typer.Argument(metavar="URL", help="Where the campaign is: a file name (SQLite), or postgresql://user@host/database."),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="Episodes may have been cut short; give all transitions that were seen.")
]


def import_log(
    url: Url,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="JSON Lines, one episode object a line; - for standard input.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="The name of the log; one log is imported once under one name.")] = None,
    policy: Annotated[
        str, typer.Option(metavar="FILE|baseline", help="The policy that collected the log: a JSON file, or `baseline`.")
    ] = BASELINE,
    partial: Partial = False,
    overlap: Annotated[
        Overlap, typer.Option(help="Episodes that look like recorded ones: the same (skip), or others (count)?")
    ] = Overlap.REFUSE,
    earlier: Annotated[
        str | None, typer.Option("--from", metavar="CAMPAIGN", help="Another campaign: take over all of its episodes.")
    ] = None,
) -> None:
    """Add episodes that a known policy collected earlier, all or none. The log must be complete.

    An episode may have an `id`, any text that names it in every log. With `--from OLD` every episode of another campaign on
    the same system is taken over, after a refutation for example.
    """
    if earlier is not None:
        if file is not None or source is not None:
            raise InvalidInput("a file or --source is given beside --from; take over a campaign, or import a log")
        with Campaign.open(url) as opened, Campaign.open(earlier) as old:
            answer(asdict(carry_over(opened, old, overlap=overlap)))
        return
    if file is None or source is None:
        raise InvalidInput("no log is named; give FILE and --source NAME, or --from CAMPAIGN")
    episodes = read_lines(file)
    given = None if policy == BASELINE else read_document(policy)
    with Campaign.open(url) as opened:
        fixed = opened.problem
        horizon = fixed.simulator.horizon
        collector = fixed.baseline if given is None else policy_from_json(given, "policy", horizon=horizon)
        receipt = opened.import_log(source, collector, episodes, partial=partial, overlap=overlap)
        counts = {"episodes": len(episodes), "skipped": receipt.skipped}
        answer({"source": source, **counts, **documents.receipt_document(receipt)})
