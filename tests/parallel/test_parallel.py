"""Processes and threads of this machine: results, mistakes, refusals, and what happens when a process is killed."""

import itertools
import os

import joblib
import pytest

from safe2real import parallel
from safe2real.errors import InvalidInput
from tests.cases import each
from tests.parallel import tasks

SQUARES = [(number, number * number) for number in range(8)]


def test_a_killed_process_costs_nothing_but_time(tmp_path):
    """joblib gives the whole run up; what has no result is run again by other processes."""
    with parallel.workers(jobs=2):
        ended = list(parallel.run(tasks.killed_once, [(str(tmp_path), number) for number in range(8)]))
        assert (tmp_path / "killed").exists()
        assert sorted(ended) == SQUARES  # each once
        assert list(parallel.run(tasks.square, range(5), ordered=True)) == SQUARES[:5]  # and other runs go on


def test_joblib_alone_loses_the_run_of_a_killed_process(tmp_path):
    """Why `run` begins again: of eight results none comes back."""
    work = (joblib.delayed(tasks.killed_once)((str(tmp_path), number)) for number in range(8))
    with pytest.raises(parallel.BrokenProcessPool):
        joblib.Parallel(n_jobs=2)(work)


def test_a_task_that_always_ends_its_process_is_named():
    with (
        parallel.workers(jobs=2),
        pytest.raises(parallel.LostTask, match=r"5 times in a row.*one of the tasks \[0\]") as said,
    ):
        list(parallel.run(tasks.always_killed, [7]))
    assert isinstance(said.value.__cause__, parallel.BrokenProcessPool)


@each("engine", ["local", "threads"])
@each("jobs", [1, 2])
def test_a_mistake_of_a_task_is_raised_as_it_is(engine, jobs):
    with parallel.workers(engine, jobs=jobs), pytest.raises(ValueError, match="number 2 is a mistake"):
        list(parallel.run(tasks.failing, range(5)))


def test_one_job_is_this_process_with_all_its_cores():
    with parallel.workers(jobs=1):
        assert parallel.at_once() == 1
        assert list(parallel.run(tasks.process, range(3))) == [(number, os.getpid()) for number in range(3)]
        assert list(parallel.run(tasks.available, [0])) == [(0, parallel.cores())]
    assert list(parallel.run(tasks.process, [0])) == [(0, os.getpid())]  # nor does anything start without a configuration


@each(
    ("engine", "options"),
    [("local", {"compiled": True}), ("threads", {}), ("local", {"compiled": True, "ordered": True, "jobs": 2})],
)
def test_threads_run_side_by_side_in_this_process(engine, options):
    """Each with one core: every task waits until two are there."""
    with parallel.workers(engine, jobs=1 if "jobs" in options else 2):
        ended = sorted(parallel.run(tasks.beside_another, range(4), **options))
    assert ended == [(number, (os.getpid(), 1)) for number in range(4)]


def test_what_joblib_is_told_holds():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert parallel.at_once() == 2
        processes = {process for _, process in parallel.run(tasks.process, range(8), compiled=True)}
    assert os.getpid() not in processes


def test_results_come_in_order_of_endless_tasks():
    with parallel.workers(jobs=2):
        ended = parallel.run(tasks.square, itertools.count(), ordered=True)
        assert list(itertools.islice(ended, 8)) == SQUARES
        with pytest.warns(UserWarning, match="cancelled"):
            ended.close()


def test_other_sources_are_refused(monkeypatch):
    monkeypatch.setattr(parallel, "digest_of_package", lambda: "of others")
    with parallel.workers(jobs=2), pytest.raises(InvalidInput, match=r"other sources.*install the same on all machines"):
        list(parallel.run(tasks.square, range(2)))


@each(
    ("given", "said"),
    [
        ({"engine": "slurm"}, "engine is 'slurm'; choose one of local, threads, dask, ray"),
        ({"jobs": 0}, "jobs is 0; give a number of processes, or -1"),
        ({"jobs": True}, "jobs is True"),
        ({"address": "tcp://head:8786"}, "with engine 'local' and jobs -1; choose dask or ray"),
        ({"engine": "dask", "address": "tcp://head:8786", "jobs": 2}, "leave jobs out: the cluster has its own workers"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(InvalidInput, match=said), parallel.workers(**given):
        raise AssertionError("nothing is started")
