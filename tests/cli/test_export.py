"""Exports and the report by command: what is written where, and never over the campaign itself."""

import json
import sqlite3
from contextlib import closing

import pytest

import safe2real as s2r
from safe2real.campaign.files import whole_file
from safe2real.report import export
from tests.campaign.systems import three_states
from tests.cli.commands import campaign, done, run_rounds, specification


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A campaign with two episodes; tests only read it."""
    place = tmp_path_factory.mktemp("ran") / "campaign.db"
    done("init", place, "-", given=json.loads(specification()))
    run_rounds(place, 2)
    return place


def test_json_is_the_default(ran, tmp_path):
    out = tmp_path / "record.json"
    assert done("export", ran, "--out", out) == {"certified": False, "format": "json", "files": [str(out)]}
    assert len(json.loads(out.read_text())["events"]) == 5


def test_csv_goes_into_a_folder(ran, tmp_path):
    written = done("export", ran, "--format", "csv", "--out", tmp_path / "tables")
    assert written["format"] == "csv"
    assert sorted(written["files"]) == sorted(map(str, (tmp_path / "tables").iterdir()))
    assert str(tmp_path / "tables" / "transitions.csv") in written["files"]


def test_minari_gets_the_name_of_the_dataset(ran, monkeypatch):
    asked = []
    monkeypatch.setattr(export, "export_minari", lambda opened, dataset: asked.append((opened.name, dataset)))
    written = done("export", ran, "--format", "minari", "--out", "grid/arm-v0")
    assert written == {"certified": False, "format": "minari", "dataset": "grid/arm-v0"}
    assert asked == [(done("status", ran, "--no-forecast")["name"], "grid/arm-v0")]


def test_a_record_with_a_gap_is_exported_for_load(ran, tmp_path):
    """As SQLite's .recover leaves it after damage: what comes before the gap is a campaign again."""
    holed, out = tmp_path / "holed.db", tmp_path / "rest.json"
    with closing(sqlite3.connect(ran)) as source, closing(sqlite3.connect(holed)) as target:
        source.backup(target)
        (events,) = target.execute("SELECT count(*) FROM safe2real_event").fetchone()
        target.execute("DELETE FROM safe2real_event WHERE sequence = ?", (events - 1,))
        target.commit()
    assert campaign("ask", holed, "--worker", "w").code == 5
    assert campaign("export", holed, "--format", "csv", "--out", tmp_path / "tables").code == 5
    written = done("export", holed, "--out", out)
    assert not written["certified"]
    assert f"event {events} does not follow event {events - 2}" in written["damage"]
    loaded = done("load", out, tmp_path / "again.db")
    assert (loaded["events"], loaded["left_out"]) == (events - 2, 1)
    assert done("verify", tmp_path / "again.db")["holds"]


def test_rows_that_no_campaign_has_written_are_left_out(ran, tmp_path):
    forged, out = tmp_path / "forged.db", tmp_path / "record.json"
    with closing(sqlite3.connect(ran)) as source, closing(sqlite3.connect(forged)) as target:
        source.backup(target)
        (events,) = target.execute("SELECT count(*) FROM safe2real_event").fetchone()
        target.execute("UPDATE safe2real_event SET body = x'00ff' WHERE sequence = ?", (events,))
        target.execute("INSERT INTO safe2real_policy VALUES (x'00ff', x'00')")
        target.execute("INSERT INTO safe2real_signature VALUES (1, x'00ff', 'a')")
        target.commit()
    assert not done("export", forged, "--out", out)["certified"]
    document = json.loads(out.read_text())
    assert len(document["events"]) == events - 1
    assert "signatures" not in document
    assert done("load", out, tmp_path / "again.db")["events"] == events - 1


def test_the_report_is_a_page_that_names_its_campaign(ran, tmp_path):
    out = tmp_path / "report.html"
    assert done("report", ran, "--out", out) == {"certified": False, "file": str(out)}
    assert done("status", ran, "--no-forecast")["name"] in out.read_text()


def test_a_place_that_cannot_be_written(ran, tmp_path):
    ended = campaign("export", ran, "--out", tmp_path / "nowhere" / "record.json")
    assert (ended.code, ended.error) == (5, "storage")


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_nothing_is_written_over_a_campaign(tmp_path, ending):
    mine, other = tmp_path / "mine.db", tmp_path / "other.db"
    for place in (mine, other):
        s2r.Campaign.create(place, three_states().specification).close()
    before = other.read_bytes()
    (tmp_path / "link").symlink_to(f"{other}{ending}")
    for out in (f"{mine}{ending}", f"{other}{ending}", tmp_path / "link"):
        for kind, url in (("export", f"sqlite:///{mine}"), ("report", mine)):
            ended = campaign(kind, url, "--out", out)
            assert ended.code == 2, out
            assert "give another place" in ended.message
    assert other.read_bytes() == before
    with s2r.Campaign.open(mine) as opened:
        assert opened.verify().holds
    with whole_file(tmp_path / "plain.txt-wal") as file:  # a name alone is no reason
        file.write("x")
