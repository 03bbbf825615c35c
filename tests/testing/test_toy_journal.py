"""A journal from outside: one JSON file, written anew by every transaction. And one that loses events."""

import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import astuple
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from safe2real.campaign.journal import Event, Header, Journal, Transaction
from safe2real.testing import JournalContract


class Page(Transaction):
    def header(self):
        return Header(*self.document["header"]) if self.document["header"] else None

    def events(self, after=0, until=None):
        return iter([Event(*row) for row in self.document["events"]][after:until])  # the n-th is number n

    def blob(self, name):
        return bytes.fromhex(self.document["blobs"][name]) if name in self.document["blobs"] else None

    def put_header(self, header):
        self.document["header"] = astuple(header)

    def put_events(self, events):
        self.document["events"] += map(astuple, events)

    def put_blobs(self, blobs):
        self.document["blobs"] |= {name: content.hex() for name, content in blobs.items()}


class PageJournal(Journal):
    def __init__(self, path=None):
        self.path = self.place = path or Path(tempfile.mkdtemp()) / "page.json"

    @contextmanager
    def transaction(self, *, writing):
        with Path(f"{self.path}.lock").open("w") as lock:
            flock(lock, LOCK_EX)
            page, text = Page(), self.path.read_text() if self.path.exists() else '{"header":0,"events":[],"blobs":{}}'
            page.document = json.loads(text)
            yield page
            with Path(f"{self.path}.new").open("w") as new:
                new.write(json.dumps(page.document))
                new.flush()
                os.fsync(new.fileno())
            Path(f"{self.path}.new").replace(self.path)


class TestPage(JournalContract):
    make, reopen, kills = staticmethod(PageJournal), staticmethod(lambda journal: PageJournal(journal.path)), 3


def test_one_that_loses_events_is_refused(monkeypatch):
    keep = Page.put_events
    monkeypatch.setattr(Page, "put_events", lambda self, new: keep(self, [e for e in new if e.sequence % 100]))
    with pytest.raises(AssertionError, match=r"event|killed"):
        TestPage().check()
