"""The loop of all engines, on one that is no engine: which tasks are handed out, what is lost, what comes back."""

import itertools

import pytest

from safe2real.engines.base import LIVES, LOST, Engine, LostTask, in_order
from tests.engines.tasks import square


class Pretended(Engine):
    """Ends what was handed out last, at once; loses a task as often as `lost` says."""

    name = "pretended"

    def __init__(self, lost=None, workers=2):
        self.lost, self.count = dict(lost or {}), workers
        self.handed_out, self.cancelled, self.most = [], [], 0

    @property
    def workers(self):
        return self.count

    def submit(self, function, task):
        self.handed_out.append(task)
        return (len(self.handed_out), function, task)

    def finished(self, handles):
        self.most = max(self.most, len(handles))
        last = max(handles)
        _, function, task = last
        if self.lost.get(task, 0):
            self.lost[task] -= 1
            return [(last, LOST)]
        return [(last, function(task))]

    def cancel(self, handles):
        self.cancelled += [handle[2] for handle in handles]


def test_every_result_comes_once_whatever_is_lost():
    engine = Pretended({3: 2, 7: LIVES - 1})
    ended = list(engine.run(square, range(10)))
    assert sorted(ended) == [(number, number * number) for number in range(10)]
    assert len(engine.handed_out) == 10 + 2 + LIVES - 1
    assert engine.cancelled == []


def test_a_task_that_ends_every_worker_is_named():
    engine = Pretended({2: LIVES})
    with pytest.raises(LostTask, match=r"task 2 has lost its worker 5 times on engine 'pretended'.*run it alone"):
        list(engine.run(square, range(5)))
    assert engine.handed_out.count(2) == LIVES


def test_tasks_are_taken_a_few_ahead_and_given_up_when_nobody_listens():
    engine = Pretended()
    ended = engine.run(square, itertools.count())
    assert len(list(itertools.islice(ended, 20))) == 20
    ended.close()
    assert engine.most == 4
    assert len(engine.handed_out) - 20 == len(engine.cancelled) == 3


def test_without_workers_one_waits_for_those_to_come():
    assert len(list(Pretended(workers=0).run(square, range(3)))) == 3


def test_what_ends_early_waits_for_its_turn():
    assert list(in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")])) == ["a", "b", "c", "d"]
    assert list(in_order(Pretended({1: 1}).run(square, range(9)))) == [number * number for number in range(9)]
