"""What the tests of durability share: two systems with a "real machine" each, and processes to ask and tell in."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import safe2real as s2r
from safe2real import radii
from safe2real.campaign import Campaign, Deployment
from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import BEFORE_THE_FIRST, Event
from safe2real.exploration import roll_out
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems import WindyGrid

ROOT = Path(__file__).resolve().parents[2]
SEED = 11  # of reality


@dataclass(frozen=True)
class System:
    """What a campaign is about, and the machine it would run on."""

    specification: Problem
    real: s2r.CMDP

    def episode(self, deployment: Deployment) -> s2r.Trajectory:
        """What happens on the real machine: a function of the deployment's number and policy alone."""
        return roll_out(self.real, deployment.policy, seed=SEED, round_number=deployment.number)


@cache
def paper_grid() -> System:
    grid = WindyGrid.paper()
    model = grid.cmdp(grid.simulator(), threshold=10.71)
    baseline = s2r.MarkovPolicy.uniform(horizon=12, num_states=25, num_actions=4)
    settings = Settings.paper(
        margin=0.306,
        calibrated_gap=0.0,
        mismatch_gap=0.68,
        tolerance=0.385,
        radius=radii.Scaled(0.376),
        bonus_scale=0.0201,
    )
    return System(Problem(model, baseline, settings), model.with_kernel(grid.real()))


@cache
def three_states() -> System:
    """Fast, and with literal constants: certified, and far from its stop for thousands of rounds."""
    simulator = np.array(
        [
            [[0.9, 0.1, 0.0], [0.3, 0.6, 0.1]],
            [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]],
            [[0.2, 0.0, 0.8], [0.0, 0.0, 1.0]],
        ]
    )
    reality = simulator.copy()
    reality[1, 1] = [0.5, 0.5, 0.0]
    safe = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(simulator), 4, 0, s2r.AtLeast(safe, 1.5, "upright"))
    baseline = s2r.MarkovPolicy.deterministic([0, 0, 0], num_actions=2, horizon=4)
    settings = Settings.paper(margin=1.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.3)
    return System(Problem(model, baseline, settings), model.with_kernel(s2r.Kernel.from_dense(reality)))


