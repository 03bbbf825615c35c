"""All that docs/performance.md shows, measured into one JSON file: `python -m benchmarks.measure --out out/bench.json`.

Ratios compare calls that took turns. Growth is in processor time of one thread, which another process's load does not add to
(it still shares caches and memory). The file begins with the facts of the machine; `benchmarks.page` makes the page of it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.facts import machine
from benchmarks.highs_warm import warm_call
from benchmarks.instances import Instance, Size, random_instance, without_limits
from benchmarks.planning import PAPER, SMALL, _one_against_linear_program
from benchmarks.report import interleaved
from benchmarks.storm import DEFAULT, storm_call, storm_model
from safe2real import solve
from safe2real.errors import InvalidInput
from safe2real.planning.cuda.runtime import find_cupy

Rows = list[dict[str, Any]]


def linear_programs(quick: bool) -> Rows:
    """`solve` cold and warm against `linprog(method="highs")`, and against a HiGHS model that is kept, where highspy is."""
    rows: Rows = []
    kinds = [PAPER, SMALL, replace(SMALL, per_step=True), replace(SMALL, constraints=2), replace(SMALL, constraints=3)]
    for size in kinds:
        measured = [_one_against_linear_program(size, seed, 5 if quick else 15) for seed in range(3 if quick else 8)]
        cold, warm, program, _, sweeps, _ = zip(*measured, strict=True)
        instance = random_instance(size, 0)
        later = instance.reward * (1.0 + 0.001 * np.random.default_rng(0).standard_normal(instance.reward.shape))
        kept = warm_call(instance, later)
        row = {
            "size": f"{size}, K = {size.constraints}",
            "cold": statistics.median(p / c for p, c in zip(program, cold, strict=True)),
            "warm": statistics.median(p / w for p, w in zip(program, warm, strict=True)),
            "passes": statistics.mean(sweeps),
            "milliseconds": 1e3 * statistics.median(cold),
        }
        if kept is not None:
            before = solve(instance.model, instance.reward)
            ours, theirs = interleaved([partial(solve, instance.model, later, warm=before), kept], 15)
            row |= {"kept_model": theirs / ours, "kept_differs": abs(kept() - solve(instance.model, later).value)}
        rows.append(row)
    return rows


def storm(quick: bool) -> Rows:
    """Storm's multi-objective engine at its default precision against exact plans by threads and on a GPU, or nothing."""
    try:
        peer = importlib.import_module("stormpy")
    except ImportError:
        return []
    rows: Rows = []
    sizes = [Size(250, 4, 100)] if quick else [Size(2500, 4, 100), Size(2500, 4, 100, per_step=True), Size(10_000, 4, 100)]
    for size in sizes:
        instance = random_instance(size, seed=0)
        instance = Instance(instance.model.with_thresholds(instance.model.thresholds.round(6)), instance.reward)
        check = storm_call(peer, storm_model(peer, instance), instance, DEFAULT)
        ways = {count_of(n): partial(solve, instance.model, instance.reward, threads=n) for n in thread_counts((1, 2, 16))}
        if has_gpu():
            ways["GPU"] = partial(solve, instance.model, instance.reward, device="cuda")
        ours = [call() for call in ways.values()]
        difference = check() - ours[0].value
        *mine, theirs = interleaved([*ways.values(), check], 3 if size.per_step else 7)
        ratios = {name: theirs / taken for name, taken in zip(ways, mine, strict=True)}
        rows.append(
            {
                "size": str(size),
                "ratio": ratios,
                "storm_seconds": theirs,
                "seconds": dict(zip(ways, mine, strict=True)),
                "differs": difference,
                "passes": ours[0].sweeps,
            }
        )
    return rows


def thread_counts(wanted: Iterable[int]) -> list[int]:
    """Those of some numbers of threads that this machine has cores for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [count for count in wanted if count <= cores]


def count_of(threads: int) -> str:
    """In words."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def has_gpu() -> bool:
    """Whether plans can be made on a GPU here."""
    try:
        find_cupy()
    except InvalidInput:
        return False
    return True


