"""Journals, which store a campaign's events: SQLite, PostgreSQL, memory, or your own."""

from __future__ import annotations

import os

from safe2real.campaign.events import Event
from safe2real.campaign.journal.base import FORMAT, Header, Journal, Transaction
from safe2real.campaign.journal.memory import MemoryJournal
from safe2real.campaign.signing import keys_from_environment
from safe2real.errors import needed_for

__all__ = ["FORMAT", "Event", "Header", "Journal", "MemoryJournal", "Transaction", "journal_at"]


def journal_at(place: str | os.PathLike[str] | Journal, *, new: bool = False) -> Journal:
    """Return the journal at a place; it signs with the key of this process if there is one.

    Args:
        place: A file name (SQLite), sqlite:///file, postgresql://user@host/database, or a journal.
        new: Whether a file may be one that does not exist yet.
    """
    keys = keys_from_environment()
    if not isinstance(place, Journal):
        with needed_for("campaigns in a database", "campaign"):  # a journal of another kind does without
            from safe2real.campaign.journal.sql import SQLJournal
        place = SQLJournal(place, new=new)
    place.keys = place.keys or keys
    return place
