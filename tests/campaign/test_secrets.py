"""No password in any byte of what is said or written, however the place of a campaign was mistyped."""

import subprocess
import sys
import traceback
from urllib.parse import quote

import pytest

import safe2real as s2r
from safe2real.campaign.journal import url as places
from safe2real.campaign.journal.url import (
    harmless_cause,
    looks_like_a_connection,
    parse_place,
    remember_secrets,
    shown_place,
    without_secrets,
)
from safe2real.errors import InvalidInput, StorageFailure
from tests.campaign.systems import three_states
from tests.cases import sampled

SECRET = "S3cr3t"

REFUSED = [
    f"postgresql://u:{SECRET}/db",  # the host is forgotten
    f"postgresql://u:{SECRET}",
    f"postgresql:/u:{SECRET}@h/db",  # a slash
    f"postgresql:u:{SECRET}@h/db",
    f"postgresql//u:{SECRET}@h/db",
    f"postgres://u:{SECRET}@h/db",
    f"host=h dbname=x password={SECRET}",
    f"password = '{SECRET} x' host=h",
    f"password=a@{SECRET}",
    f"dbname=x;PASSWORD={SECRET}",
    f"./password={SECRET}",
    f"u:{SECRET}@h/db",
    f"//u:{SECRET}@h/db",
    f"/u:{SECRET}@h/db",
    f"postgresql://u:a@{SECRET}@h/db",
    f"postgresql://h:5432?password=a@{SECRET}",
    f"postgresql://h/db;password={SECRET}",
    f"postgresql://h/db;password=a@{SECRET}",
    f"postgresql://h/db#password={SECRET}",
    f"postgresql://u@h/db?sslpassword={SECRET}",
    f"postgresql://u@h/db?pasword={SECRET}",
    f"postgresql://u@h/db?password=a&password={SECRET}",
    f"postgresql://u:{SECRET}@h/db?password=b",
    f"postgresql://u:{SECRET}@h:port/db",
    f"postgresql://u:{SECRET}@h:99999/db",
    f"mysql://u:{SECRET}@h/db",
    f"sqlite://u:{SECRET}@h/db",
    f"jdbc:postgresql://h/db?user=u&password={SECRET}",
    f" postgresql://u:{SECRET}@h/db",
]
TAKEN = [
    (f"postgresql://u@h/db?password={SECRET}", "postgresql://u:***@h/db"),
    (f"postgresql://u:{SECRET}@h/db", "postgresql://u:***@h/db"),
    (f"postgresql://u:{SECRET}@/db", "postgresql://u:***@/db"),
    (f"postgresql://u:a%40{SECRET}@h:5432/db", "postgresql://u:***@h:5432/db"),
    (f"postgresql://u:a/{SECRET}@h/db", "postgresql://u:***@h/db"),
    (f"postgresql://u:{SECRET}@[::1]:5432/db?sslmode=require", "postgresql://u:***@[::1]:5432/db?sslmode=require"),
    (f"postgresql://u@h/db?options=-cx.y%3D{SECRET}", "postgresql://u@h/db"),
    ("postgresql://u@h/db?options=-csearch_path%3Dcell3", "postgresql://u@h/db?options=-csearch_path%3Dcell3"),
    ("postgresql://?service=cell", "postgresql://?service=cell"),
    ("cell 3.db", "cell 3.db"),
    ("run=3.db", "run=3.db"),
    ("C:/data/x@y.db", "C:/data/x@y.db"),
]


@pytest.fixture(autouse=True)
def _nothing_known_before(monkeypatch):
    monkeypatch.setattr(places, "_seen", set())


def said_by(call):
    """Everything that a program would print of the error of a call, with its causes."""
    with pytest.raises((InvalidInput, StorageFailure)) as caught:
        call()
    return "".join(traceback.format_exception(caught.value)), str(caught.value)


