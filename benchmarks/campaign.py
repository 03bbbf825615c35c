"""A campaign with a million recorded samples: how long until the first answer, and what a durable write costs.

The peer of `tell` is one bare INSERT of the same text through Python's sqlite3 into a table of its own, in WAL mode with
synchronous = FULL, in the same folder, taking turns with ours: the least that any durable record can cost on this disk. The
record is written by the campaign's own code; only the syncs of its million samples are saved, by writing them in few
transactions.

Run with `python -m benchmarks.campaign`.
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
from safe2real import CMDP, Campaign, LiteralRadius, MarkovPolicy, Settings, Specification
from safe2real.campaign.events import TELL, Draft
from safe2real.envs import WindyGrid
from safe2real.explore import roll_out

SAMPLES = 1_000_000
FLEET = 8  # deployments of one proposal while the record is written
TELLS = 300

FIRST_ASK = """
import time
began = time.perf_counter()
from safe2real import Campaign
imported = time.perf_counter()
campaign = Campaign.open({path!r})
campaign.ask(worker="first")
print(imported - began, time.perf_counter() - imported)
"""


def specification_of(grid: WindyGrid) -> Specification:
    """The paper's grid with literal constants: certified, and far from its stop after a million samples."""
    model = grid.cmdp(grid.simulator(), threshold=10.71)
    baseline = MarkovPolicy.uniform(horizon=model.horizon, num_states=model.num_states, num_actions=model.num_actions)
    settings = Settings.paper(
        margin=0.306, calibrated_gap=0.0, mismatch_gap=0.68, tolerance=0.306 / 4, seed=1, radius=LiteralRadius()
    )
    return Specification(model, baseline, settings)


def fill(campaign: Campaign, real: CMDP, samples: int) -> int:
    """Record episodes of proposals of the campaign's own, several thousand in one transaction; returns how many."""
    replay, storage, done = campaign._replay, campaign._storage, 0
    while replay.samples < samples:
        with storage.writing() as transaction:
            campaign._catch_up(transaction)
            for _ in range(500):
                asked = campaign._record(transaction, replay.learner.propose(), "filler", FLEET)
                for event in asked:
                    replay.apply(event)
                policies = [
                    campaign._deployment(held, _stored(campaign, transaction, held)) for held in replay.held.values()
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
    return {digest: campaign._load(transaction, digest) for digest in digests}  # type: ignore[arg-type]


def main(samples: int = SAMPLES) -> None:
    grid = WindyGrid.paper()
    specification = specification_of(grid)
    real = specification.simulator.with_kernel(grid.real())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "campaign.db"
        began = time.perf_counter()
        with Campaign.create(path, specification) as campaign:
            episodes = fill(campaign, real, samples)
            recorded = campaign.status(forecast=False).samples
        print(f"{episodes:,} episodes, {recorded:,} samples recorded in {time.perf_counter() - began:.0f} s; "
              f"{path.stat().st_size / 2**20:.0f} MiB")  # fmt: skip

        starts = []
        for _ in range(3):
            output = subprocess.run(
                [sys.executable, "-c", FIRST_ASK.format(path=str(path))], capture_output=True, text=True, check=True
            )
            starts.append([float(part) for part in output.stdout.split()])
        imports, first = (statistics.median(column) for column in zip(*starts, strict=True))

        with Campaign.open(path) as campaign:
            (waiting,) = campaign.ask(worker="first")
            campaign.tell(waiting.id, roll_out(real, waiting.policy, seed=7, round_number=waiting.number))
            bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
            bare.execute("PRAGMA journal_mode = WAL")
            bare.execute("PRAGMA synchronous = FULL")
            bare.execute("CREATE TABLE record (body TEXT)")
            asks, tells, inserts = [], [], []
            for _ in range(TELLS):
                began = time.perf_counter()
                (deployment,) = campaign.ask(worker="bench")
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
                ("import safe2real before that", f"{imports:.2f} s", ""),
            ],
        )
        print(Target("open and first ask", "< 5 s", f"{first:.2f} s", first < 5.0))
        print(Target("tell, durable, median", "< 5 ms", f"{1e3 * tell:.2f} ms = {tell / insert:.1f} inserts", tell < 5e-3))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)
