"""First plans: what they compile, what a second process finds, and the same bits once the search is compiled."""

import subprocess
import sys

import pytest

import safe2real as s2r
from safe2real._compiled import search
from tests.planning.test_solve import fixed_recipe
from tests.planning.test_threads import bits
from tests.random_models import build

SCRIPT = """
import numpy as np
import safe2real as s2r
from safe2real._compiled import search, sweeps
kernel = s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5))
s2r.solve(s2r.CMDP.of(kernel, 2, 0, s2r.AtLeast(np.ones((2, 2)), 1.0)), np.ones((2, 2)))
print(sum(sweeps.sweep_called.stats.cache_misses.values()), sum(sweeps.sweep_called.stats.cache_hits.values()))
print(len(search.solve_often.signatures))
"""


def test_the_second_process_compiles_nothing_and_no_process_the_search():
    outputs = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert outputs[1] == ["0", "1", "0"]


@pytest.mark.parametrize("constraints", [0, 1, 2, 3])
def test_a_process_that_plans_often_finds_the_same_bits(constraints: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(constraints, 160, 4):
        model, reward = build(fixed_recipe(seed))
        monkeypatch.setattr(search, "OFTEN", 10**9)
        plans = [s2r.solve(model, reward)]
        plans.append(s2r.solve(model, 1.0 - reward, warm=plans[0]))
        monkeypatch.setattr(search, "OFTEN", 0)
        again = [s2r.solve(model, reward)]
        again.append(s2r.solve(model, 1.0 - reward, warm=again[0]))
        assert [bits(one) for one in plans] == [bits(one) for one in again], seed
    assert search.solve_often.signatures
