"""Functions without reference counts leave no array behind: what is allocated in compiled rounds and plans is freed."""

import gc

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import safe2real as s2r
from safe2real._compiled import search


def kept_after(work: object) -> int:
    """How many arrays more are alive after a second call: the first one fills caches."""
    assert callable(work)
    work()
    gc.collect()
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        work()
        gc.collect()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.mi_alloc > before.mi_alloc
    return (after.mi_alloc - before.mi_alloc) - (after.mi_free - before.mi_free)


@pytest.mark.parametrize("name", ["lake", "machine"])
def test_simulated_rounds_free_what_they_allocate(name: str) -> None:
    problem = getattr(s2r.examples, name)(seed=0).problem

    def simulated() -> None:
        s2r.simulate(s2r.Learner(problem), problem.simulator.kernel, max_rounds=60)

    assert kept_after(simulated) == 0


def test_compiled_plans_free_what_they_allocate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "OFTEN", 0)
    problem = s2r.examples.lake(seed=0).problem
    reward = np.random.default_rng(0).random(problem.simulator.shape[1:])

    def planned() -> None:
        s2r.solve(problem.simulator, reward, warm=s2r.solve(problem.simulator, 1.0 - reward))

    assert kept_after(planned) == 0
