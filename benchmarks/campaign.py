"""A campaign with a million recorded samples: how long until the first answer, what a durable write and a check cost.

The peer of `tell` is one bare INSERT of the same text through Python's sqlite3 into a table of its own, in WAL mode with
synchronous = FULL, in the same folder, taking turns with ours: the least that any durable record can cost on this disk. The
record is written by the campaign's own code; only the syncs of its million samples are saved, by writing them in few
transactions.

Run with `python -m benchmarks.campaign [samples] [--postgresql]`; the second is with a server of its own. With `--opening
STATES EPISODES` it opens a campaign of so many episodes, by its events and from a snapshot: of the paper's grid where
STATES is 25, else of a random system with 4 actions and 5 successors in every row; then what was carried over from it.
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

import numpy as np

from benchmarks.instances import Size, random_kernel
from benchmarks.report import Target, print_table, seconds
from safe2real import CMDP, AtLeast, Campaign, MarkovPolicy, Problem, Settings, radii
from safe2real.campaign import carry_over
from safe2real.campaign.ask import deployment_of, record_asks
from safe2real.campaign.events import TELL, Draft
from safe2real.exploration import roll_out
from safe2real.planning import constraint_values
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


def fill(campaign: Campaign, real: CMDP, samples: int, *, fleet: int = FLEET, proposals: int = 500) -> int:
    """Record episodes of proposals of the campaign's own, several thousand in one transaction; returns how many."""
    replay, storage, done = campaign._record.replay, campaign.journal, 0
    while replay.samples < samples:
        with storage.writing() as transaction:
            campaign._record.catch_up(transaction)
            for _ in range(proposals):
                asked, _ = record_asks(campaign._record, transaction, replay.learner.propose(), "filler", fleet)
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


OPENING = """
import time
from safe2real import Campaign
began, used = time.perf_counter(), time.process_time()
campaign = Campaign.open({place!r})
events = campaign.status(forecast=False).events
print(time.perf_counter() - began, time.process_time() - used, campaign._record.covered / events)
"""


def large_problem(states: int, horizon: int = 20) -> Problem:
    """A random system that is its own simulator, with a baseline of one action and literal constants."""
    rng = np.random.default_rng(1)
    kernel = random_kernel(rng, Size(states, 4, horizon))
    utility = np.maximum(rng.random((states, 4)), [0.6, 0.0, 0.0, 0.0])
    baseline = MarkovPolicy.deterministic(np.zeros((horizon, states), dtype=np.int64), num_actions=4)
    start = np.repeat([0.1, 0.0], [10, states - 10])
    free = CMDP.of(kernel, horizon, start, AtLeast(utility, 0.0))
    model = free.with_thresholds(constraint_values(free, baseline) - 2.0)
    return Problem(model, baseline, Settings(margin=1.9, calibrated_gap=0.0, mismatch_gap=0.6, tolerance=0.4, seed=1))


def opening(states: int, episodes: int) -> None:
    """Print how long a new process takes until the first status, by all events and from a snapshot."""
    grid = WindyGrid.paper()
    problem = specification_of(grid) if states == grid.num_states else large_problem(states)
    real = problem.simulator.with_kernel(grid.real()) if states == grid.num_states else problem.simulator
    rows, lines = states * 4, []
    with tempfile.TemporaryDirectory() as folder:
        told, carried = (str(Path(folder) / name) for name in ("told.db", "carried.db"))
        with Campaign.create(told, problem) as campaign:
            fill(campaign, real, episodes * problem.simulator.horizon, fleet=250, proposals=1)
        lines.append(("told, all events read", *opened(told)))
        with Campaign.open(told) as campaign, Campaign.create(carried, problem) as other:
            campaign.ask(worker="first")  # which leaves a snapshot
            carry_over(other, campaign)
        lines += [("told, from a snapshot", *opened(told)), ("carried over, from a snapshot", *opened(carried))]
        with sqlite3.connect(carried) as connection:
            connection.execute("DELETE FROM safe2real_snapshot")
        lines.append(("carried over, all events read", *opened(carried)))
    title = f"{episodes:,} episodes on {rows:,} rows: open and first status"
    print_table(title, ("", "seconds", "of a core", "in the snapshot"), lines)


def opened(place: str) -> tuple[str, str, str]:
    """(seconds, seconds of a core, share of the events that were in a snapshot), of a new process."""
    command = [sys.executable, "-c", OPENING.format(place=place)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return f"{float(found[0]):.1f}", f"{float(found[1]):.1f}", f"{float(found[2]):.0%}"


if __name__ == "__main__":
    if "--opening" in sys.argv:
        opening(*map(int, sys.argv[2:4]))
        sys.exit()
    wanted = next((int(argument) for argument in sys.argv[1:] if argument.isdigit()), SAMPLES)
    if "--postgresql" in sys.argv:
        with running_server() as running:
            main(wanted, running)
    else:
        main(wanted)
