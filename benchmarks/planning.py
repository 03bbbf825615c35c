"""The planner from round to round of learning, its start, and a linear program that takes HiGHS minutes.

Run `python -m benchmarks.planning`, with `--quick` to leave out what takes more than a few seconds; all else about the
planner is in `benchmarks.measure`. Competitors take turns on one core and medians are compared, so ratios carry over to
other machines better than times do. The exit code is 0 whatever is measured: a benchmark informs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

from benchmarks.instances import Size, perturbed, random_instance
from benchmarks.report import Target, interleaved, milliseconds, print_table, seconds
from experiments.oracles.linear_program import occupancy_program
from safe2real import solve
from safe2real.planning import Solution, Status

SMALL = Size(25, 4, 12, ragged=True)
PAPER = Size(25, 4, 12, grid=True)
MIDDLE = Size(400, 4, 50, grid=True)

FIRST_SOLVE = """
import numpy as np, safe2real
rng = np.random.default_rng(0)
kernel = safe2real.Kernel.from_dense(rng.dirichlet(np.full(25, 0.2), size=(25, 4)))
model = safe2real.CMDP.of(kernel, 12, 0, safe2real.AtLeast(rng.random((25, 4)), 7.0))
print(safe2real.solve(model, rng.random((25, 4))).status.name)
"""


def against_linear_program(sizes: Sequence[Size], *, instances: int, repeats: int, wanted: float | None) -> list[Target]:
    """`solve` cold, `solve` warm (one round of learning later) and HiGHS on the same problems; `wanted` is for cold ones."""
    rows: list[list[str]] = []
    targets: list[Target] = []
    for size in sizes:
        measured = [_one_against_linear_program(size, seed, repeats) for seed in range(instances)]
        cold, warm, program, difference, sweeps, active = (list(column) for column in zip(*measured, strict=True))
        ratio = statistics.median(p / c for p, c in zip(program, cold, strict=True))
        warm_ratio = statistics.median(p / w for p, w in zip(program, warm, strict=True))
        rows.append(
            [
                f"{size}, K = {size.constraints}",
                *(milliseconds(statistics.median(times)) for times in (cold, warm, program)),
                f"{ratio:,.0f}x",
                f"{warm_ratio:,.0f}x",
                f"{max(difference):.1e}",
                f"{min(sweeps):.0f} to {max(sweeps):.0f}",
                f"{sum(active):.0f} of {size.constraints * instances}",
            ]
        )
        if wanted is not None:
            targets.append(Target(f"{size}: HiGHS / solve, cold", f">= {wanted:,.0f}x", f"{ratio:,.0f}x", ratio >= wanted))
    print_table(
        f"solve against linprog(method='highs'), medians over {instances} instances",
        ["(S, A, H)", "cold", "warm", "HiGHS", "ratio", "warm ratio", "values differ", "sweeps", "active"],
        rows,
    )
    return targets


def _one_against_linear_program(size: Size, seed: int, repeats: int) -> tuple[float, float, float, float, int, int]:
    instance = random_instance(size, seed)
    model, reward = instance.model, instance.reward
    solution = solve(model, reward)
    later = perturbed(instance, np.random.default_rng(seed), rows=size.horizon, row_change=0.05, reward_change=0.001)
    program = occupancy_program(model, reward)
    answers: list[Any] = []

    def cold() -> None:
        for _ in range(10):  # one call takes less time than the clock's own jitter
            solve(model, reward)

    def warm() -> None:
        for _ in range(10):
            solve(later.model, later.reward, warm=solution)

    def reference() -> None:
        answers.append(linprog(**program, method="highs"))

    cold()
    warm()
    if repeats == 1:  # the reference is long: surround it
        cold_time, warm_time = interleaved([cold, warm], 5)
        program_time = seconds(reference)
        again_cold, again_warm = interleaved([cold, warm], 5)
        cold_time, warm_time = 0.5 * (cold_time + again_cold), 0.5 * (warm_time + again_warm)
    else:
        cold_time, warm_time, program_time = interleaved([cold, warm, reference], repeats)
    difference = abs(-float(answers[0].fun) - solution.value)
    active = int((solution.multipliers > 0.0).sum())
    return cold_time / 10, warm_time / 10, program_time, difference, solution.sweeps, active


def warm_loop() -> list[Target]:
    """Rounds of learning that each start from the solution of the one before, for three sizes of what a round changes."""
    rows: list[list[str]] = []
    targets: list[Target] = []
    for row_change, reward_change in ((0.05, 0.01), (0.05, 0.001), (0.01, 0.001)):
        rounds = [entry for seed in range(3) for entry in _warm_rounds(seed, row_change, reward_change)]
        sweeps = [solution.sweeps for solution, _, _ in rounds]
        warm = statistics.median(taken for _, taken, _ in rounds)
        cold = statistics.median(taken for _, _, taken in rounds)
        optimal = sum(solution.status is Status.OPTIMAL for solution, _, _ in rounds)
        mean, name = statistics.mean(sweeps), f"rows {row_change:.1%}, rewards {reward_change:.1%}"
        rows.append(
            [name, f"{mean:.2f}", str(max(sweeps)), milliseconds(warm), milliseconds(cold), f"{optimal} of {len(rounds)}"]
        )
        targets.append(Target(f"{SMALL}: mean sweeps of a warm round, {name}", "<= 4", f"{mean:.2f}", mean <= 4.0))
    header = ["change of 12 rows and all rewards", "mean sweeps", "largest", "warm", "cold", "optimal"]
    print_table(f"{SMALL}: 3 times 300 warm rounds", header, rows)
    return targets


def _warm_rounds(seed: int, row_change: float, reward_change: float) -> list[tuple[Solution, float, float]]:
    """Solution, warm time and cold time of each round."""
    rng = np.random.default_rng(seed)
    instance = random_instance(SMALL, seed)
    solution = solve(instance.model, instance.reward)
    rounds: list[tuple[Solution, float, float]] = []
    for _ in range(300):
        instance = perturbed(instance, rng, rows=SMALL.horizon, row_change=row_change, reward_change=reward_change)
        begin = time.perf_counter()
        solution = solve(instance.model, instance.reward, warm=solution)
        between = time.perf_counter()
        solve(instance.model, instance.reward)
        rounds.append((solution, between - begin, time.perf_counter() - between))
    return rounds


def start() -> list[Target]:
    """From nothing to the first solution in a fresh process: with no compiled code on disk, and with all of it there."""
    command = [sys.executable, "-c", FIRST_SOLVE]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}

        def run() -> None:
            subprocess.run(command, check=True, capture_output=True, env=environment)

        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        run()
        first = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        taken = interleaved([run], 5)[0]
    rows = [["first run, nothing compiled, processor time", f"{first:.2f} s"], ["median of the next 5", f"{taken:.2f} s"]]
    print_table("Import and first solve in a fresh process", ["", "time"], rows)
    return [
        Target("start: first solve with nothing compiled", "< 5 s", f"{first:.2f} s", first < 5.0),
        Target("start: import and first solve", "< 2 s", f"{taken:.2f} s", taken < 2.0),
    ]


def main() -> None:
    """Measure everything, then list the targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out HiGHS on (400, 4, 50), which takes minutes")
    quick = parser.parse_args().quick
    targets = warm_loop() + start()
    if not quick:
        targets += against_linear_program([MIDDLE], instances=1, repeats=1, wanted=5000.0)
    print("\nTargets")
    for target in targets:
        print(f"  {target}")


if __name__ == "__main__":
    main()
