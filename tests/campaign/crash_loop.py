"""A process that forks others for the tests: `python -m tests.campaign.crash_loop`, one line of JSON for each request.

Every child runs one of the functions of `TASKS` and reports on a pipe of its own, one line of JSON at a time. A child may
be killed with SIGKILL at a chosen moment; what it had reported until then is all that is known of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy

import safe2real as s2r
from safe2real.campaign import Campaign, Deployment
from safe2real.campaign.ask import deployment_of
from safe2real.campaign.deployment import id_of
from safe2real.errors import Conflict, Safe2RealError, Stopped
from tests.campaign.systems import SYSTEMS, System, fingerprint_of, model_of, run_rounds

Report = Callable[..., None]


# What children do


def ask_and_tell(report: Report, url: str, system: str, worker: str, checkpoint: int | None = None) -> None:
    """Rounds until the end of the campaign, or of the process; a tell is reported after it returned."""
    report("alive")
    task = SYSTEMS[system]()
    campaign = Campaign.open(url)
    watch(campaign, report, checkpoint)
    report("open")
    while True:
        report("ask")
        try:
            deployment = campaign.ask(worker=worker)
        except Stopped:
            report("stop")
            return
        report("run", deployment.number)
        episode = task.episode(deployment)
        report("tell", deployment.number)
        receipt = campaign.tell(deployment.id, episode)
        report("told", deployment.id, receipt.sequence, as_json(episode))


def watch(campaign: Campaign, report: Report, checkpoint: int | None) -> None:
    """Report where a write stands; `checkpoint` moves pages from the log to the file after that many, instead of 1000."""
    engine = campaign.journal._engine

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begun(connection: Any) -> None:
        if connection.get_execution_options().get("safe2real_writing"):
            report("locked")

    @sqlalchemy.event.listens_for(engine, "commit")
    def _commit(connection: Any) -> None:
        if connection.get_execution_options().get("safe2real_writing"):
            report("commit")

    if checkpoint is not None:
        engine.dispose()  # the next connection is new, and gets the setting

        @sqlalchemy.event.listens_for(engine, "connect")
        def _connected(connection: Any, _: Any) -> None:
            connection.execute(f"PRAGMA wal_autocheckpoint = {checkpoint}")


def create(report: Report, url: str, system: str) -> None:
    report("alive")
    report("created", *outcome(lambda: Campaign.create(url, SYSTEMS[system]().specification).name))


def fleet_worker(report: Report, url: str, system: str, worker: str, rounds: int, wild: bool, dies: bool) -> None:
    """One machine of a fleet. A `wild` one tells twice, cuts short, gives up, and opens the campaign again and again."""
    task, chance = SYSTEMS[system](), random.Random(f"{system} {worker}")
    campaign = Campaign.open(url)
    for _ in range(rounds):
        if wild and chance.random() < 0.1:
            campaign.close()
            campaign = Campaign.open(url)
        wanted = 3 if wild and chance.random() < 0.25 else 1
        deployments = campaign.ask_batch(wanted, worker=worker)
        report("asked", wanted, [deployment.number for deployment in deployments])
        if wild:
            chance.shuffle(deployments)  # they are not told in the order they were handed out
        for deployment in deployments:
            if not wild or chance.random() < 0.5:
                _tell(report, campaign, task, deployment)
            else:
                _tell_strangely(report, campaign, task, deployment, chance)
    if dies:
        report("asked", 3, [deployment.number for deployment in campaign.ask_batch(3, worker=worker)])
        os.kill(os.getpid(), signal.SIGKILL)


def _tell(report: Report, campaign: Campaign, task: System, deployment: Deployment, steps: int | None = None) -> Any:
    whole = task.episode(deployment)
    episode = s2r.Trajectory(whole.states[: steps + 1], whole.actions[:steps]) if steps else whole
    receipt = campaign.tell(deployment.id, episode, partial=steps is not None)
    report("told", deployment.id, receipt.sequence, as_json(episode), receipt.new)
    return episode, receipt


def _tell_strangely(report: Report, campaign: Campaign, task: System, deployment: Deployment, chance: Any) -> None:
    strange = chance.choice(["partial", "twice", "abandon", "late", "other"])
    if strange in ("abandon", "late"):
        receipt = campaign.abandon(deployment.id, "the battery is empty")
        again = campaign.abandon(deployment.id, "the battery is still empty")
        report("abandoned", deployment.number, receipt.sequence, strange == "late")
        assert (receipt.new, again.new, again.sequence) == (True, False, receipt.sequence)
        if strange == "abandon":
            return
    steps = chance.randint(1, task.real.horizon) if strange == "partial" else None
    episode, receipt = _tell(report, campaign, task, deployment, steps)
    if strange == "twice":
        again = campaign.tell(deployment.id, episode)
        assert (receipt.new, again.new, again.sequence) == (True, False, receipt.sequence)
    if strange == "other":
        shorter = s2r.Trajectory(episode.states[:-1], episode.actions[:-1])
        try:
            campaign.tell(deployment.id, shorter, partial=True)
        except Conflict:
            report("conflict", deployment.number)
        else:
            raise AssertionError("another episode was taken for the same deployment")


def persevere(report: Report, url: str, system: str, worker: str, rounds: int) -> None:
    """Rounds until the database is gone; the error is reported."""
    task = SYSTEMS[system]()
    campaign = Campaign.open(url)
    number = None
    try:
        for _ in range(rounds):
            deployment = campaign.ask(worker=worker)
            number = deployment.number
            _tell(report, campaign, task, deployment)
            number = None
    except Safe2RealError as error:
        report("failed", number, type(error).__name__, str(error))


def fingerprint(report: Report, url: str) -> None:
    """The model as this process computes it from the events, in one number."""
    with Campaign.open(url) as campaign:
        report("model", fingerprint_of(model_of(campaign)))


def visit(report: Report, url: str, system: str, held: str) -> None:
    """Every kind of call, by somebody who may be allowed less; `held` is the id of a deployment that is out."""
    task = SYSTEMS[system]()
    report("open", *outcome(lambda: Campaign.open(url).name))
    campaign = Campaign.open(url)
    calls: dict[str, Callable[[], Any]] = {
        "status": lambda: campaign.status(forecast=False).told,
        "verify": lambda: campaign.verify().holds,
        "events": lambda: len(campaign.events()),
        "mismatch_map": lambda: int(campaign.mismatch_map().visits.sum()),
        "proposal": lambda: campaign.proposal().reason.name,
        "ask": lambda: campaign.ask(worker="visitor").number,
        "tell": lambda: campaign.tell(held, task.episode(_as_held(campaign, held))).sequence,
        "abandon": lambda: campaign.abandon(held, "no reason").sequence,
        "create": lambda: Campaign.create(url, task.specification).name,
    }
    for name, call in calls.items():
        report(name, *outcome(call))


def _as_held(campaign: Campaign, id: str) -> Deployment:
    (held,) = [one for one in campaign.record.replay.held.values() if id_of(campaign.name, one.event) == id]
    return deployment_of(campaign.record, held, campaign.stored_policies())


def look_twice(report: Report, url: str, signal_file: str) -> None:
    """What a reader sees before and after something happened, which is over when the pipe `signal_file` is closed."""
    with Campaign.open(url) as campaign:
        for again in (False, True):
            status = campaign.status(forecast=False)
            report("seen", status.told, len(campaign.events()), campaign.verify().holds)
            if not again:
                with open(signal_file) as events:
                    events.read()


def fork_inside(report: Report, url: str, system: str) -> None:
    """A program that opens a campaign, forks, and uses it on both sides."""
    task = SYSTEMS[system]()
    campaign = Campaign.open(url)
    deployment = campaign.ask(worker="forked")
    child = os.fork()
    if child == 0:
        for call in (campaign.events, lambda: campaign.ask(worker="forked"), lambda: campaign.abandon(deployment.id, "x")):
            report("inside", *outcome(call))
        campaign.close()
        with Campaign.open(url) as own:
            report("reopened", own.tell(deployment.id, task.episode(deployment)).new)
        os._exit(0)
    os.waitpid(child, 0)
    run_rounds(campaign, task, 3, "forked")
    report("outside", campaign.status(forecast=False).told, campaign.verify().holds)


def fill_up(report: Report, url: str, system: str, worker: str, room: int) -> None:
    """Rounds until a file may grow no more, then the same tell again once it may."""
    task = SYSTEMS[system]()
    campaign = Campaign.open(url)
    deployment = campaign.ask(worker=worker)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in Path(url).parent.glob(Path(url).name + "*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, most))
    for _ in range(10_000):
        kind, message = outcome(lambda: _tell(report, campaign, task, deployment)[1].sequence)  # noqa: B023
        if kind != "fine":
            report("refused", "tell", deployment.id, kind, message)
            break
        kind, message = outcome(lambda: campaign.ask(worker=worker).number)
        if kind != "fine":
            report("refused", "ask", None, kind, message)
            break
        deployment = campaign.ask(worker=worker)
    report("seen", campaign.status(forecast=False).told, len(campaign.events()), campaign.verify().holds)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    deployment = campaign.ask(worker=worker)
    _tell(report, campaign, task, deployment)


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """("fine", answer), or the error's type and message; an error that is not ours keeps its traceback."""
    try:
        return "fine", call()
    except Safe2RealError as error:
        return type(error).__name__, str(error)
    except Exception:  # noqa: BLE001 - reported to the test, which refuses it
        return "unexpected", traceback.format_exc()


