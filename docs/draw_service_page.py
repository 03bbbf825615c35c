"""Pictures of docs/service-page.md: `python docs/draw_service_page.py [FOLDER]`, docs/img if none is given.

Two campaigns on the paper's grid are recorded, one certified with two deployments out, one refuted; `safe2real serve` shows
their pages to Debian's Chromium.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import safe2real as s2r
from safe2real.exploration import roll_out
from safe2real.preflight.spec_file import read_spec_file

GRID = Path(__file__).resolve().parent.parent / "examples" / "specs" / "windy_grid.toml"
EPISODES, REFUTED_AFTER = 3_000, 1_000


def record(place: Path, *, episodes: int) -> None:
    """Record a campaign on the grid with two deployments out, whose lease of a minute passes."""
    said = read_spec_file(GRID)
    assert said.reality is not None
    real = said.problem.simulator.with_kernel(said.reality)
    with s2r.Campaign.create(place, said.problem, lease=60.0) as campaign:
        for number in range(1, episodes + 1):
            deployment = campaign.ask(worker="cell-0")
            campaign.tell(deployment.id, roll_out(real, deployment.policy, seed=1, round_number=number))
        for worker in ("cell-1", "cell-2"):
            campaign.ask(worker=worker)


def refute(place: Path) -> None:
    """Tell an episode that leads where the model has no state."""
    with s2r.Campaign.open(place) as campaign:
        deployment = campaign.ask(worker="cell-0")
        policy = deployment.policy.probabilities
        start = int(campaign.problem.simulator.start.argmax())
        campaign.tell(deployment.id, ([start], [int(policy[0, start].argmax())]), left_model=True)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run `safe2real serve` on the campaigns of a folder, and give its address."""
    command = [sys.executable, "-m", "safe2real.cli", "serve", str(folder), "--port", "0", "--no-auth"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    try:
        (url,) = next(found for line in server.stdout if (found := re.findall(r"http://[\d.]+:\d+", line)))
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


def draw(browser: Browser, url: str, standing: str, path: Path, **look: object) -> None:
    """Keep a picture of what a page shows first, once it is live and has its standing."""
    page = browser.new_page(**look)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_selector(f"body[data-standing={standing}][data-live=true]")
    page.wait_for_timeout(3_000)  # curves are drawn after the banner
    page.screenshot(path=path)
    page.close()


def main(folder: Path) -> None:
    """Record, serve and draw both pages."""
    with tempfile.TemporaryDirectory() as kept:
        record(Path(kept) / "cell-3.db", episodes=EPISODES)
        record(Path(kept) / "arm.db", episodes=REFUTED_AFTER)
        refute(Path(kept) / "arm.db")
        with served(Path(kept)) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            wide = {"viewport": {"width": 1100, "height": 1350}, "color_scheme": "light"}
            narrow = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1.5, "color_scheme": "dark"}
            draw(browser, f"{url}/campaigns/cell-3", "certified", folder / "service-page.png", **wide)
            draw(browser, f"{url}/campaigns/arm", "refuted", folder / "service-page-refuted.png", **narrow)
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img").resolve())
