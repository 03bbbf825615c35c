"""A page of the service in a browser, and a fleet of workers that speak HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.campaign import Campaign
from safe2real.service.campaign_pool import Service
from safe2real.service.storage import places_at
from tests.campaign.systems import ROOT, System, three_states
from tests.service.servers import listening

AXE = (ROOT / "tests/assets/axe/axe.min.js").read_text("utf-8")
# When each event came into the page, by its number. The script runs before those of the page.
NOTE_ARRIVALS = """
window.arrivals = {};
new MutationObserver(() => {
  for (const row of document.querySelectorAll("tr[data-sequence]")) window.arrivals[row.dataset.sequence] ??= Date.now();
}).observe(document, { childList: true, subtree: true });
"""


@dataclass
class Site:
    """A service with a campaign "arm", and what a page said and asked for."""

    url: str
    service: Service
    system: System
    addresses: list[str] = field(default_factory=list)  # of all requests
    mistakes: list[str] = field(default_factory=list)  # of its scripts
    opened: list[Any] = field(default_factory=list)  # profiles of the browser

    def token(self, name: str, role: str) -> str:
        assert self.service.tokens is not None
        return self.service.tokens.add(name, role)

    def open(self, browser: Any, path: str = "/campaigns/arm", *, token: str | None = None, **look: Any) -> Any:
        """A page in a profile of its own; with a token, as somebody who has typed it in."""
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **look})
        context.set_default_timeout(15_000)
        self.opened.append(context)
        page = context.new_page()
        page.add_init_script(NOTE_ARRIVALS)
        page.on("request", lambda request: self.addresses.append(request.url))
        page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        page.on("console", lambda said: self.mistakes.append(said.text) if "Content Security" in said.text else None)
        page.on("dialog", lambda dialog: self.mistakes.append(f"a dialogue: {dialog.message}"))
        page.goto(self.url + path)
        if token is not None:
            page.fill("#token", token)
            page.click("#token-form button")
        return page

    def call(self, token: str, method: str, path: str, body: Any = None) -> Any:
        """A request of a worker."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/campaigns/arm{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def ask(self, token: str) -> Any:
        return self.call(token, "POST", "/ask", {})["deployments"][0]

    def tell(self, token: str, deployment: Any, **more: Any) -> Any:
        episode = episode_of(self.system, deployment)
        return self.call(token, "POST", f"/deployments/{deployment['id']}/tell", {**episode, **more})

    def fall_off(self, token: str) -> None:
        """An episode whose first action leads where the model has no state: the model is refuted."""
        deployment = self.ask(token)
        episode = {"states": [0], "actions": [deployment["policy"]["actions"][0][0]], "left_model": True}
        self.call(token, "POST", f"/deployments/{deployment['id']}/tell", episode)


@contextmanager
def site(folder: Path, *, auth: bool = True, system: System | None = None, **terms: Any) -> Iterator[Site]:
    """A running service; `terms` are those of `Campaign.create`."""
    system = system or three_states()
    Campaign.create(folder / "arm.db", system.specification, **terms).close()
    service = Service(places_at(str(folder)), auth=auth)
    with listening(service) as url:
        found = Site(url, service, system)
        yield found
        for context in found.opened:  # a server waits for those who watch
            context.close()


class Command:
    """`safe2real serve` as users start it, to be started again on the same port."""

    def __init__(self, place: Path, *arguments: str) -> None:
        self._arguments, self._port = [str(place), *arguments], "0"
        self.said = ""  # all that it wrote, when it has ended
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "safe2real.cli", "serve", *self._arguments, "--port", self._port]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.said += line
        self.url = json.loads(line)["url"]
        self._port = self.url.rpartition(":")[2]

    def end(self, how: int = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self.said += self._process.communicate(timeout=30)[0]
        self.code = self._process.returncode


def episode_of(system: System, deployment: Any) -> dict[str, list[int]]:
    """What happens on the real machine."""
    kernel, start = system.real.kernel.to_dense(), int(system.real.start.argmax())
    draws, states, actions = np.random.default_rng(deployment["number"]), [start], []
    for step in deployment["policy"]["actions"]:
        actions.append(step[states[-1]])
        states.append(int(draws.choice(len(step), p=kernel[states[-1], actions[-1]])))
    return {"states": states, "actions": actions}


def told(page: Any, text: str) -> None:
    """Wait until the page says so."""
    page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)


def findings(page: Any) -> list[str]:
    """What axe-core finds wrong for people with screen readers, keyboards or weak eyes."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]