def as_json(episode: s2r.Trajectory) -> dict[str, list[int]]:
    return {"states": episode.states.tolist(), "actions": episode.actions.tolist()}


TASKS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        ask_and_tell,
        create,
        fleet_worker,
        persevere,
        fingerprint,
        visit,
        look_twice,
        fork_inside,
        fill_up,
    )
}


# Forking


class Started:
    """A child, seen from here."""

    def __init__(self, task: str, arguments: dict[str, Any], user: int | None = None, kill: Any = None) -> None:
        self.reports: list[list[Any]] = []
        self.kill, self.kill_at, self.ended = kill, None, 0
        self.pipe, theirs = os.pipe()
        self._rest = b""
        self.id = os.fork()
        if self.id == 0:
            os.close(self.pipe)
            _live(theirs, task, arguments, user)
        os.close(theirs)
        self._look("fork")

    def read(self) -> bool:
        """Take in what was reported; False when the pipe is closed, which means that the process is gone."""
        content = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self.reports.append(json.loads(line))
            self._look(self.reports[-1][0])
        return bool(content)

    def _look(self, kind: str) -> None:
        if self.kill is not None and self.kill_at is None and kind == self.kill["after"]:
            self.kill["count"] = self.kill.get("count", 1) - 1
            if self.kill["count"] <= 0:
                self.kill_at = time.monotonic() + self.kill["delay"]


