"""A journal from outside: JSON lines in a file, one for each transaction."""

import base64
import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import astuple

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.events import Event
from safe2real.campaign.journal import Header, Journal, Transaction
from safe2real.testing import JournalContract
from tests.campaign.systems import run_rounds, three_states


class Lines(Transaction):
    def __init__(self, lines):
        self.new = {"header": None, "events": [], "blobs": {}}
        self.all = [*map(json.loads, lines), self.new]

    def header(self):
        found = [one["header"] for one in self.all if one["header"]]
        return Header(*found[-1]) if found else None

    def events(self, after=0, until=None):
        every = (Event(*row) for one in self.all for row in one["events"])
        return (event for event in every if after < event.sequence and (until is None or event.sequence <= until))

    def blob(self, name):
        found = [one["blobs"][name] for one in self.all if name in one["blobs"]]
        return base64.b64decode(found[-1]) if found else None

    def put_header(self, header):
        self.new["header"] = astuple(header)

    def put_events(self, events):
        self.new["events"] += map(astuple, events)

    def put_blobs(self, blobs):
        self.new["blobs"] |= {name: base64.b64encode(content).decode() for name, content in blobs.items()}


class LinesJournal(Journal):
    def __init__(self, path):
        self.path, self.place = path, str(path)
        path.touch()

    @contextmanager
    def transaction(self, *, writing):
        with self.path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX if writing else fcntl.LOCK_SH)
            whole = file.read().rpartition(b"\n")[0]  # what follows the last line's end was cut off by a kill
            transaction = Lines(whole.splitlines())
            yield transaction
            if any(transaction.new.values()):
                file.seek(len(whole) + bool(whole))
                file.truncate()
                file.write(json.dumps(transaction.new).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())


# Is it one?


class Folder(JournalContract):
    journal = LinesJournal

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder, self.made = tmp_path, 0

    def make(self):
        self.made += 1
        return self.journal(self.folder / f"{self.made}.jsonl")

    def reopen(self, journal):
        return self.journal(journal.path)


class TestLines(Folder):
    pass


def test_a_campaign_on_it(tmp_path):
    with Campaign.create(LinesJournal(tmp_path / "campaign.jsonl"), three_states().specification) as campaign:
        run_rounds(campaign, three_states(), 5)
        head = campaign.status(forecast=False).head
    with Campaign.open(LinesJournal(tmp_path / "campaign.jsonl")) as campaign:
        run_rounds(campaign, three_states(), 5)
        assert campaign.verify(head=head).describe().startswith("certified: 10 deployments and 10 episodes")


class Forgetful(LinesJournal):
    """It drops one event in a hundred, when nobody looks."""

    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as transaction:
            yield transaction
            transaction.new["events"] = [row for row in transaction.new["events"] if row[0] % 100]


class Hasty(LinesJournal):
    """It writes also what an exception should have taken back."""

    @contextmanager
    def transaction(self, *, writing):
        failure = None
        with super().transaction(writing=writing) as transaction:
            try:
                yield transaction
            except Exception as error:  # noqa: BLE001
                failure = error
        if failure is not None:
            raise failure


class Blunt(LinesJournal):
    """Blobs without their last byte."""

    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as transaction:
            whole = transaction.put_blobs
            transaction.put_blobs = lambda blobs: whole({name: content[:-1] for name, content in blobs.items()})
            yield transaction


@pytest.mark.parametrize(
    ("cheat", "caught"),
    [
        (Forgetful, "test_events_come_back.*went back: this process has seen event 100 of the record"),
        (Hasty, "test_an_exception_leaves_nothing: the events after an exception: 5 of them"),
        (Blunt, "test_a_campaign_runs_on_it_and_verifies: policy .* is missing or was changed"),
    ],
)
def test_a_journal_that_cheats_is_refused(tmp_path, cheat, caught):
    contract = Folder()
    contract.journal, contract.folder, contract.made, contract.kills = cheat, tmp_path, 0, 1
    with pytest.raises(AssertionError, match=caught):
        contract.check()