@pytest.mark.parametrize("place", REFUSED)
def test_what_looks_like_a_connection_is_refused_without_its_secret(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (lambda: s2r.Campaign.open(place), lambda: s2r.Campaign.create(place, three_states().specification)):
        whole, message = said_by(call)
        # The traceback quotes this file's own lines, which do not hold the secret itself.
        assert SECRET not in whole
        assert (
            "give" in message
            or "write" in message
            or "check" in message
            or "keep" in message
            or "settings follow" in message
        )
    assert SECRET not in shown_place(place)
    assert list(tmp_path.iterdir()) == []  # it did not become a file


@pytest.mark.parametrize(("place", "shown"), TAKEN)
def test_of_a_place_only_what_is_harmless_is_shown(place, shown):
    parsed = parse_place(place)
    assert shown_place(place) == shown
    if parsed.get_backend_name() == "postgresql" and SECRET in place and "options" not in place:
        assert SECRET in str(parsed.password)
        assert SECRET not in repr(parsed)


@pytest.mark.parametrize("place", REFUSED + [place for place, _ in TAKEN])
@pytest.mark.parametrize("frame", ["{} cannot be read (No such file)", "id is {!r}; give another", "No such command '{}'."])
def test_any_text_is_freed_of_what_was_typed(place, frame):
    remember_secrets(place)  # as the command line does with its arguments
    assert SECRET not in without_secrets(frame.format(place))
    for length in range(4, len(SECRET) + 1):
        cut = place[: place.find(SECRET) + length] if SECRET in place else place
        assert SECRET[:4] not in without_secrets(frame.format(cut + "..."))


@pytest.mark.parametrize("password", ["p+ w%", "ü/?#", "a", "12"])
def test_a_secret_is_found_in_every_form_it_was_given_in(password):
    parse_place(f"postgresql://u:{quote(password, safe='')}@h/db")
    for text in (f'syntax error near "{password}"', f"dsn {quote(password, safe='')} failed", f"got {password!r} there"):
        assert "***" in without_secrets(text)
        assert len(password) < 3 or password not in without_secrets(text)


def test_the_password_of_the_environment_is_a_secret_too(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert without_secrets(f"FATAL: {SECRET} is no command") == "FATAL: *** is no command"


def test_a_cause_that_holds_a_secret_is_left_out():
    parse_place(f"postgresql://u:{SECRET}@h/db")
    told = RuntimeError("the server said no")
    assert harmless_cause(told) is told
    told.__cause__ = RuntimeError(f"connection info: {SECRET}")
    assert harmless_cause(told) is None


def test_what_a_driver_says_is_freed_of_the_secret(monkeypatch):
    """Nobody listens there; and a driver that repeats everything it was given must not be repeated."""

    pytest.importorskip("psycopg")
    import psycopg

    def refuse(*_, **given):
        raise psycopg.OperationalError(f"could not connect with {given} or {SECRET}")

    monkeypatch.setattr(psycopg, "connect", refuse)
    whole, message = said_by(lambda: s2r.Campaign.open(f"postgresql://u:{SECRET}@127.0.0.1:1/db"))
    assert "postgresql://u:***@127.0.0.1:1/db" in message
    assert SECRET not in message
    assert SECRET not in whole


@pytest.mark.parametrize(
    "name", ["plain.db", "50% done?.db", "läuft #1.db", "a@b.db", "sub/a:b.db", "./user=3.db", "file:x"]
)
def test_names_of_files_are_names_of_files(name):
    assert not looks_like_a_connection(name)
    assert parse_place(name).database == name


COMMANDS = [
    ["status", f"postgresql://u@127.0.0.1:1/db?password={SECRET}"],
    ["init", "spec.json", f"postgresql://u:{SECRET}@h/db"],  # the wrong way round
    [f"postgresql://u:{SECRET}@h/db"],
]


@sampled("command", COMMANDS, keep=[0, 1])
def test_every_byte_of_the_output_of_commands(tmp_path, command):
    """In processes of their own: what Python itself prints is looked at as well."""
    (tmp_path / "spec.json").write_text(three_states().specification.to_text())
    program = [sys.executable, "-m", "safe2real.cli", "campaign", *command]
    ended = subprocess.run(program, cwd=tmp_path, capture_output=True, check=False)
    assert SECRET.encode() not in ended.stdout + ended.stderr
    assert ended.stderr.count(b"\n") == 1
    assert ended.returncode in (2, 5)
    assert b"***" in ended.stderr


def test_an_error_that_nobody_foresaw_is_one_line_without_secrets(capsys, monkeypatch):
    from safe2real.cli import io as exits

    parse_place(f"postgresql://u:{SECRET}@h/db")
    monkeypatch.delenv("SAFE2REAL_TRACEBACK", raising=False)
    try:
        raise KeyError(f"postgresql://u:{SECRET}@h/db")
    except KeyError:
        exits._last_word(*sys.exc_info())
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert '"error": "internal"' in said
    assert "KeyError at test_secrets.py" in said
    assert SECRET not in said