def _pass_time(size: Size, threads: int = 1, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of one pass over all rows, the least of some: what disturbs only adds."""
    instance = without_limits(random_instance(size, 0))
    if solve(instance.model, instance.reward, threads=threads).sweeps != 1:
        raise SystemExit(f"{size}: a plan without limits takes more than one pass")
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < 0.3:
        begin = clock()
        solve(instance.model, instance.reward, threads=threads)
        taken.append(clock() - begin)
    return min(taken)


def growth(quick: bool) -> dict[str, Rows]:
    """Time of one pass when one dimension grows over two decades (one with `--quick`)."""
    base = Size(1_000, 4, 20)
    states = [1_000, 3_162, 10_000, 31_623, 100_000][: 3 if quick else 5]

    def along(name: str, values: Iterable[int], made: Callable[[int], Size]) -> Rows:
        sizes = {value: made(value) for value in values}
        rounds = [{value: _pass_time(size) for value, size in sizes.items()} for _ in range(3)]  # what disturbs, lasts
        return [{name: value, "seconds": min(found[value] for found in rounds)} for value in sizes]

    return {
        "states": along("states", states, lambda n: replace(base, states=n)),
        "states_near": along("states", states, lambda n: replace(base, states=n, near=True)),
        "horizon": along("horizon", [10, 32, 100, 316, 1_000][: 3 if quick else 5], lambda n: replace(base, horizon=n)),
        "successors": along("successors", [5, 16, 50, 158, 500][: 3 if quick else 5], lambda n: replace(base, successors=n)),
        "constraints": along("constraints", [1, 2, 3], lambda n: replace(base, constraints=n)),
    }  # fmt: skip


def threads(quick: bool) -> Rows:
    """Wall time of one pass by the number of threads."""
    counts = thread_counts((1, 2, 4, 8, 16))
    sizes = [Size(250, 4, 100), Size(2_500, 4, 100)]
    if not quick:
        sizes += [Size(1_000, 4, 100), Size(10_000, 4, 100), Size(10_000, 4, 100, per_step=True), Size(100_000, 4, 20)]
    return [
        {"size": str(size), "threads": count, "seconds": _pass_time(size, count, time.perf_counter)}
        for size in sizes
        for count in counts
    ]


def in_processes(module: str, arguments: Iterable[list[str]], **environment: str) -> Rows:
    """Benchmarks that need a process of their own, for its memory."""
    rows: Rows = []
    for argument in arguments:
        command = [sys.executable, "-m", module, *argument]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
        rows.append({"argument": " ".join(argument)} | json.loads(done.stdout))
    return rows


def main() -> None:
    """Measure, write, and add a line to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--history", type=Path, default=Path("benchmarks/history.jsonl"))
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, and no history")
    parser.add_argument("--million", action="store_true", help="a million states too: minutes, 2 GiB")
    given = parser.parse_args()
    quick = given.quick
    result: dict[str, Any] = {"machine": machine()}
    parts: dict[str, Callable[[], Any]] = {
        "linear_programs": partial(linear_programs, quick),
        "growth": partial(growth, quick),
        "threads": partial(threads, quick),
        "storm": partial(storm, quick),
        "floor": partial(in_processes, "benchmarks.large", [] if quick else [["stationary"], ["per-step"]]),
        "memory": partial(
            in_processes,
            "benchmarks.million",
            [["10000"]] if quick else [["100000"]] + ([["1000000"]] if given.million else []),
            NUMBA_NUM_THREADS=str(os.cpu_count()),
        ),
    }
    for name, part in parts.items():
        begin = time.perf_counter()
        result[name] = part()
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(result, indent=1) + "\n")  # after every part: a long run that is stopped keeps some
    if not quick:
        line = {"machine": result["machine"], "ratios": headline(result)}
        with given.history.open("a") as history:
            history.write(json.dumps(line) + "\n")


def headline(result: dict[str, Any]) -> dict[str, float]:
    """The ratios by which a regression is seen: to peers of the same run, so that machines compare."""
    ratios = {f"HiGHS / solve, {row['size']}": row["cold"] for row in result["linear_programs"]}
    ratios |= {f"Storm / solve, {row['size']}, {way}": x for row in result["storm"] for way, x in row["ratio"].items()}
    return {name: round(ratio, 2) for name, ratio in ratios.items()}


if __name__ == "__main__":
    main()
