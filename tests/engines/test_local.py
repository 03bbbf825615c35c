"""Processes of this machine: results, mistakes, and what happens when one is killed."""

import os

import pytest

from safe2real.engines import LostTask, opened
from safe2real.engines.base import in_order
from safe2real.engines.job import Job
from safe2real.engines.local import MOST_THREADS, Local, Threads
from safe2real.errors import InvalidInput
from tests.cases import each
from tests.engines import tasks


def test_a_killed_process_costs_nothing_but_time(tmp_path):
    with opened(jobs=2) as engine:
        ended = list(engine.run(tasks.killed_once, [(str(tmp_path), number) for number in range(8)]))
        assert (tmp_path / "killed").exists()
        assert sorted(ended) == [(number, number * number) for number in range(8)]
        assert list(in_order(engine.run(tasks.square, range(5)))) == [0, 1, 4, 9, 16]  # and the engine goes on


def test_a_task_that_always_ends_its_process_is_named():
    with opened(jobs=2) as engine, pytest.raises(LostTask, match="task 0 has lost its worker"):
        list(engine.run(tasks.always_killed, [7]))


def test_a_mistake_of_a_task_is_raised_as_it_is():
    with opened(jobs=2) as engine, pytest.raises(ValueError, match="number 2 is a mistake"):
        list(engine.run(tasks.failing, range(5)))


def test_one_process_is_this_one():
    with opened(jobs=1) as engine:
        assert list(engine.run(tasks.process, range(3))) == [(number, os.getpid()) for number in range(3)]
        with pytest.raises(ValueError, match="number 2 is a mistake"):
            list(engine.run(tasks.failing, range(5)))


def test_compiled_tasks_are_done_by_threads_of_this_process():
    """Each with one core, several at a time: every one waits until two are there."""
    with opened(jobs=2, compiled=True) as engine:
        assert list(in_order(engine.run(Job(tasks.beside_another), range(4)))) == [(os.getpid(), 1)] * 4
        assert list(in_order(engine.run(tasks.square, range(5)))) == [0, 1, 4, 9, 16]
        with pytest.raises(ValueError, match="number 2 is a mistake"):
            list(engine.run(tasks.failing, range(5)))


def test_more_than_one_interpreter_can_serve_are_processes():
    for jobs, kind in ((MOST_THREADS, Threads), (MOST_THREADS + 1, Local)):
        with opened(jobs=jobs, compiled=True) as engine:
            assert type(engine) is kind
            assert engine.workers == jobs


@each(
    ("given", "said"),
    [
        ({"name": "slurm"}, "engine is 'slurm'; choose one of local, dask, ray"),
        ({"jobs": 0}, "jobs is 0; give a number of processes, or -1"),
        ({"jobs": True}, "jobs is True"),
        ({"address": "tcp://head:8786"}, "with engine 'local' and jobs -1; leave it out, or choose dask or ray"),
        ({"name": "dask", "address": "tcp://head:8786", "jobs": 2}, "leave jobs out: the cluster has its own workers"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(InvalidInput, match=said):
        opened(**given)
