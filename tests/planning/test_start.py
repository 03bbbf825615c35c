"""A second process finds everything compiled: no function is compiled again."""

import subprocess
import sys

SCRIPT = """
import numpy as np
import safe2real as s2r
from safe2real._compiled import crossing
kernel = s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5))
s2r.solve(s2r.CMDP.of(kernel, 2, 0, s2r.AtLeast(np.ones((2, 2)), 1.0)), np.ones((2, 2)))
print(sum(crossing.solve.stats.cache_misses.values()), sum(crossing.solve.stats.cache_hits.values()))
"""


def test_the_second_process_compiles_nothing():
    outputs = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert outputs[1] == ["0", "1"]
