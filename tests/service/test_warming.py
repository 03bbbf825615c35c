"""What is compiled before the first request is all that requests need."""

import json
import subprocess
import sys

from safe2real._compiled.cache import SourceCache
from safe2real.service.server import warm
from tests.service.servers import API, serving


def test_a_request_compiles_nothing_that_was_not_warm(tmp_path, monkeypatch):
    warm()
    compiled = []
    monkeypatch.setattr(SourceCache, "save_overload", lambda self, *_: compiled.append(self._function.__name__))
    with serving(tmp_path) as client:
        for _ in range(3):
            client.tell(client.ask().json()["deployments"][0])
        for path in ("/status?forecast=true", "/map", "/course", "/proposal"):
            assert client.by("auditor", "GET", f"{API}/arm{path}").status_code == 200
        assert client.by("auditor", "POST", f"{API}/arm/plan", json={"reward": [[0, 1], [0, 0], [0, 0]]}).status_code == 200
    assert compiled == []


def test_the_command():
    done = subprocess.run([sys.executable, "-m", "safe2real.cli", "serve", "warm"], capture_output=True, check=True)
    assert json.loads(done.stdout) == {"warm": True}
