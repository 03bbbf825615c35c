"""Both clusters, started for real: two worker processes on this machine, one of them killed in the middle."""

import importlib
import itertools
import logging
import os
import signal
import threading
import time
from collections import Counter

import joblib
import pytest

from safe2real import parallel
from tests.parallel import tasks

pytestmark = pytest.mark.slow
CLUSTERS = ("dask", "ray")


@pytest.fixture(autouse=True)
def as_important_as_this_process(monkeypatch):
    """Ray makes its workers the least important processes of a machine; where others work, they would hardly run."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


def started(folder):
    """(number, process) of every start, in their order."""
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return [tuple(map(int, path.name.split(".")[:2])) for path in files]


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_killed_worker_loses_nothing_and_counts_nothing_twice(name, tmp_path):
    pytest.importorskip({"dask": "distributed"}.get(name, name))
    given = [(str(tmp_path), number, 0.4) for number in range(16)]
    killed = []

    def kill():
        while len(started(tmp_path)) < 6:
            time.sleep(0.05)
        number, process = started(tmp_path)[-1]  # the one that began last is at work
        os.kill(process, signal.SIGKILL)
        killed.append((number, process))

    with parallel.workers(name, jobs=2):
        assert parallel.at_once() == 2
        killing = threading.Thread(target=kill)
        killing.start()
        ended = list(parallel.run(tasks.noted, given))
        killing.join()
    assert sorted(ended) == [(number, (number, number * number)) for number in range(16)]
    ((number, process),) = killed
    starts = started(tmp_path)
    assert Counter(one for one, _ in starts)[number] >= 2  # it was lost, and done again
    others = {one for index, one in starts if index == number} - {process}
    assert others  # by another process
    assert len({one for _, one in starts}) >= 2


@pytest.mark.parametrize("name", CLUSTERS)
def test_mistakes_are_raised_here_and_endless_tasks_come_in_order(name, tmp_path):
    pytest.importorskip({"dask": "distributed"}.get(name, name))
    with parallel.workers(name, jobs=2):
        with pytest.raises(ValueError, match="number 2 is a mistake"):
            list(parallel.run(tasks.failing, range(5)))
        ended = parallel.run(tasks.noted, ((str(tmp_path), number, 0.1) for number in itertools.count()), ordered=True)
        assert list(itertools.islice(ended, 6)) == [(number, (number, number * number)) for number in range(6)]
        with pytest.warns(UserWarning, match="cancelled"):
            ended.close()


def test_a_cluster_of_the_users_own_is_used_and_left_alone():
    """What joblib's documentation says: a Dask client, Ray registered; no `workers` of ours."""
    distributed = pytest.importorskip("distributed")
    quiet = {"dashboard_address": None, "silence_logs": logging.ERROR}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster,
        distributed.Client(cluster) as client,
    ):
        with joblib.parallel_config(backend="dask"):
            processes = {process for _, process in parallel.run(tasks.process, range(20))}
        with parallel.workers("dask", address=cluster.scheduler_address):
            assert sorted(parallel.run(tasks.square, range(3))) == [(0, 0), (1, 1), (2, 4)]
        assert processes <= set(client.run(os.getpid).values())


def test_ray_by_joblib_alone_gives_all_results_at_the_end():
    ray = pytest.importorskip("ray")
    importlib.import_module("ray.util.joblib").register_ray()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        with joblib.parallel_config(backend="ray", n_jobs=2):
            assert sorted(parallel.run(tasks.square, range(5))) == [(number, number * number) for number in range(5)]
        with parallel.workers("ray", jobs=2):
            assert sorted(parallel.run(tasks.square, range(3))) == [(0, 0), (1, 1), (2, 4)]
        assert ray.is_initialized()
    finally:
        ray.shutdown()
