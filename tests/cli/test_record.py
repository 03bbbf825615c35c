"""backup, branch and load from the shell."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from safe2real.campaign import Campaign
from safe2real.cli import app
from tests.campaign.systems import run_rounds, three_states

SYSTEM = three_states()


@pytest.fixture
def place(tmp_path):
    with Campaign.create(tmp_path / "campaign.db", SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 3)
    return tmp_path / "campaign.db"


def call(*arguments: object, code: int = 0) -> dict:
    ended = CliRunner().invoke(app, ["campaign", *map(str, arguments)])
    assert ended.exit_code == code, ended.output
    return json.loads(ended.stdout if code == 0 else ended.stderr)


def test_a_backup_says_how_far_it_goes(place, tmp_path):
    answer = call("backup", place, "--out", tmp_path / "copy.db")
    assert answer["events"] == 7
    assert call("verify", tmp_path / "copy.db", "--head", answer["head"])["holds"]
    assert call("backup", place, "--out", tmp_path / "copy.db", code=4)["error"] == "conflict"


def test_a_branch_is_an_event(place):
    answer = call("branch", place, "--reason", "the disk failed")
    assert (answer["sequence"], answer["new"]) == (8, True)
    assert call("status", place, "--no-forecast")["branches"] == 1


def test_what_was_exported_is_loaded(place, tmp_path):
    call("export", place, "--out", tmp_path / "record.json")
    answer = call("load", tmp_path / "record.json", tmp_path / "again.db")
    assert (answer["events"], answer["left_out"], answer["why"]) == (7, 0, "")
    assert call("verify", tmp_path / "again.db", "--head", answer["head"])["holds"]
    assert call("load", tmp_path / "record.json", place, code=4)["error"] == "conflict"
    (tmp_path / "other.json").write_text("[]")
    assert call("load", tmp_path / "other.json", tmp_path / "third.db", code=2)["error"] == "invalid-input"


def test_another_worker_s_deployment_needs_a_reason(place, tmp_path):
    (deployment,) = call("ask", place, "--worker", "cell-3")["deployments"]
    id = deployment["id"]
    refused = call("abandon", place, id, "--reason", "none", "--worker", "cell-4", code=4)
    assert "is held by 'cell-3', not by 'cell-4'" in refused["message"]
    assert call("abandon", place, id, "--reason", "none", "--worker", "cell-4", "--force", "cell-3 broke down")["new"]
    assert call("status", place, "--no-forecast")["forced"] == 1
