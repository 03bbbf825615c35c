"""The journals of the package keep the contract that those from outside must."""

from __future__ import annotations

import threading

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.journal import MemoryJournal
from safe2real.campaign.journal.sql import SQLJournal
from safe2real.errors import StorageFailure
from safe2real.testing import JournalContract
from tests.campaign.systems import assert_same_model, model_of, run_rounds, three_states


class SQL(JournalContract):
    def reopen(self, journal):
        return SQLJournal(journal.url.render_as_string(hide_password=False), new=True)

    def syncs(self, journal, write):  # the database does, outside Python; test_crash.py watches the calls of SQLite
        write()
        with journal.reading() as transaction:
            return transaction._connection.exec_driver_sql(self.setting).scalar() in self.synced


class TestSQLite(SQL):
    setting, synced = "PRAGMA synchronous", (2, 3)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder, self.made = tmp_path, 0

    def make(self):
        self.made += 1
        return SQLJournal(self.folder / f"{self.made}.db", new=True)


class TestPostgreSQL(SQL):
    setting, synced = "SHOW synchronous_commit", ("on", "local", "remote_write", "remote_apply")

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.server = server

    def make(self):
        return SQLJournal(self.server.new_place())


class TestMemory(JournalContract):
    def make(self):
        return MemoryJournal()

    def reopen(self, journal):
        return MemoryJournal(journal)


def test_a_campaign_in_memory_is_the_one_in_a_file(tmp_path):
    system, journal = three_states(), MemoryJournal()
    with (
        Campaign.create(journal, system.specification) as memory,
        Campaign.create(tmp_path / "c.db", system.specification) as file,
    ):
        for campaign in (memory, file):
            run_rounds(campaign, system, 8)
        assert_same_model(model_of(memory), model_of(file))
        assert [event.body for event in memory.events()[1:]] == [event.body for event in file.events()[1:]]
        assert sorted(memory.stored_policies()) == sorted(file.stored_policies())
    with Campaign.open(journal) as again:  # closing gives nothing back that memory would hold
        assert again.verify().identical == 8
    with pytest.raises(StorageFailure, match="the memory of this process holds no campaign"):
        Campaign.open(MemoryJournal())


def test_readers_of_memory_see_one_moment(tmp_path):
    journal = MemoryJournal()
    with Campaign.create(journal, three_states().specification) as campaign, journal.reading() as before:
        thread = threading.Thread(target=run_rounds, args=(campaign, three_states(), 2))
        thread.start()
        thread.join()
        assert len(list(before.events())) == 1
        with journal.reading() as after:
            assert len(list(after.events())) == 5
