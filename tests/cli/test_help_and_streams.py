"""What people see: help, an answer on a terminal, a progress bar; and what happens when a stream is closed or refuses."""

import errno
import io
import re
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from experiments.__main__ import app as experiments
from experiments.catalogue import NAMES
from experiments.reproduce import ARTEFACTS
from safe2real.cli import app
from safe2real.cli import campaign as module
from safe2real.cli import io as streams
from safe2real.errors import InvalidInput
from safe2real.parallel import ENGINES
from tests.cli.commands import campaign

COMMANDS = ["init", "ask", "tell", "abandon", "import", "status", "plan", "map", "verify", "export", "report"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_help_lists_commands_and_exit_codes():
    shown = CliRunner().invoke(app, ["campaign", "--help"], env={"COLUMNS": "200"}).stdout
    for command in COMMANDS:
        assert re.search(rf"^\W*{command} ", shown, re.MULTILINE), command
    for code, kind in enumerate(("invalid-input", "stopped", "conflict", "storage", "verify"), start=2):
        assert re.search(rf"^\W*{code}  {kind}", shown, re.MULTILINE), code


def commands(group, path=()):
    """The path of every command and group with its parameters; `serve PLACE` is a command without a name."""
    yield path, group.params
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, path if command.hidden else (*path, name))


@pytest.mark.parametrize(("path", "parameters"), list(commands(get_command(app))), ids=str)
def test_the_help_of_every_command_shows_every_option(path, parameters):
    shown = CliRunner().invoke(app, [*path, "--help"], prog_name="safe2real", env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for one in parameters:
        assert not getattr(one, "hidden", False), one.name
        for text in (*one.opts, *one.secondary_opts) if one.param_type_name == "option" else (one.metavar or one.name,):
            assert text.lower() in shown.stdout.lower(), (path, text)


def test_without_a_command_the_help_is_shown():
    shown = CliRunner().invoke(app, ["campaign"])
    assert shown.exit_code == 2
    assert "Usage:" in shown.output
    assert '{"error": "invalid-input"' not in shown.output


def test_the_names_in_the_help_of_reproduce_are_those_of_the_experiments():
    assert tuple(artefact.name for artefact in ARTEFACTS) == NAMES
    text = CliRunner().invoke(experiments, ["--help"], env={"COLUMNS": "200"}).output
    assert all(name in text for name in (*NAMES, *ENGINES))


def test_an_answer_is_indented_for_people_only(monkeypatch):
    screen, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    streams.answer({"a": ["ü"]})
    monkeypatch.setattr(sys, "stdout", screen)
    streams.answer({"a": ["ü"]})
    assert pipe.getvalue() == '{"a": ["\\u00fc"]}\n'
    assert screen.getvalue() == '{\n  "a": [\n    "\\u00fc"\n  ]\n}\n'


def test_an_answer_that_json_cannot_hold_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="JSON"):
        streams.answer({"a": float("inf")})


def test_lines_end_where_json_lines_do(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_bytes('"one\u2028line"\r\n\n"two"\n'.encode())
    assert streams.read_lines(str(file)) == ["one\u2028line", "two"]


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    for stream, shows in ((Terminal(), True), (io.StringIO(), False), (None, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with streams.progress_bar("events") as report:
            assert (report is not None) == shows
            if report is not None:
                report(100, 200)
        if stream is not None:
            assert ("100/200" in stream.getvalue()) == shows
    assert sys.stdout.getvalue() == ""


def test_standard_input_may_be_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="standard input is closed"):
        streams.read_text("-")


def test_what_the_system_refuses_is_storage(monkeypatch):
    def refuse(_):
        raise PermissionError(errno.EACCES, "Permission denied", "campaign.db")

    monkeypatch.setattr(module.Campaign, "open", refuse)
    ended = campaign("status", "campaign.db")
    assert (ended.code, ended.error) == (5, "storage")
    assert "Permission denied: 'campaign.db'" in ended.message


def test_a_reader_that_has_gone_is_told_nothing(monkeypatch):
    def gone(_):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(module.Campaign, "open", gone)
    ended = CliRunner().invoke(app, ["campaign", "status", "campaign.db"])
    assert ended.exit_code == 1
    assert ended.output == ""


def test_libraries_say_nothing_on_standard_error(capfd):
    """What psycopg logs about a lost connection and matplotlib about its fonts is no answer of ours."""
    import logging
    import warnings

    from safe2real.cli import io as exits

    hook = sys.excepthook
    with warnings.catch_warnings():
        try:
            exits.keep_to_one_line()
            for name in ("psycopg", "psycopg.pool", "matplotlib.font_manager", "sqlalchemy.pool"):
                logging.getLogger(name).warning("something went on")
            warnings.warn("something else", RuntimeWarning, stacklevel=1)
        finally:
            sys.excepthook = hook
    assert capfd.readouterr().err == ""


def test_a_filter_that_a_library_adds_shows_no_warning():
    script = (
        "import warnings; from safe2real.cli.io import keep_to_one_line; keep_to_one_line();"
        "warnings.filterwarnings('once', '', DeprecationWarning); warnings.warn('old', DeprecationWarning)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


def test_what_needs_more_memory_than_there_is_is_one_line(monkeypatch):
    def needs(_):
        raise MemoryError("Unable to allocate 9 EiB")

    monkeypatch.setattr(module.Campaign, "open", needs)
    ended = campaign("status", "campaign.db")
    assert (ended.code, ended.error) == (2, "invalid-input")
    assert "needs more memory than there is" in ended.message
