"""Backups, and the way back in from a document."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.backup import back_up, load_record
from safe2real.campaign.journal.sql import SQLJournal
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.report.export import export_json
from tests.campaign.systems import assert_same_model, make, model_of, run_rounds, three_states

SYSTEM = three_states()


# Backups


def test_a_backup_is_taken_while_others_write(place, tmp_path):
    with make(place, 5) as campaign:
        stop = threading.Event()

        def work():
            with Campaign.open(place) as other:
                while not stop.is_set():
                    run_rounds(other, SYSTEM, 1, "other")

        worker = threading.Thread(target=work)
        worker.start()
        try:
            copies = [back_up(place, tmp_path / f"copy{number}.db") for number in range(5)]
        finally:
            stop.set()
            worker.join()
        events = campaign.events()
        for copy in copies:
            assert [path.name for path in tmp_path.glob(f"{Path(copy['file']).name}*")] == [Path(copy["file"]).name]
            with Campaign.open(copy["file"]) as restored:
                assert restored.events() == events[: copy["events"]]
                ledger = restored.verify(head=copy["head"])
                assert (ledger.holds, ledger.head) == (True, copy["head"])


def test_a_backup_overwrites_nothing(place, tmp_path):
    with make(place, 1):
        other = tmp_path / "other.db"
        other.write_text("mine")
        with pytest.raises(Conflict, match="exists already; a backup overwrites nothing"):
            back_up(place, other)
        with pytest.raises(Conflict, match="exists already"):
            back_up(place, place)
        assert other.read_text() == "mine"
        Path(f"{tmp_path / 'new.db'}-wal").write_text("of something else")
        with pytest.raises(Conflict, match=r"new\.db-wal exists already"):
            back_up(place, tmp_path / "new.db")


def test_a_damaged_file_is_not_backed_up(place, tmp_path):
    make(place, 40).close()
    content = bytearray(place.read_bytes())
    content[3 * 4096 : 5 * 4096] = bytes(2 * 4096)
    place.write_bytes(content)
    with pytest.raises(StorageFailure):
        back_up(place, tmp_path / "copy.db")
    assert not list(tmp_path.glob("*copy*"))


# The way back in


def exported(campaign: Campaign, folder: Path) -> dict:
    return json.loads(export_json(campaign, folder / "record.json").read_text())


def test_what_was_exported_is_the_same_campaign_again(place, tmp_path):
    with make(place, 6) as campaign:
        held = campaign.ask(worker="worker")
        document = exported(campaign, tmp_path)
        loaded = load_record(tmp_path / "again.db", document, "from a document")
        assert (loaded.events, loaded.left_out, loaded.why) == (14, 0, "")
        with Campaign.open(tmp_path / "again.db") as again:
            assert again.name == campaign.name
            assert again.events()[:-1] == campaign.events()
            assert (again.events()[-1].kind, again.status(forecast=False).branches) == ("branch", 1)
            assert again.verify(head=loaded.head).holds
            assert_same_model(model_of(again), model_of(campaign))
            assert again.tell(held.id, SYSTEM.episode(held)).new
            run_rounds(again, SYSTEM, 2)
            assert again.verify().holds


def break_digest(document):
    document["events"][7]["digest"] = "0" * 64


def break_body(document):
    document["events"][7]["body"] = document["events"][7]["body"].replace("0", "1", 1)


def lose_event(document):
    del document["events"][7]


def lose_policies(document):
    asks = [json.loads(event["body"]) for event in document["events"] if event["kind"] == "ask"]
    for digest in asks[3]["policies"]:  # of the fourth ask, which is event 8, and perhaps of others before
        document["policies"].pop(digest, None)


@pytest.mark.parametrize("harm", [break_digest, break_body, lose_event])
def test_a_harmed_document_is_loaded_up_to_the_harm(place, tmp_path, harm):
    with make(place, 6) as campaign:
        document = exported(campaign, tmp_path)
        harm(document)
        loaded = load_record(tmp_path / "again.db", document, "from a document")
        assert loaded.events == 7
        assert loaded.left_out == len(document["events"]) - 7
        assert loaded.why == "event 8 is missing or was changed"
        with Campaign.open(tmp_path / "again.db") as again:
            assert again.events()[:-1] == campaign.events()[:7]
            assert again.verify().holds
            run_rounds(again, SYSTEM, 2)
            assert again.verify().holds


def test_a_document_without_its_policies_is_loaded_up_to_them(place, tmp_path):
    with make(place, 6) as campaign:
        document = exported(campaign, tmp_path)
        lose_policies(document)
        loaded = load_record(tmp_path / "again.db", document, "from a document")
        assert "is missing" in loaded.why
        with Campaign.open(tmp_path / "again.db") as again:
            assert again.verify().holds


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda d: d.pop("events"), "no 'events' that can be used"),
        (lambda d: d["events"].clear(), "does not hold the record's first event"),
        (lambda d: d["events"].pop(0), "does not hold the record's first event"),
        (lambda d: d["specification"].update(horizon=5), "is not the one that the record's first event names"),
        (lambda d: d.update(campaign="0" * 8), "nothing of the document can be proved"),
        (lambda d: d["events"].append(7), r"events\[13\] is 7"),
        (lambda d: d["events"][3].update(sequence="4"), "not an event as it was exported"),
        (lambda d: d.update(signatures=[[1, "a"]]), "signatures has"),
    ],
)
def test_a_document_of_the_wrong_form_makes_nothing(place, tmp_path, harm, message):
    with make(place, 6) as campaign:
        document = exported(campaign, tmp_path)
    harm(document)
    with pytest.raises(InvalidInput, match=message):
        load_record(tmp_path / "again.db", document, "from a document")
    assert not (tmp_path / "again.db").exists()
    with pytest.raises(InvalidInput):
        load_record(tmp_path / "again.db", ["not", "a", "record"], "from a document")


def test_a_campaign_is_never_loaded_over_another(place, tmp_path):
    with make(place, 2) as campaign:
        document = exported(campaign, tmp_path)
        with pytest.raises(Conflict, match="holds a campaign already"):
            load_record(place, document, "from a document")
        assert campaign.verify().holds


def test_who_is_alone_looks_once_for_each_call_and_others_are_heard(tmp_path, monkeypatch):
    place, system, begun = tmp_path / "arm.db", three_states(), []
    transaction = SQLJournal.transaction

    def counted(self, *, writing):
        begun.append(writing)
        return transaction(self, writing=writing)

    with Campaign.create(place, system.specification) as campaign:
        run_rounds(campaign, system, 3)
        monkeypatch.setattr(SQLJournal, "transaction", counted)
        run_rounds(campaign, system, 2)
        assert begun == [True] * 4  # nothing is read but under the lock, where nobody else can write
        with Campaign.open(place) as other:
            run_rounds(other, system, 1, "another")
        begun.clear()
        assert campaign.ask(worker="cell").number == 7  # the first call plans under the lock what it did not know of
        campaign.abandon(campaign.ask(worker="cell").id, "power")
        assert begun[:3] == [True, False, True]
        assert campaign.verify().holds
