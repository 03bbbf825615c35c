"""Both clusters, started for real: two worker processes on this machine, one of them killed in the middle."""

import os
import signal
import threading
import time
from collections import Counter

import pytest

from safe2real.engines import Job, opened
from safe2real.errors import InvalidInput
from tests.engines import tasks

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

    with opened(name, jobs=2) as engine:
        assert engine.workers == 2
        killing = threading.Thread(target=kill)
        killing.start()
        ended = list(engine.run(tasks.noted, given))
        killing.join()
    assert sorted(ended) == [(number, (number, number * number)) for number in range(16)]
    ((number, process),) = killed
    starts = started(tmp_path)
    assert Counter(one for one, _ in starts)[number] >= 2  # it was lost, and done again
    others = {one for index, one in starts if index == number} - {process}
    assert others  # by another process
    assert len({one for _, one in starts}) >= 2


@pytest.mark.parametrize("name", CLUSTERS)
def test_mistakes_and_other_sources_are_raised_here(name):
    pytest.importorskip({"dask": "distributed"}.get(name, name))
    with opened(name, jobs=1) as engine:
        with pytest.raises(ValueError, match="number 2 is a mistake"):
            list(engine.run(tasks.failing, range(5)))
        with pytest.raises(InvalidInput, match=r"has other sources of safe2real .* install the same on all machines"):
            list(engine.run(Job(tasks.square, digest="of others"), range(2)))
        assert sorted(engine.run(Job(tasks.square), range(3))) == [(0, 0), (1, 1), (2, 4)]
