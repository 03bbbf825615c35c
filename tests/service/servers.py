"""A service to be asked: in this process, in a thread with a port of its own, or as users start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from starlette.testclient import TestClient

from safe2real.methods.document import document_of
from safe2real.methods.sim_to_real import SimToReal
from safe2real.service.application import make_app
from safe2real.service.campaign_pool import Limits, Service
from safe2real.service.server import configured, listener_at
from safe2real.service.storage import places_at
from tests.campaign.systems import ROOT, System, three_states

API = "/api/v1/campaigns"
ROLES = ("worker", "operator", "auditor")


class Asking:
    """Requests to a service as somebody."""

    tokens: dict[str, str]
    service: Service
    request: Any

    def by(self, name: str, method: str, path: str, **how: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[name]}", **how.pop("headers", {})}
        return self.request(method, path, headers=headers, **how)

    def ask(self, name: str = "worker", **body: Any) -> Any:
        return self.by(name, "POST", f"{API}/arm/ask", json=body)

    def tell(self, deployment: Any, name: str = "worker", **more: Any) -> Any:
        return self.by(
            name, "POST", f"{API}/arm/deployments/{deployment['id']}/tell", json={**episode_of(deployment), **more}
        )


class Client(Asking, TestClient):
    """To a service in this process, without a network."""


class Wire(Asking, httpx2.Client):
    """To a service that listens, through a socket."""


@contextmanager
def reached(place: Path) -> Iterator[Wire]:
    """The same as `serving`, through a socket."""
    service = Service(places_at(str(place)))
    with listening(service) as url, Wire(base_url=url, timeout=30.0) as client:
        client.service = service
        assert service.tokens is not None
        client.tokens = {role: service.tokens.add(role, role) for role in ROLES}
        made = client.by("operator", "POST", API, json={"name": "arm", "problem": problem_document(three_states())})
        assert made.status_code == 201, made.text
        yield client


@contextmanager
def serving(
    place: Path | str, *, auth: bool = True, limits: Limits | None = None, system: System | None = None
) -> Iterator[Client]:
    """A service with one campaign, "arm", and one token for each role, named after it."""
    service = Service(places_at(str(place)), auth=auth, limits=limits)
    with Client(make_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.service = service
        client.tokens = {} if service.tokens is None else {role: service.tokens.add(role, role) for role in ROLES}
        body = {"name": "arm", "problem": problem_document(system or three_states())}
        make = client.post(API, json=body) if not auth else client.by("operator", "POST", API, json=body)
        assert make.status_code == 201, make.text
        yield client


def problem_document(system: System) -> Any:
    return document_of(system.specification, SimToReal())


def episode_of(deployment: Any, state: int = 0) -> dict[str, Any]:
    """An episode of the three states that stays where it began, by the policy that was handed out."""
    actions = [step[state] for step in deployment["policy"]["actions"]]
    return {"states": [state] * (len(actions) + 1), "actions": actions}


def put_back(place: Path, copy: Path) -> None:
    """Restore a record from a copy, as an operator does who forgets nothing of SQLite's."""
    for ending in ("-wal", "-shm"):
        place.with_name(place.name + ending).unlink(missing_ok=True)
    copy.replace(place)


@contextmanager
def listening(service: Service, trusted_proxy: str | None = None) -> Iterator[str]:
    """The service on a port of its own, in a thread; its URL."""
    with listener_at("127.0.0.1", 0) as listener:
        server = uvicorn.Server(configured(make_app(service), trusted_proxy))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)


class Processes:
    """Where servers come from: a process that forks them (see `zygote`). `said` is all that any of them ever wrote."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the processes)
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.service.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            cwd=ROOT,
            text=True,
        )
        self._lines: list[str] = []

    def start(self, place: str, port: int = 0) -> Process:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps([place, port]) + "\n")
        self._zygote.stdin.flush()
        pid, line = self._zygote.stdout.readline(), self._zygote.stdout.readline()
        self._lines.append(line)
        return Process(self, place, int(pid), json.loads(line)["url"])

    @property
    def said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode() + "".join(self._lines)

    def close(self) -> None:
        assert self._zygote.stdin is not None
        self._zygote.stdin.close()
        self._zygote.wait(30)
        self._errors.close()


@dataclass
class Process:
    """A server of its own process, to be killed and started again on the same port."""

    origin: Processes
    place: str
    pid: int
    url: str

    def kill(self, how: int = signal.SIGKILL) -> None:
        """As a power cut, where not otherwise said."""
        os.kill(self.pid, how)
        with suppress(ProcessLookupError):
            while True:
                os.kill(self.pid, 0)
                time.sleep(0.005)

    def start(self) -> None:
        """Again, at the same address."""
        self.pid = self.origin.start(self.place, int(self.url.rpartition(":")[2])).pid
