"""Plans over sets of kernels against the extended linear program on HiGHS: how much faster, and whether they agree.

Run `python -m benchmarks.rectangular`. The sets are DOPE's: Bernstein boxes around rows that were seen 2,000 times each.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial

import numpy as np
from scipy.optimize import linprog

from benchmarks.instances import Size, random_instance
from benchmarks.report import Target, milliseconds, print_table, seconds
from experiments.oracles.extended_program import extended_program
from experiments.related.rectangular import KernelSet, balls, boxes, solve_optimistic
from safe2real.model.validation import Floats

SMALL = Size(25, 4, 12, ragged=True)
VISITS, LEVEL, GAP = 2_000.0, 12.0, 0.1
WANTED = 100.0


def _sets(seed: int, kind: str) -> tuple[KernelSet, Floats]:
    instance = random_instance(SMALL, seed)

    def half_width(p: Floats, rows: object) -> Floats:
        return np.sqrt(4.0 * LEVEL * p * (1.0 - p) / VISITS) + 14.0 * LEVEL / (3.0 * VISITS)

    if kind == "box":
        return boxes(instance.model, half_width), instance.reward
    return balls(instance.model, np.full(instance.model.kernel.shape, GAP)), instance.reward


def main(instances: int = 3) -> list[Target]:
    """Time both, instance after instance."""
    rows, targets = [], []
    for kind in ("box", "TV ball"):
        ratios, ours, theirs, differences, sweeps = [], [], [], [], []
        for seed in range(instances):
            sets, reward = _sets(seed, kind)
            found = solve_optimistic(sets, reward)
            taken = statistics.median(seconds(partial(solve_optimistic, sets, reward)) for _ in range(9))
            program = extended_program(sets, reward)
            begin = time.perf_counter()
            answer = linprog(**program, method="highs")
            long = time.perf_counter() - begin
            differences.append(abs(float(np.asarray(answer.fun)) + found.value))
            ours.append(taken)
            theirs.append(long)
            ratios.append(long / taken)
            sweeps.append(found.sweeps)
        ratio = statistics.median(ratios)
        times = [milliseconds(statistics.median(one)) for one in (ours, theirs)]
        rows.append([f"{SMALL}, {kind}", *times, f"{ratio:,.0f}x", f"{max(differences):.1e}", f"{max(sweeps)}"])
        targets.append(Target(f"{SMALL}, {kind}: HiGHS / ours", f">= {WANTED:.0f}x", f"{ratio:,.0f}x", ratio >= WANTED))
    print_table("Plans over sets of kernels", ["(S, A, H)", "ours", "HiGHS", "ratio", "values differ", "sweeps"], rows)
    for target in targets:
        print(f"  {target}")
    return targets


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
