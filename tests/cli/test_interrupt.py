"""Ctrl-C ends a command with one line of JSON, at whatever moment it comes; a server ends without a word."""

import asyncio
import json
import signal
import subprocess
import sys
import time

import pytest
import uvicorn

from safe2real.service.server import AnnouncedServer
from tests.preflight.specs import REAL, TOML, write
from tests.service.browser import Command

PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job would ignore
from safe2real.cli import main
sys.argv = ["safe2real", *sys.argv[1:]]
print("ready", flush=True)
main()
"""


@pytest.mark.parametrize("seconds", [0.0, 0.3, 3.0])
def test_an_interrupt_is_one_line_whenever_it_comes(tmp_path, seconds):
    """At once, among the imports, and in the rehearsals, which with this gap never come to a stop."""
    spec = write(tmp_path, TOML.replace("calibrated_gap = 0.0", "calibrated_gap = 0.1") + REAL)
    command = ["check", str(spec), "--max-rounds", "1000000000", "--seconds", "300"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "ready\n"
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        said, error = running.communicate(timeout=60)
    assert running.returncode == 130, error
    assert said == ""
    (line,) = error.splitlines()
    assert json.loads(line)["error"] == "interrupted"


def test_a_server_ends_at_an_interrupt(tmp_path):
    server = Command(tmp_path, "--no-auth")
    server.end(signal.SIGINT)
    assert server.code == 0
    assert len(server.said.splitlines()) == 1  # where it served


@pytest.mark.parametrize("started", [True, False])
def test_a_server_is_announced_after_its_start_and_never_without_one(monkeypatch, capsys, started):
    """An interrupt between the announcement and uvicorn's handlers hung the server."""

    async def start(server, sockets=None):
        assert capsys.readouterr().out == ""
        server.started = started

    monkeypatch.setattr(uvicorn.Server, "startup", start)
    server = AnnouncedServer(uvicorn.Config("none:app"), "here")
    server.started = False
    asyncio.run(server.startup())
    assert capsys.readouterr().out == ("here\n" if started else "")
