"""Runs of the certified study on every engine: the same rows, bit for bit, each kept once, also when a worker is killed."""

import json
import os
import signal
import threading
import time

import pytest
from rich.console import Console

from experiments import runner as engine
from experiments.runner import run_all
from experiments.store import Store, Task
from experiments.studies.certified import ALL, ALL_DECLARED, _settings
from experiments.studies.certified_runs import anytime_run, certified_run
from safe2real.parallel import ENGINES

QUIET = Console(quiet=True)


@pytest.fixture(autouse=True)
def as_important_as_this_process(monkeypatch):
    """Ray makes its workers the least important processes of a machine; where others work, they would hardly run."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


def some(seeds=2):
    """The quickest runs of the study; `make slow` does not wait for its literal constants."""
    fewer = {"rewards": 2}
    chosen = [(name, seed) for name in (ALL, ALL_DECLARED) for seed in range(seeds)]
    runs = [Task(certified_run, _settings(name, seed) | fewer, compiled=True) for name, seed in chosen]
    return runs + [Task(anytime_run, _settings(ALL, seed) | fewer | {"checkpoints": [30, 300]}) for seed in range(seeds)]


def kept(folder):
    """(id, result as its text) of every line that was written."""
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [(line["id"], json.dumps(line["result"])) for line in lines]


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    assert run_all(some(), Store(folder), jobs=1, console=QUIET) == 6
    return sorted(kept(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_rows_are_the_same_bit_for_bit(name, one_by_one, tmp_path):
    pytest.importorskip({"dask": "distributed", "local": "os", "threads": "os"}.get(name, name))
    assert run_all(some(), Store(tmp_path), jobs=2, engine=name, console=QUIET) == 6
    assert sorted(kept(tmp_path)) == one_by_one


def where_run(settings):
    return {"process": os.getpid()}


def nothing_to_prepare():
    """No compiled code: found by its name in workers, too."""


def test_compiled_runs_stay_in_this_process_and_others_have_their_own(tmp_path, monkeypatch):
    """Threads of one process take no start; a run that is Python would keep the others waiting."""
    monkeypatch.setattr(engine, "compile_everything", nothing_to_prepare)
    tasks = [Task(where_run, {"seed": seed}, compiled=seed < 3) for seed in range(4)]
    assert run_all(tasks, Store(tmp_path), jobs=2, console=QUIET) == 4
    here = [row["result"]["process"] == os.getpid() for row in Store(tmp_path).rows(tasks)]
    assert here == [True] * 3 + [False]


def killing_run(settings):
    """A run of the study; the first that comes after the first row was written has its process killed on its way."""
    mark, rows = settings["mark"], settings["rows"]
    if os.path.exists(rows) and not os.path.exists(mark):
        with open(mark, "x"):
            threading.Thread(target=_kill_soon, daemon=True).start()
    given = {name: value for name, value in settings.items() if name not in ("mark", "rows")}
    return certified_run(given)


def _kill_soon():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ENGINES if name != "threads"])  # a killed thread is a killed process
def test_a_killed_worker_leaves_every_row_once(name, one_by_one, tmp_path):
    pytest.importorskip({"dask": "distributed", "local": "os", "threads": "os"}.get(name, name))
    places = {"mark": str(tmp_path / "killed"), "rows": str(tmp_path / "killing.jsonl")}
    tasks = [Task(killing_run, task.settings | places) for task in some(seeds=4) if task.run is certified_run]
    assert run_all(tasks, Store(tmp_path), jobs=2, engine=name, console=QUIET) == 8
    assert (tmp_path / "killed").exists()
    found = kept(tmp_path)
    assert sorted(line for line, _ in found) == sorted(task.id for task in tasks)
    results = {result for _, result in found}
    assert {result for _, result in one_by_one if "points" not in result} <= results
