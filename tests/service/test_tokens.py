"""Tokens: shown once, kept as digests, refused when they are revoked; and the commands that make them."""

import json

import pytest
from typer.testing import CliRunner

from safe2real import CMDP, AtLeast
from safe2real.campaign import Campaign
from safe2real.campaign.ask import hand_out
from safe2real.campaign.signing import current_principal
from safe2real.cli import app
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.service.storage import campaign_name, places_at
from safe2real.service.tokens import PREFIX, Role, Tokens
from tests.campaign.systems import three_states


@pytest.fixture
def tokens(tmp_path):
    return Tokens(places_at(str(tmp_path)))


def test_a_token_is_known_and_nothing_is_kept_of_it(tokens, tmp_path):
    token = tokens.add("cell-3", "worker", "arm")
    assert token.startswith(PREFIX)
    assert len(token) >= 43 + len(PREFIX)
    caller = tokens.caller(token)
    assert (caller.name, caller.role, caller.campaign) == ("cell-3", Role.WORKER, "arm")
    assert tokens.caller(token[:-1]) is None
    assert tokens.caller("") is None
    assert token.encode() not in (tmp_path / "safe2real-service.db").read_bytes()


def test_a_name_is_used_once_and_a_revoked_token_is_refused(tokens):
    token = tokens.add("ann", "operator")
    assert tokens.revoke("ann")
    assert not tokens.revoke("ann")
    assert tokens.caller(token) is None
    with pytest.raises(Conflict, match="there was one"):
        tokens.add("ann", "operator")
    with pytest.raises(InvalidInput, match="no token of the name 'bob'"):
        tokens.revoke("bob")
    with pytest.raises(InvalidInput, match="give one of worker, operator, auditor"):
        tokens.add("bob", "king")
    assert [(one.name, one.revoked is None) for one in tokens.all()] == [("ann", False)]


def test_a_token_that_cannot_be_kept_is_a_failure_of_storage(tokens, tmp_path):
    (tmp_path / "safe2real-service.db").write_text("this is no database")
    with pytest.raises(StorageFailure):
        tokens.add("ann", "operator")


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a.db", "1a", "a" * 64, "safe2real-service", "pg_temp", None, "a b"])
def test_names_of_campaigns_lead_nowhere_else(name):
    with pytest.raises(InvalidInput, match="the campaign's name"):
        campaign_name(name)


@pytest.mark.parametrize("name", ["cell-3\nSTANDING: certified", "a\tb", "a\rb"])
def test_names_are_one_line(tokens, tmp_path, monkeypatch, name):
    system = three_states()
    with Campaign.create(tmp_path / "arm.db", system.specification) as campaign:
        episode = {"states": [0] * 5, "actions": [0] * 4}
        for call in (
            lambda: tokens.add(name, "worker"),
            lambda: campaign.ask(worker=name),
            lambda: campaign.acting_as(name),
            lambda: campaign.import_log(name, system.specification.baseline, [episode]),
            lambda: CMDP.of(system.real.kernel, 4, 0, [AtLeast([1.0, 1.0, 0.0], 0.5, name)]),
        ):
            with pytest.raises(InvalidInput, match=r"(name|worker|principal|source) is '(cell-3|a)\\[ntr]"):
                call()
        monkeypatch.setenv("SAFE2REAL_BY", name)
        with pytest.raises(InvalidInput, match="SAFE2REAL_BY is"):
            current_principal(None)


def test_a_name_of_an_older_record_can_still_be_told_and_given_up(tmp_path):
    with Campaign.create(tmp_path / "arm.db", three_states().specification) as campaign:
        first, second = hand_out(campaign._record, "cell\n3", 2)
        assert campaign.tell(first.id, three_states().episode(first), worker="cell\n3").new
        assert campaign.abandon_all("cell\n3", "dismantled") == [second.id]


def test_the_commands(tmp_path):
    def run(*arguments, code=0):
        result = CliRunner().invoke(app, ["serve", "token", *arguments, "--at", str(tmp_path)])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else json.loads(result.stderr)

    made = run("add", "ann", "--role", "auditor", "--campaign", "arm")
    assert (made["name"], made["role"], made["campaign"]) == ("ann", "auditor", "arm")
    listed = run("list")
    assert [one["name"] for one in listed["tokens"]] == ["ann"]
    assert made["token"] not in json.dumps(listed)
    assert run("revoke", "ann") == {"name": "ann", "revoked": True}
    assert run("add", "ann", "--role", "worker", code=4)["error"] == "conflict"
    assert run("add", "x", "--role", "king", code=2)["error"] == "invalid-input"


def test_serving_without_tokens_is_for_this_machine(tmp_path):
    result = CliRunner().invoke(app, ["serve", str(tmp_path), "--no-auth", "--host", "0.0.0.0"])
    assert result.exit_code == 2
    assert "loopback alone" in result.stderr
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "nowhere")])
    assert "there is no folder" in result.stderr
    for secret in ("postgresql://u:hunter2@h/d?options=-csearch_path%3Da", "postgresql://u:hunter2@127.0.0.1:9/d"):
        result = CliRunner().invoke(app, ["serve", secret])
        assert result.exit_code in (2, 5)
        assert "hunter2" not in result.output
