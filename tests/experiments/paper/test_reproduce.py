"""The experiments: finished runs are kept, torn files are survived, numbers stand beside the paper's, figures are drawn."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import safe2real as s2r
from experiments import reproduce
from experiments.__main__ import app
from experiments.paper import misspecification, printed, table1
from experiments.paper.inferred import INFERRED, learner_on, misspecification_grid
from experiments.paper.runs import METHODS, explore_task, plans
from experiments.runner import run_all
from experiments.store import Store, Task
from safe2real import methods
from safe2real.cli import app as safe2real

QUIET = Console(quiet=True)


def quick(seed: int) -> Task:
    return explore_task(seed=seed, constants=INFERRED, method=methods.Unconstrained(), rewards=2)


def done(task: Task):
    return task.run(task.settings)


def test_a_run_is_plain_json_and_repeats():
    result = done(quick(0))
    assert json.loads(json.dumps(result)) == result
    assert done(quick(0)) == result
    assert result["samples"] == 12 * result["rounds"] == sum(result["state_visits"])


def test_rewards_are_drawn_for_every_step():
    """r_h(s, a), as in the paper."""
    grid, drawn = s2r.systems.WindyGrid.paper(), []

    class Recording(s2r.Learner):
        def plan(self, reward):
            drawn.append(np.asarray(reward))
            return super().plan(reward)

    problem = learner_on(grid, seed=0, mismatch_gap=0.68).problem
    assert plans(grid, Recording(problem), 0, 2)["suboptimality"] >= 0.0
    assert [reward.shape for reward in drawn] == [(12, 25, 4)] * 2
    assert len({*drawn[0][:, 3, 2], *drawn[1][:, 3, 2]}) == 24


def test_the_store_keeps_runs_and_survives_a_torn_line(tmp_path):
    store = Store(tmp_path)
    tasks = [quick(0), quick(1), quick(1)]
    assert run_all(tasks, store, jobs=1, console=QUIET) == 2
    path = tmp_path / "explore.jsonl"
    path.write_text(path.read_text()[:-40])
    again = Store(tmp_path)
    assert [task.settings["seed"] for task in again.missing(tasks)] == [1] or len(again.missing(tasks)) == 1
    assert run_all(tasks, again, jobs=1, console=QUIET) == 1
    assert len(Store(tmp_path).rows(tasks[:2])) == 2


def test_other_constants_are_other_runs():
    other = explore_task(seed=0, constants=type(INFERRED)(margin=0.3), method=methods.Unconstrained(), rewards=2)
    assert other.id != quick(0).id
    assert quick(0).id == quick(0).id


def test_reproduce_writes_everything_and_repeats_nothing(tmp_path):
    names = ["table1", "gridworld", "safety", "heatmaps", "bounds"]
    report = reproduce.reproduce(names, tmp_path, seeds=1, jobs=1, console=QUIET)
    page = report.read_text()
    assert page.count("data:image/png;base64") == 3
    assert "39,168" in page
    assert "inferred constants (heuristic)" in page
    for path in ("table1/table1.md", "table1/rows.csv", "table1/rows.json", "safety/safety.pdf", "heatmaps/heatmaps.png"):
        assert (tmp_path / path).stat().st_size > 0
    rows = json.loads((tmp_path / "table1/rows.json").read_text())
    assert {"id", "version", "settings", "result"} <= rows[0].keys()
    size = (tmp_path / "runs/explore.jsonl").stat().st_size
    reproduce.reproduce(["table1"], tmp_path, seeds=1, jobs=1, console=QUIET)
    assert (tmp_path / "runs/explore.jsonl").stat().st_size == size
    # The report still shows what was finished before.
    assert report.read_text().count("data:image/png;base64") == 3


@pytest.mark.slow
def test_a_killed_reproduce_goes_on_where_it_was(tmp_path):
    command = [
        sys.executable,
        "-m",
        "experiments",
        "table1",
        "--seeds",
        "3",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    path = tmp_path / "runs" / "explore.jsonl"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (path.exists() and path.read_text().count("\n") >= 2):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = path.read_text().count("\n")
    assert 2 <= kept < 9
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"9 runs: {9 - kept} done now, {kept} kept from before" in done.stdout
    assert "report:" in done.stdout


def test_the_inferred_constants_stay_near_table_1():
    """Two seeds of each algorithm: within 12 % of the reported samples, and safe where the paper is."""
    for name, method in METHODS.items():
        results = [done(explore_task(seed=seed, constants=INFERRED, method=method)) for seed in (0, 1)]
        reported = printed.TABLE1[name]
        assert np.mean([r["samples"] for r in results]) == pytest.approx(reported[0], rel=0.12)
        assert all((r["unsafe_share"] > 0.0) == (reported[2] > 0.0) for r in results)


def test_comparisons_notice_a_wrong_result(tmp_path):
    rows = [{"settings": task.settings, "result": done(quick(0)) | {"samples": 1000}} for task in table1.tasks(1)]
    outcome = table1.draw(rows, tmp_path)
    assert [c.within for c in outcome.comparisons if c.name.endswith("samples")] == [False, False, False]
    cells = {key: {"samples": 1.0, "unsafe": 0.0, "lost": 0.0, "feasible": 1.0} for key in printed.MISSPECIFICATION}
    cells["I", 0.0]["lost"] = 1.0
    assert misspecification._first_false(cells, "I") == 0.0
    assert misspecification._first_false(cells, "II") is None


def test_the_paper_tables_are_complete():
    assert len(printed.MISSPECIFICATION) == 60
    assert printed.MISSPECIFICATION["II", 0.75]["lost"] == 0.9
    assert printed.MISSPECIFICATION["III", 1.0] == {
        "samples": 43_410, "lost": 17.5, "false_deletion": 1.0, "suboptimality": 0.0372, "feasible": 0.955,
    }  # fmt: skip
    assert misspecification_grid("I").mismatch().sum() == 64
    assert not learner_on(misspecification_grid("I"), seed=0, mismatch_gap=0.68).propose().certificate.certified


def test_a_dask_cluster_that_runs_already_gives_the_same_rows(tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=False) as cluster:
        store = Store(tmp_path)
        address = cluster.scheduler_address
        assert run_all([quick(0), quick(1)], store, engine="dask", address=address, console=QUIET) == 2
    local = done(quick(0))
    assert store.rows([quick(0)])[0]["result"] == local


def test_bad_names_and_engines_are_refused(tmp_path):
    runner = CliRunner()
    wrong = runner.invoke(app, ["tabel1", "--out", str(tmp_path)])
    assert wrong.exit_code == 2
    assert "did you mean table1?" in wrong.output
    assert runner.invoke(app, ["table1", "--seeds", "0", "--out", str(tmp_path)]).exit_code == 2
    engine = runner.invoke(app, ["table1", "--seeds", "1", "--engine", "slurm", "--out", str(tmp_path)])
    assert engine.exit_code == 2
    assert "choose one of local, threads, dask, ray" in engine.output
    assert runner.invoke(safe2real, ["--version"]).output.strip() == s2r.__version__
