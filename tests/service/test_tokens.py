"""Tokens: shown once, kept as digests, refused when they are revoked; and the commands that make them."""

import json

import pytest
from typer.testing import CliRunner

from safe2real.cli import app
from safe2real.errors import Conflict, InvalidInput
from safe2real.service.places import checked_name, places_at
from safe2real.service.tokens import PREFIX, Role, Tokens


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


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a.db", "1a", "a" * 64, "safe2real-service", "pg_temp", None, "a b"])
def test_names_of_campaigns_lead_nowhere_else(name):
    with pytest.raises(InvalidInput, match="the campaign's name"):
        checked_name(name)


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