@cache
def falling() -> System:
    """The simulator stands for nine steps of ten; the machine falls at once. The baseline costs far more than was stated."""
    simulator = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    reality = np.array([[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    upright = np.array([[1.0, 1.0], [0.0, 0.0]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(simulator), 4, 0, s2r.AtLeast(upright, 1.5, "upright"))
    baseline = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=4)
    settings = Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.1)
    return System(Problem(model, baseline, settings), model.with_kernel(s2r.Kernel.from_dense(reality)))


SYSTEMS = {"grid": paper_grid, "tiny": three_states}


def run_rounds(campaign: Campaign, system: System, rounds: int, worker: str = "worker") -> list[Deployment]:
    deployments = []
    for _ in range(rounds):
        deployments.append(campaign.ask(worker=worker))
        campaign.tell(deployments[-1].id, system.episode(deployments[-1]))
    return deployments


def make(place: Path, rounds: int = 0) -> Campaign:
    """A campaign of `three_states`."""
    campaign = Campaign.create(place, three_states().specification)
    run_rounds(campaign, three_states(), rounds)
    return campaign


# What people and programs with write access do


def read(place: Path, statement: str, *values: Any) -> list[tuple]:
    with closing(sqlite3.connect(place)) as connection:
        return connection.execute(statement, values).fetchall()


def change(place: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(statement, values)


def chained(events: Iterable[Event]) -> list[Event]:
    """The events with all digests made anew, which needs no key."""
    made, previous = [], BEFORE_THE_FIRST
    for event in events:
        previous = event.digest_after(previous)
        made.append(replace(event, digest=previous))
    return made


def write_events(place: Path, events: Iterable[Event]) -> None:
    """Put other events in the place of all, without the rules of the table: a forger makes one of his own."""
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("ALTER TABLE safe2real_event RENAME TO was")
        connection.execute("CREATE TABLE safe2real_event AS SELECT * FROM was WHERE false")
        connection.execute("DROP TABLE was")
        connection.executemany("INSERT INTO safe2real_event VALUES (?, ?, ?, ?, ?, ?, ?)", map(astuple, events))


def ids_of(campaign: Campaign) -> dict[int, str]:
    """The id of every deployment, by its number."""
    return {event.deployment: id_of(campaign.name, event) for event in campaign.events() if event.kind == "ask"}


def model_of(campaign: Campaign) -> dict[str, Any]:
    """Everything that the next deployment follows from, and the deployment itself."""
    proposal = campaign.proposal()
    hybrid = campaign.record.replay.learner.evidence
    return described(hybrid, proposal)


def described(hybrid: Any, proposal: Any) -> dict[str, Any]:
    tally = hybrid.counts.tally
    segments = [slice(first, first + length) for first, length in zip(tally.begin.tolist(), tally.length, strict=True)]
    mixture = proposal.mixture
    return {
        "visits": hybrid.counts.visits,
        "suspects": hybrid.suspects,
        "successors": np.concatenate([tally.successor[segment] for segment in segments]),
        "counts": np.concatenate([tally.count[segment] for segment in segments]),
        "episodes": np.array(hybrid.counts.episodes),
        "reason": np.array(proposal.reason.value),
        "uncertainty": np.array(proposal.uncertainty),
        "exploration_weight": np.array(proposal.exploration_weight),
        "weights": np.zeros(0) if mixture is None else mixture.weights,
        "policies": np.zeros(0) if mixture is None else np.stack([p.probabilities for p in mixture.policies]),
    }


def assert_same_model(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Bit for bit."""
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        assert one[name].shape == other[name].shape, name
        assert one[name].tobytes() == other[name].tobytes(), name


def fingerprint_of(model: dict[str, Any]) -> str:
    contents = [f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes() for name, array in model.items()]
    return hashlib.sha256(b"".join(contents)).hexdigest()


# Processes


@dataclass
class Child:
    """What one process said on its pipe, and how it ended: negative for the signal that killed it."""

    reports: list[list[Any]] = field(default_factory=list)
    ended: int = 0

    def of(self, kind: str) -> list[list[Any]]:
        """The rest of every report that begins with `kind`."""
        return [report[1:] for report in self.reports if report[0] == kind]


class Nursery:
    """A process of its own that forks: clean, single-threaded, everything imported and compiled. See `crash_loop`.

    Forking from pytest would copy its threads' locks, and starting Python anew for every kill would take minutes.
    """

    def __init__(self, *wrapper: str) -> None:
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "tests.campaign.crash_loop"],
            cwd=ROOT,
            env=os.environ | quiet,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ready = self._process.stdout.readline()
        assert ready == "ready\n", f"the forking process did not start: {ready!r}"

    def run(self, *children: dict[str, Any], deadline: float = 120.0) -> list[Child]:
        """Fork every one of `children` and wait for their ends; past the deadline they are killed, and it is an error.

        A child is {"task": name of a function in `crash_loop`, "arguments": {...}}, with "user": a number to become that
        user, and "kill": {"after": a report's kind or "fork", "count": which one, "delay": seconds} to be killed.
        """
        self._process.stdin.write(json.dumps({"children": children, "deadline": deadline}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        found = [Child(**child) for child in answer["children"]]
        assert not answer["overdue"], f"still running after {deadline} s: {[child.reports[-3:] for child in found]}"
        return found

    def run_one(self, task: str, *, user: int | None = None, **arguments: Any) -> Child:
        """One child that ends by itself, without an error."""
        (child,) = self.run({"task": task, "arguments": arguments, "user": user})
        assert child.ended == 0, child.reports
        return child

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
