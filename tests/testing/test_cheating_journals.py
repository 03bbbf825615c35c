"""Toys that lose events, never sync, keep what an exception takes back, or cut blobs are refused; an honest toy is not."""

import json
from contextlib import contextmanager

import pytest

from safe2real.testing import JournalContract
from tests.testing.test_lines_journal import LinesJournal


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


class Forgetful(LinesJournal):
    """It drops one event in a hundred, when nobody looks."""

    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as transaction:
            yield transaction
            transaction.new["events"] = [row for row in transaction.new["events"] if row[0] % 100]


class Tired(LinesJournal):
    """It drops one event of a long record."""

    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as transaction:
            yield transaction
            transaction.new["events"] = [row for row in transaction.new["events"] if row[0] != 5_000]


class Trusting(LinesJournal):
    """It leaves what it wrote to the operating system."""

    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as transaction:
            yield transaction
            if any(transaction.new.values()):
                with self.path.open("ab", buffering=0) as file:
                    file.write(json.dumps(transaction.new).encode() + b"\n")
                transaction.new.update(header=None, events=[], blobs={})  # nothing is left for the one that syncs


class Lazy(Trusting):
    """It syncs its first ten transactions, and leaves the others to the operating system."""

    @contextmanager
    def transaction(self, *, writing):
        kind = LinesJournal if self.path.exists() and self.path.read_bytes().count(b"\n") < 10 else Trusting
        with kind.transaction(self, writing=writing) as transaction:
            yield transaction


class Narrow(LinesJournal):
    """An event holds a million characters, and no more."""

    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as transaction:
            yield transaction
            rows = transaction.new["events"]
            transaction.new["events"] = [[one[: 10**6] if isinstance(one, str) else one for one in row] for row in rows]


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
        (Tired, "test_no_event_of_a_long_record_is_lost: the place of an event: 5001 instead of 5000"),
        (Trusting, "test_every_transaction_is_synced: transaction 1 ended without os.fsync"),
        (Lazy, "test_every_transaction_is_synced: transaction (9|10|11) ended without os.fsync"),
        (Narrow, "test_a_long_event_comes_back: whether a long event is as it was put: False instead of True"),
        (Hasty, "test_an_exception_leaves_nothing: the events after an exception: 5 of them"),
        (Blunt, "test_a_campaign_runs_on_it_and_verifies: policy .* is missing or was changed"),
    ],
)
def test_a_journal_that_cheats_is_refused(tmp_path, cheat, caught):
    contract = Folder()
    contract.journal, contract.folder, contract.made, contract.kills = cheat, tmp_path, 0, 1
    with pytest.raises(AssertionError, match=caught):
        contract.check()