def _live(pipe: int, task: str, arguments: dict[str, Any], user: int | None) -> None:
    """The whole life of a child. It leaves without clean-up: nothing of the parent's is its to flush or close."""
    status = 1

    def report(kind: str, *values: Any) -> None:
        os.write(pipe, json.dumps([kind, *values]).encode() + b"\n")

    try:
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        TASKS[task](report, **arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - it must not return into the parent's loop
        report("error", traceback.format_exc())
    finally:
        os._exit(status)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    children = [Started(**child) for child in request["children"]]
    end = time.monotonic() + request["deadline"]
    running = {child.pipe: child for child in children}
    overdue = False
    while running:
        moments = [child.kill_at for child in running.values() if child.kill_at is not None]
        ready, _, _ = select.select(list(running), [], [], max(0.0, min([end, *moments]) - time.monotonic()))
        now = time.monotonic()
        overdue = overdue or now > end
        for child in list(running.values()):
            if (child.kill_at is not None and now >= child.kill_at) or overdue:
                os.kill(child.id, signal.SIGKILL)
                child.kill_at, child.kill = None, None
                end = now + 60.0 if overdue else end
            if child.pipe in ready and not child.read():
                os.close(child.pipe)
                del running[child.pipe]
                child.ended = os.waitstatus_to_exitcode(os.waitpid(child.id, 0)[1])
    return {"children": [{"reports": child.reports, "ended": child.ended} for child in children], "overdue": overdue}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:  # everything compiled and imported once, for all children
        for name, system in SYSTEMS.items():
            with Campaign.create(Path(folder) / name, system().specification) as campaign:
                run_rounds(campaign, system(), 3)
                campaign.verify()
                campaign.mismatch_map()
    with contextlib.suppress(ImportError):
        sqlalchemy.create_engine("postgresql+psycopg://")  # imports the driver, connects to nothing
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
