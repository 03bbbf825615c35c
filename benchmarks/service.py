"""What HTTP costs: ask and tell by a fleet through the service, beside the same calls in one process, in the same run.

Every worker is a thread with a connection of its own; the server is a process of its own. The figures in process are of one
`Campaign` object, which takes turns with one worker and with all of them through HTTP, on the same disk or the same
PostgreSQL server.

Run with `python -m benchmarks.service [seconds] [--postgresql] [--workers N]`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from benchmarks.campaign import specification_of
from benchmarks.report import Target, print_table
from safe2real import CMDP, Campaign
from safe2real.client import RemoteCampaign
from safe2real.exploration import roll_out
from safe2real.service.storage import places_at
from safe2real.service.tokens import Tokens
from safe2real.systems import WindyGrid
from torture.servers import Server, running_server

SECONDS, WORKERS, TURNS = 30.0, 8, 10  # seconds of each of the three
START = "from safe2real.cli import app; app()"


@dataclass
class Times:
    """Seconds of every ask and every tell."""

    asks: list[float] = field(default_factory=list)
    tells: list[float] = field(default_factory=list)

    def rows(self, name: str, seconds: float) -> list[tuple[str, ...]]:
        """Lines of the table."""
        lines: list[tuple[str, ...]] = []
        for kind, times in (("ask", self.asks), ("tell", self.tells)):
            middle, high = 1e3 * np.percentile(times, [50, 99])
            lines.append((f"{kind}, {name}", f"{middle:.2f} ms", f"{high:.2f} ms", f"{len(times) / seconds:.0f}"))
        return lines

    @property
    def cost(self) -> float:
        """Seconds of one ask and one tell, medians."""
        return float(np.median(self.asks) + np.median(self.tells))


def drive(campaign: Campaign | RemoteCampaign, real: CMDP, worker: str, until: float, times: Times) -> None:
    """Ask and tell until a moment."""
    while time.perf_counter() < until:
        began = time.perf_counter()
        deployment = campaign.ask(worker=worker)
        asked = time.perf_counter()
        episode = roll_out(real, deployment.policy, seed=7, round_number=deployment.number)
        ran = time.perf_counter()
        campaign.tell(deployment.id, episode)
        times.asks.append(asked - began)
        times.tells.append(time.perf_counter() - ran)


def main(seconds: float, workers: int, server: Server | None) -> None:
    grid = WindyGrid.paper()
    problem = specification_of(grid)
    real = problem.simulator.with_kernel(grid.real())
    with tempfile.TemporaryDirectory() as folder:
        place = folder if server is None else server.url(server.new_database())
        places = places_at(place)
        tokens = Tokens(places)
        names = [f"cell-{number}" for number in range(workers)]
        shown = {name: tokens.add(name, "worker") for name in names}
        operator = tokens.add("operator", "operator")
        command = [sys.executable, "-c", START, "serve", place, "--port", "0"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert running.stdout is not None
            url = running.stdout.readline().split('"url": "')[1].split('"')[0]
            for name in ("inside", "alone", "fleet"):
                RemoteCampaign.create(f"{url}/campaigns/{name}", problem, operator).close()
            inside, alone, fleet = Times(), Times(), Times()
            with (
                Campaign.open(places.place_of("inside")) as here,
                RemoteCampaign(f"{url}/campaigns/alone", shown[names[0]]) as there,
            ):
                for campaign in (here, there):  # what is compiled or loaded once is not measured
                    drive(campaign, real, names[0], time.perf_counter() + 3.0, Times())
                for _ in range(TURNS):  # they take turns: the machine may have others
                    drive(here, real, names[0], time.perf_counter() + seconds / TURNS, inside)
                    drive(there, real, names[0], time.perf_counter() + seconds / TURNS, alone)
                    _together(url, shown, real, seconds / TURNS, fleet)
            with Campaign.open(places.place_of("fleet")) as campaign:
                holds = campaign.verify().holds
                told = campaign.status(forecast=False).told
        finally:
            running.terminate()
            running.wait(30)
    kept = "SQLite" if server is None else "PostgreSQL"
    print_table(
        f"ask and tell on {kept}: in process, one worker by HTTP, {workers} workers by HTTP",
        ("", "p50", "p99", "per second"),
        [
            *inside.rows("in process", seconds),
            *alone.rows("HTTP, one worker", seconds),
            *fleet.rows(f"HTTP, {workers} workers", seconds),
        ],
    )
    requests = (len(fleet.asks) + len(fleet.tells)) / seconds
    print(f"{requests:.0f} requests per second; {told} episodes told; verify {'holds' if holds else 'DOES NOT HOLD'}")
    ratio = alone.cost / inside.cost
    print(Target("ask and tell by HTTP, in costs in process", "<= 3", f"{ratio:.2f}", ratio <= 3.0))
    shared = len(inside.asks) / len(fleet.asks)
    print(Target(f"the same in pairs done per second, {workers} workers together", "<= 3", f"{shared:.2f}", shared <= 3.0))


def _together(url: str, shown: dict[str, str], real: CMDP, seconds: float, into: Times) -> None:
    """All workers at the same time, each in a thread; a thread's times are its own until the end."""
    campaigns = {name: RemoteCampaign(f"{url}/campaigns/fleet", token) for name, token in shown.items()}
    own, until = {name: Times() for name in shown}, time.perf_counter() + seconds
    threads = [threading.Thread(target=drive, args=(campaigns[name], real, name, until, own[name])) for name in shown]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, campaign in campaigns.items():
        campaign.close()
        into.asks += own[name].asks
        into.tells += own[name].tells


if __name__ == "__main__":
    wanted = next((float(one) for one in sys.argv[1:] if one.replace(".", "").isdigit()), SECONDS)
    several = int(sys.argv[sys.argv.index("--workers") + 1]) if "--workers" in sys.argv else WORKERS
    if "--postgresql" in sys.argv:
        with running_server() as started:
            main(wanted, several, started)
    else:
        main(wanted, several, None)
