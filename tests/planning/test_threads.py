"""Several threads plan together: the same bits as one, beside each other, after a fork, and when threads are scarce."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import safe2real as s2r
from safe2real import parallel
from safe2real.planning import threads
from tests.cases import each, sampled
from tests.planning.test_solve import fixed_recipe
from tests.random_models import Recipe, build


def bits(solution: s2r.planning.Solution) -> tuple[object, ...]:
    """All that a solution says, as bytes."""
    arrays = [solution.policy.weights, solution.constraint_values, solution.multipliers]
    arrays += [part.actions for part in solution.policy.policies]
    numbers = np.array([solution.value, solution.bound, solution.shortfall])
    return (solution.status, solution.sweeps, numbers.tobytes(), *(array.tobytes() for array in arrays))


def large(per_step: bool = False) -> tuple[s2r.CMDP, np.ndarray]:
    """Enough states for `sweeps.FAR` and for shares that differ."""
    return build(Recipe(5, 101, 3, 7, 1, per_step, "sparse", "random", "active", True))


@sampled("constraints", [0, 1, 2, 3], keep=[0, 1, 2])  # each number of constraints is compiled for itself
def test_any_number_of_threads_gives_the_same_bits(constraints: int) -> None:
    for seed in range(constraints, 120, 4):
        model, reward = build(fixed_recipe(seed))
        alone = s2r.solve(model, reward, threads=1)
        for count in (2, 3):
            assert bits(s2r.solve(model, reward, threads=count)) == bits(alone), (seed, count)
            again = s2r.solve(model, 1.0 - reward, warm=alone, threads=count)
            assert bits(again) == bits(s2r.solve(model, 1.0 - reward, warm=alone, threads=1)), (seed, count)


@each("per_step", [False, True])
def test_larger_systems_too(per_step: bool) -> None:
    model, reward = large(per_step)
    assert len({bits(s2r.solve(model, reward, threads=count)) for count in (1, 2, 3, 5)}) == 1


def test_plans_of_several_threads_do_not_disturb_each_other() -> None:
    model, reward = large()
    alone = bits(s2r.solve(model, reward, threads=1))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: bits(s2r.solve(model, reward, threads=2)), range(12)))
    assert set(found) == {alone}


def _in_child(queue: "multiprocessing.SimpleQueue[object]") -> None:
    model, reward = large()
    queue.put(bits(s2r.solve(model, reward, threads=2)))


def test_a_forked_process_plans_too() -> None:
    model, reward = large()
    alone = bits(s2r.solve(model, reward, threads=2))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get() == alone
    child.join()
    assert child.exitcode == 0


def test_fewer_threads_do_where_the_system_gives_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    model, reward = large()
    start, begun = threading.Thread.start, []

    def once(self: threading.Thread) -> None:
        begun.append(self)
        if len(begun) > 1:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", once)
    assert bits(s2r.solve(model, reward, threads=4)) == bits(s2r.solve(model, reward, threads=1))
    assert len(begun) == 2


def test_small_systems_get_one_thread_and_large_ones_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 8)
    monkeypatch.setattr(threads, "WORTH_A_TEAM", 20_000)
    monkeypatch.setattr(threads, "WORTH_A_MEMBER", 10_000)
    small, _ = build(fixed_recipe(1))
    assert threads.threads_for(small.kernel, small.horizon, None) == 1
    dense = s2r.Kernel.from_dense(np.random.default_rng(0).dirichlet(np.ones(150), size=(150, 2)))  # 45,000 transitions
    assert threads.threads_for(dense, 10, None) == 4
    assert threads.threads_for(dense, 10, 3) == 3


@each("wrong", [0, -1, 2.0, True, "2", 10_000])
def test_a_number_of_threads_that_is_none_is_refused(wrong: object) -> None:
    model, reward = build(fixed_recipe(1))
    with pytest.raises(s2r.errors.InvalidInput, match="threads"):
        s2r.solve(model, reward, threads=wrong)  # type: ignore[arg-type]


def _cores(_):
    return threads.cores()


def test_a_plan_within_one_of_many_tasks_has_one_thread(monkeypatch):
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(threads, "most_threads", lambda: 8)
    assert threads.cores() == 8
    assert list(parallel.run(_cores, range(2), jobs=2, compiled=True)) == [(0, 1), (1, 1)]
    assert threads.cores() == 8
