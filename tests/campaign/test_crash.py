"""kill -9 at any moment: what was acknowledged stays, once, and the campaign goes on as if nothing had happened."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter

import pytest

from safe2real.campaign import Campaign
from safe2real.errors import Conflict
from tests.campaign.crash_loop import outcome
from tests.campaign.systems import SYSTEMS, Child, Nursery, assert_same_model, ids_of, model_of, run_rounds
from tests.cases import sampled

WORKER = "rover"


def moment_of(chance: random.Random, longest: float) -> dict:
    """When to kill: mostly any moment of the loop, sometimes at its very beginning, sometimes around a commit."""
    kind = chance.random()
    if kind < 0.1:
        return {"after": "fork", "delay": chance.uniform(0.0, 0.1 * longest)}
    if kind < 0.75:
        return {"after": "alive", "delay": chance.uniform(0.0, longest)}
    return {"after": "commit", "count": chance.randint(1, 8), "delay": chance.uniform(0.0, 0.04 * longest)}


def seconds_for(nursery: Nursery, task: str, after: str, count: int, **arguments) -> float:
    """How long a child needs here and now until its report number `count` of the kind `after`."""
    began = time.perf_counter()
    nursery.run({"task": task, "arguments": arguments, "kill": {"after": after, "count": count, "delay": 0.0}})
    return time.perf_counter() - began


def phase_of(child: Child) -> str:
    """What the process was doing when it was killed, from the last things it said."""
    said = [report[0] for report in child.reports]
    if not said:
        return "not yet running"
    call = next((kind for kind in reversed(said) if kind in ("ask", "tell")), "")
    names = {"alive": "opening", "open": "opening", "run": "between", "told": "between"}
    names |= {"ask": "ask: reading, planning", "tell": "tell: waiting"}
    names |= {"locked": f"{call}: writing", "commit": f"{call}: committing"}
    return names[said[-1]]


def record_of(campaign: Campaign) -> list[tuple]:
    """The events without what must differ between two campaigns: the name, the times and the digests."""
    return [(event.sequence, event.kind, event.deployment, event.worker, event.body) for event in campaign.events()[1:]]


def check_after_kill(campaign: Campaign, acknowledged: dict[str, tuple]) -> list:
    """What must hold whatever the moment of the kill was; returns the events."""
    events = campaign.events()
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    ids = ids_of(campaign)
    told = {ids[event.deployment]: event for event in events if event.kind == "tell"}
    assert len(told) == sum(event.kind == "tell" for event in events), "a deployment was told twice"
    for id, (sequence, episode) in acknowledged.items():
        assert told[id].sequence == sequence, id
        assert json.loads(told[id].body) == episode, id
    asked = [event.deployment for event in events if event.kind == "ask"]
    assert asked == list(range(1, len(asked) + 1))
    assert len(asked) - len(told) <= 1, "the worker holds more than one deployment"
    ledger = campaign.verify()
    assert ledger.holds, ledger.describe()
    assert ledger.identical == ledger.deployments == len(asked)
    return events


@sampled(
    ("system_name", "checkpoint", "observed", "kills"),
    [
        ("grid", None, False, 40),
        ("grid", 4, False, 40),
        ("grid", None, True, 40),
        ("tiny", None, False, 40),
        ("tiny", 4, True, 40),
        ("tiny", 4, True, 20),
    ],
    keep=[-1],
    ids=["grid", "grid-checkpoints", "grid-observed", "tiny", "tiny-checkpoints-observed", "few"],
)
def test_kill_9_while_asking_and_telling(nursery, tmp_path, system_name, checkpoint, observed, kills):
    """`checkpoint` makes the child move the log into the file after almost every commit, so that kills hit that too.

    `observed`: somebody else keeps the campaign open, so the log is not recovered from its beginning after a kill but
    goes on as the killed process left it.
    """
    url, system = str(tmp_path / "killed.db"), SYSTEMS[system_name]()
    Campaign.create(url, system.specification).close()
    observer = Campaign.open(url) if observed else None
    chance = random.Random(f"{system_name} {checkpoint} {observed}")
    acknowledged: dict[str, tuple] = {}
    phases: Counter[str] = Counter()
    lost_answers = Counter(ask=0, tell=0)
    arguments = {"url": url, "system": system_name, "worker": WORKER, "checkpoint": checkpoint}
    # About 60 ms on an idle machine. A slower one gets longer, so that kills land in every part of the loop there too.
    with Campaign.create(tmp_path / "timed.db", system.specification):
        timed = arguments | {"url": str(tmp_path / "timed.db")}
        longest = min(0.15, seconds_for(nursery, "ask_and_tell", "told", 8, **timed))
    before = 1
    for _ in range(kills):
        (child,) = nursery.run({"task": "ask_and_tell", "arguments": arguments, "kill": moment_of(chance, longest)})
        assert child.ended == -signal.SIGKILL, child.reports[-1]
        phases[phase_of(child)] += 1
        for id, sequence, episode in child.of("told"):
            assert id not in acknowledged, "the same deployment was handed out after it was told"
            acknowledged[id] = (sequence, episode)
        with Campaign.open(url) as campaign:
            events = check_after_kill(campaign, acknowledged)
        known = len(child.of("run")) + len(child.of("told"))
        for event in events[before + known :]:
            lost_answers[event.kind] += 1  # recorded, but the process died before it could say so
        before = len(events)
        if observer is not None:
            assert observer.status(forecast=False).events == len(events)
    with Campaign.open(url) as campaign:
        rounds = campaign.status(forecast=False).rounds
        if campaign.status(forecast=False).held:
            run_rounds(campaign, system, 1, WORKER)
        with Campaign.create(tmp_path / "quiet.db", system.specification) as quiet:
            run_rounds(quiet, system, rounds, WORKER)
            assert record_of(campaign) == record_of(quiet)
            assert_same_model(model_of(campaign), model_of(quiet))
        assert campaign.verify().holds
    assert rounds >= kills // 4, "hardly anything was done between the kills"
    print(
        f"\n{kills} kills within {1e3 * longest:.0f} ms, {rounds} rounds, {len(acknowledged)} acknowledged tells; "
        f"recorded without an answer: {dict(lost_answers)}; killed while: {dict(phases.most_common())}"
    )


@sampled("kills", [12, 40], keep=[0])
def test_kill_9_while_creating(nursery, tmp_path, kills):
    """Afterwards there is a whole campaign or none, and the next `create` says which."""
    chance, system = random.Random(5), SYSTEMS["tiny"]()
    found = Counter(complete=0, empty=0, absent=0)
    longest = seconds_for(nursery, "create", "created", 1, url=str(tmp_path / "timed.db"), system="tiny")
    for number in range(kills):
        url = tmp_path / f"{number}.db"
        kill = {"after": "alive", "delay": chance.uniform(0.0, 1.2 * longest)}
        (child,) = nursery.run({"task": "create", "arguments": {"url": str(url), "system": "tiny"}, "kill": kill})
        reported = child.of("created")
        assert not reported or reported[0][0] == "fine"
        there = url.exists()
        kind, answer = outcome(lambda: Campaign.open(url).close())  # noqa: B023
        if kind == "fine":
            found["complete"] += 1
            with pytest.raises(Conflict, match="holds a campaign already; open it, or choose another place"):
                Campaign.create(url, system.specification)
        else:
            found["empty" if there else "absent"] += 1
            assert kind == "StorageFailure"
            assert re.search("holds no campaign; make one" if there else "there is no file .*; check the name", answer)
            assert not reported, "what was acknowledged is gone"
            Campaign.create(url, system.specification).close()
        with Campaign.open(url) as campaign:
            assert [event.kind for event in campaign.events()] == ["create"]
            run_rounds(campaign, system, 2)
            assert campaign.verify().holds
        mode = sqlite3.connect(url).execute("PRAGMA journal_mode").fetchone()
        assert mode == ("wal",), "readers would be blocked by writers"
    print(f"\n{found.total()} kills of create within {1e3 * longest:.0f} ms: {dict(found)}")
    assert min(found["complete"], found["empty"] + found["absent"]) >= 1, "the kills missed the moment"


def test_what_was_acknowledged_has_been_synced(tmp_path):
    """A kill does not lose what the operating system holds; a power cut does. So look at the calls themselves.

    When `tell` returns, nothing written to the log may be waiting for a sync, and `ask` neither: what a machine runs must
    be on record. The same for the file and its folder when the campaign has been made.
    """
    trace = tmp_path / "calls.txt"
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed, so the calls of a process cannot be seen")
    tracing = (
        strace,
        "-f",
        "--seccomp-bpf",
        "-y",
        "-s",
        "100",
        "-e",
        "trace=pwrite64,write,fdatasync,fsync",
        "-o",
        str(trace),
    )
    if subprocess.run([*tracing, "true"], check=False).returncode != 0:
        pytest.skip("strace may not trace here, so the calls of a process cannot be seen")
    nursery = Nursery(*tracing)
    url = tmp_path / "traced.db"
    nursery.run_one("create", url=str(url), system="tiny")
    kill = {"after": "told", "count": 12, "delay": 0.0}
    arguments = {"url": str(url), "system": "tiny", "worker": WORKER, "checkpoint": 4}
    nursery.run({"task": "ask_and_tell", "arguments": arguments, "kill": kill})
    nursery.close()
    written: set[str] = set()  # files with writes that a power cut could take back
    known: set[str] = set()
    named: set[str] = set()  # files whose name is in the folder for good
    reports: Counter[str] = Counter()
    for line in trace.read_text().splitlines():
        call = re.match(r"\d+ +(\w+)\(\d+<([^>]*)>(.*)", line)
        if call is None:
            continue
        name, path, rest = call.groups()
        if name == "pwrite64" and path in (str(url), f"{url}-wal"):  # -shm is made anew after a power cut
            written.add(path)
            known.add(path)
        elif name in ("fsync", "fdatasync"):
            written.discard(path)
            if path == str(tmp_path):
                named |= known
        report = re.match(r", \"\[\\\"(created|run|told)\\\"", rest) if path.startswith("pipe:") else None
        if report is not None:
            kind = report.group(1)
            reports[kind] += 1
            assert f"{url}-wal" not in written, f"{kind} was reported before the log was on disk"
            assert f"{url}-wal" in named, f"{kind} was reported before the log had a name on disk"
            if kind == "created":
                assert str(url) not in written
                assert str(url) in named
    assert reports["created"] == 1
    assert min(reports["run"], reports["told"]) >= 12
