"""A campaign with a million recorded samples: how long until the first answer, what a durable write and a check cost.

The peer of `tell` is one bare INSERT of the same text through Python's sqlite3 into a table of its own, in WAL mode with
synchronous = FULL, in the same folder, taking turns with ours: the least that any durable record can cost on this disk. The
record is written by the campaign's own code; only the syncs of its million samples are saved, by writing them in few
transactions.

Run with `python -m benchmarks.campaign [samples] [--postgresql]`; the second is with a server of its own.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Target, print_table, seconds
from safe2real import CMDP, Campaign, MarkovPolicy, Problem, Settings, radii
from safe2real.campaign.events import TELL, Draft
from safe2real.campaign.handing_out import deployment_of, record_asks
from safe2real.exploration import roll_out
from safe2real.systems import WindyGrid
from torture.servers import Server, running_server

SAMPLES = 1_000_000
FLEET = 8  # deployments of one proposal while the record is written
TELLS = 300

FIRST_ASK = """
import time
began = time.perf_counter()
from safe2real import Campaign
imported = time.perf_counter()
campaign = Campaign.open({place!r})
campaign.ask(worker="first")
print(imported - began, time.perf_counter() - imported)
"""


def specification_of(grid: WindyGrid) -> Problem:
    """The paper's grid with literal constants: certified, and far from its stop after a million samples."""
    model = grid.cmdp(grid.simulator(), threshold=10.71)
    baseline = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
    settings = Settings.paper(
        margin=0.306, calibrated_gap=0.0, mismatch_gap=0.68, tolerance=0.306 / 4, seed=1, radius=radii.Literal()
    )
    return Problem(model, baseline, settings)


def fill(campaign: Campaign, real: CMDP, samples: int) -> int:
    """Record episodes of proposals of the campaign's own, several thousand in one transaction; returns how many."""
    replay, storage, done = campaign._record.replay, campaign.journal, 0
    while replay.samples < samples:
        with storage.writing() as transaction:
            campaign._record.catch_up(transaction)
            for _ in range(500):
                asked = record_asks(campaign._record, transaction, replay.learner.propose(), "filler", FLEET)
                for event in asked:
                    replay.apply(event)
                policies = [
                    deployment_of(campaign._record, held, _stored(campaign, transaction, held))
                    for held in replay.held.values()
                ]
                episodes = [roll_out(real, one.policy, seed=7, round_number=one.number) for one in policies]
                drafts = [
                    Draft(TELL, {"states": episode.states.tolist(), "actions": episode.actions.tolist()}, one.number)
                    for one, episode in zip(policies, episodes, strict=True)
                ]
                for event in transaction.append(drafts):
                    replay.apply(event)
                done += len(drafts)
    return done


def _stored(campaign: Campaign, transaction: object, held: object) -> dict[str, MarkovPolicy]:
    digests = json.loads(held.event.body)["policies"]  # type: ignore[attr-defined]
    return {digest: campaign._record.policy(transaction, digest) for digest in digests}  # type: ignore[arg-type]


def main(samples: int = SAMPLES, server: Server | None = None) -> None:
    grid = WindyGrid.paper()
    specification = specification_of(grid)
    real = specification.simulator.with_kernel(grid.real())
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "campaign.db") if server is None else server.new_place()
        began = time.perf_counter()
        with Campaign.create(place, specification) as campaign:
            episodes = fill(campaign, real, samples)
            recorded = campaign.status(forecast=False).samples
        kept = "SQLite" if server is None else "PostgreSQL"
        print(f"{episodes:,} episodes, {recorded:,} samples recorded in {time.perf_counter() - began:.0f} s, {kept}")

        # The first process reads every event and leaves a snapshot, with which the others begin.
        (_, whole), *starts = [first_ask(place) for _ in range(4)]
        imports, first = (statistics.median(column) for column in zip(*starts, strict=True))

        with Campaign.open(place) as campaign:
            began = time.perf_counter()
            holds = campaign.verify().holds
            verified = time.perf_counter() - began
            waiting = campaign.ask(worker="first")
            campaign.tell(waiting.id, roll_out(real, waiting.policy, seed=7, round_number=waiting.number))
            bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
            bare.execute("PRAGMA journal_mode = WAL")
            bare.execute("PRAGMA synchronous = FULL")
            bare.execute("CREATE TABLE record (body TEXT)")
            asks, tells, inserts = [], [], []
            for _ in range(TELLS):
                began = time.perf_counter()
                deployment = campaign.ask(worker="bench")
                asks.append(time.perf_counter() - began)
                episode = roll_out(real, deployment.policy, seed=7, round_number=deployment.number)
                tells.append(seconds(lambda: campaign.tell(deployment.id, episode)))  # noqa: B023
                body = json.dumps({"states": episode.states.tolist(), "actions": episode.actions.tolist()})
                inserts.append(seconds(lambda: bare.execute("INSERT INTO record VALUES (?)", (body,))))  # noqa: B023
            bare.close()
        tell, ask, insert = (statistics.median(times) for times in (tells, asks, inserts))
        print_table(
            f"a campaign of {recorded:,} samples, medians",
            ("", "time", "in bare durable inserts"),
            [
                ("tell", f"{1e3 * tell:.2f} ms", f"{tell / insert:.1f}"),
                ("ask (replans)", f"{1e3 * ask:.2f} ms", f"{ask / insert:.1f}"),
                ("one bare insert, synced", f"{1e3 * insert:.2f} ms", "1"),
                ("open and first ask", f"{first:.2f} s", ""),
                ("the same without a snapshot", f"{whole:.2f} s", ""),
                (f"verify ({'holds' if holds else 'DOES NOT HOLD'})", f"{verified:.1f} s", ""),
                ("import safe2real before that", f"{imports:.2f} s", ""),
            ],
        )
        print(Target("open and first ask", "< 1.5 s", f"{first:.2f} s", first < 1.5))
        print(Target("verify, two million samples", "< 60 s", f"{verified:.1f} s", verified < 60.0))
        print(Target("tell, durable, median", "< 5 ms", f"{1e3 * tell:.2f} ms = {tell / insert:.1f} inserts", tell < 5e-3))


def first_ask(place: str) -> list[float]:
    """Seconds of a new process: until the package is imported, and from there to its first answer."""
    command = [sys.executable, "-c", FIRST_ASK.format(place=place)]
    return [float(part) for part in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


if __name__ == "__main__":
    wanted = next((int(argument) for argument in sys.argv[1:] if argument.isdigit()), SAMPLES)
    if "--postgresql" in sys.argv:
        with running_server() as running:
            main(wanted, running)
    else:
        main(wanted)
