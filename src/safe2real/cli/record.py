"""`safe2real campaign backup | branch | load`: keeping a record, and coming back to one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from safe2real.campaign import Campaign
from safe2real.campaign.documents import receipt_document
from safe2real.cli.importing import Url
from safe2real.cli.io import answer, read_document
from safe2real.model.validation import byte_limit


def backup(url: Url, out: Annotated[Path, typer.Option(metavar="FILE", help="The copy; nothing is overwritten.")]) -> None:
    """Copy an SQLite campaign while others write to it, and check the copy.

    To restore: stop every process that uses the campaign, move FILE, FILE-wal
    and FILE-shm away, put the copy in place of FILE, and say so with `branch`.
    """
    from safe2real.campaign.backup import back_up

    answer(back_up(url, out))


def branch(
    url: Url,
    reason: Annotated[str, typer.Option(help="Why the record was restored; it must have nothing to do with the episodes.")],
) -> None:
    """Say that the record was restored from a copy and goes on from here. What had come after is lost.

    Processes that saw more of the record refuse to write until the campaign is
    opened again, and ids that were handed out after the copy are refused.
    """
    with Campaign.open(url) as opened:
        answer({"campaign": opened.name, **receipt_document(opened.branch(reason))})


def load(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `export` has written; - for stdin.")],
    url: Url,
) -> None:
    """Make a campaign at URL from an exported record, as far as it can be proved.

    The first event with which something is wrong, and all after it, are left
    out; the answer says how many and why. The record goes on as a new branch.
    """
    from safe2real.campaign.load import load_record

    document = read_document(file, byte_limit())  # a long record is a long text
    answer(asdict(load_record(url, document, f"loaded from {'standard input' if file == '-' else Path(file).name}")))
