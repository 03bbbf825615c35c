"""A journal from outside: one JSON file, written anew by every transaction. And one that loses events."""

import json
import tempfile
from contextlib import contextmanager
from dataclasses import astuple
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from safe2real.campaign.events import Event
from safe2real.campaign.journal import Header, Journal, Transaction
from safe2real.testing import JournalContract


class Page(Transaction):
    def header(self):
        return Header(*self.document["header"]) if self.document["header"] else None

    def events(self, after=0, until=float("inf")):
        return (Event(*row) for row in self.document["events"] if after < row[0] <= until)

    def blob(self, name):
        return bytes.fromhex(self.document["blobs"][name]) if name in self.document["blobs"] else None

    def put_header(self, header):
        self.document["header"] = astuple(header)

    def put_events(self, events):
        self.document["events"] += map(astuple, events)

    def put_blobs(self, blobs):
        self.document["blobs"] |= {name: content.hex() for name, content in blobs.items()}


class PageJournal(Journal):
    def __init__(self, path=None, page=Page):
        self.path, self.page = path or Path(tempfile.mkdtemp()) / "page.json", page
        self.place = str(self.path)

    @contextmanager
    def transaction(self, *, writing):
        with Path(f"{self.path}.lock").open("w") as lock:
            flock(lock, LOCK_EX)
            page, new, empty = self.page(), Path(f"{self.path}.new"), {"header": None, "events": [], "blobs": {}}
            page.document = json.loads(self.path.read_text()) if self.path.exists() else empty
            yield page
            new.write_text(json.dumps(page.document))
            new.replace(self.path)


class TestPage(JournalContract):
    make, kills = staticmethod(PageJournal), 3
    reopen = staticmethod(lambda journal: PageJournal(journal.path, journal.page))


def test_one_that_loses_events_is_refused():
    lossy = type(
        "Lossy", (Page,), {"put_events": lambda self, new: Page.put_events(self, [e for e in new if e.sequence % 9])}
    )
    with pytest.raises(AssertionError, match="event"):
        type("Contract", (TestPage,), {"make": staticmethod(lambda: PageJournal(page=lossy))})().check()
