"""Exact plans on a GPU against the CPU of the same machine: `python -m benchmarks.gpu`, which needs a GPU and `[gpu]`.

Prints one JSON object per line. Times are medians of some repetitions after one that is not counted: of `upload` (rows and
utilities copied and packed), `search` (everything from there to a proven optimum, its policies on the device) and `fetch`
(the policies of the mixture to the host). `whole` is one call of `solve`, the actions not read. The CPU is given as it is:
start with `taskset -c 0,1` for two cores; above `--cpu-states` states it is left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.instances import Size, random_instance, random_kernel
from safe2real import CMDP, AtLeast, Kernel, solve
from safe2real._compiled.rows import Rows
from safe2real.model.validation import Floats
from safe2real.planning import Solution, solve_many
from safe2real.planning.cuda import solve as device
from safe2real.planning.cuda.batch import Batch, upload
from safe2real.planning.cuda.runtime import find_cupy
from safe2real.planning.cuda.sweeper import Sweeper
from safe2real.planning.sweeper import LANES, slots_for

ACTIONS, HORIZON, SUCCESSORS = 4, 100, 5


def neighbouring_kernel(rng: np.random.Generator, states: int) -> Kernel:
    """Successors within 50 of the state, as on grids and in queues: what is read lies together."""
    rows = states * ACTIONS
    successor = rng.integers(20, size=(rows, SUCCESSORS)) + 20 * np.arange(SUCCESSORS) - 50
    successor += np.repeat(np.arange(states), ACTIONS)[:, None]
    probability = rng.random((rows, SUCCESSORS)) + 1e-3
    probability /= probability.sum(axis=1, keepdims=True)
    length = np.full(rows, SUCCESSORS, dtype=np.uint32)
    begin = (np.cumsum(length, dtype=np.uint32) - length).astype(np.uint32)
    return Kernel(
        states, ACTIONS, None, Rows(begin, length, (successor % states).astype(np.uint32).ravel(), probability.ravel())
    )


def instance(states: int, kind: str, constraints: int) -> tuple[CMDP, Floats, Batch]:
    """A system on the device, whose thresholds lie halfway between what reward alone and all utilities together reach."""
    rng = np.random.default_rng(0)
    size = Size(states, ACTIONS, HORIZON, SUCCESSORS)
    kernel = random_kernel(rng, size) if kind == "spread" else neighbouring_kernel(rng, states)
    reward, *utilities = (rng.random((states, ACTIONS)) for _ in range(1 + constraints))
    model = CMDP.of(kernel, HORIZON, 0, [AtLeast(utility, 0.0) for utility in utilities])
    batch = uploaded(model, reward)
    weights = np.zeros((1, LANES, 1 + constraints))
    weights[0, 0, 0], weights[0, 1, 1:] = 1.0, 1.0
    with device._stream():
        lines = Sweeper(batch).greedy(weights, np.array([[0, 1] + [-1] * (LANES - 2)], dtype=np.int32))
    return model.with_thresholds(lines[0, :2, 1:].mean(axis=0)), reward, batch


def uploaded(model: CMDP, reward: Floats) -> Batch:
    """The system on the device, when it is there."""
    cupy = find_cupy()
    with device._stream() as stream:
        batch = upload(cupy, [model], [reward[None]], slots_for(model.num_constraints), LANES)
        stream.synchronize()
    return batch


def timed(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median time, and what the last call gave."""
    found, times = None, []
    for _ in range(repeats + 1):
        found = None  # what an earlier one holds on the device is let go first
        begin = time.perf_counter()
        found = call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:] or times), found


def facts(solution: Solution) -> dict[str, Any]:
    """What is compared."""
    return {
        "status": solution.status.name,
        "passes": solution.sweeps,
        "value": solution.value,
        "bound_minus_value": solution.bound - solution.value,
        "multipliers": solution.multipliers.tolist(),
    }


def one_size(states: int, kind: str, constraints: int, *, repeats: int, cpu_states: int) -> dict[str, Any]:
    """One system on the device and on the CPU."""
    model, reward, batch = instance(states, kind, constraints)
    cupy, placed = batch.cupy, [batch]
    del batch  # `placed` alone holds it, until its memory is wanted

    def search() -> Solution:
        with device._stream():
            return device.search(placed[0], [model]).solution(0)

    search_time, found = timed(search, repeats)
    held = cupy.get_default_memory_pool().used_bytes() / 2**30
    result = {"what": "one system", "states": states, "successors": kind, "constraints": constraints, **facts(found)}
    result["search"], result["per_pass"] = search_time, search_time / found.sweeps
    rows = states * ACTIONS * SUCCESSORS * 12
    result["rows_read_TB_per_s"] = rows * HORIZON * found.sweeps / search_time / 1e12
    begin = time.perf_counter()
    actions = [part.actions for part in found.policy.policies]
    result["fetch"], result["policies"] = time.perf_counter() - begin, len(actions)
    result["held_GiB"] = held
    del actions
    placed.clear()
    cupy.get_default_memory_pool().free_all_blocks()
    result["upload"], _ = timed(lambda: uploaded(model, reward) and None, 1)
    result["whole"], _ = timed(lambda: solve(model, reward, device="cuda"), 1)
    result["pool_GiB"] = cupy.get_default_memory_pool().total_bytes() / 2**30
    result |= on_cpu(model, reward, found, cpu_states)
    cupy.get_default_memory_pool().free_all_blocks()
    return result


def on_cpu(model: CMDP, reward: Floats, found: Solution, cpu_states: int) -> dict[str, Any]:
    """The CPU's plan, and its own proof of the device's policies."""
    if model.num_states > cpu_states:
        return {}
    small = random_instance(Size(25, ACTIONS, 12, constraints=model.num_constraints), 0)
    solve(small.model, small.reward, threads=2)  # what is compiled for large systems
    taken, yours = timed(lambda: solve(model, reward), 3 if model.num_states <= 10_000 else 0)
    begin = time.perf_counter()
    again = solve(model, reward, warm=found)
    return {
        "cpu": taken,
        "cores": len(os.sched_getaffinity(0)),
        "cpu_passes": yours.sweeps,
        "value_differs": abs(yours.value - found.value),
        "bound_differs": abs(yours.bound - found.bound),
        "actions_differ": actions_that_differ(found, yours),
        "proven_again_in": time.perf_counter() - begin,
        "proven_again": again.status.name,
    }


def actions_that_differ(one: Solution, other: Solution) -> int:
    """How many; -1 where the mixtures are of different numbers of policies."""
    parts, others = one.policy.policies, other.policy.policies
    if len(parts) != len(others):
        return -1
    return sum(int(np.count_nonzero(p.actions != q.actions)) for p, q in zip(parts, others, strict=True))


def many(count: int, size: Size) -> dict[str, Any]:
    """Many small systems at once, against one after the other on the CPU."""
    drawn = [random_instance(size, seed) for seed in range(count)]
    models, rewards = [one.model for one in drawn], [one.reward for one in drawn]
    taken, found = timed(lambda: solve_many(models, rewards, device="cuda"), 3)
    begin = time.perf_counter()
    answers = solve_many(models, rewards)
    one_by_one = time.perf_counter() - begin
    return {
        "what": f"many systems {size}",
        "constraints": size.constraints,
        "systems": count,
        "whole": taken,
        "cpu": one_by_one,
        "cores": len(os.sched_getaffinity(0)),
        "ratio": one_by_one / taken,
        "passes_of_the_longest": int(found.sweeps.max()),
        "value_differs": float(np.abs(found.values - answers.values).max()),
        "same_statuses": found.statuses == answers.statuses,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=float, nargs="*", default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--kinds", nargs="*", default=["spread", "neighbouring"])
    parser.add_argument("--systems", type=float, nargs="*", default=[1e3, 1e4])
    parser.add_argument("--constraints", type=int, nargs="*", default=[1])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu-states", type=float, default=1e5)
    given = parser.parse_args(arguments)
    cupy = find_cupy()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(json.dumps({"device": name, "cupy": cupy.__version__, "numpy": np.__version__}), flush=True)
    for constraints in given.constraints:
        for count in given.systems:
            for size in (
                Size(25, 4, 12, ragged=True, constraints=constraints),
                Size(400, 4, 50, constraints=constraints),
            ):
                print(json.dumps(many(int(count if size.states < 100 else count / 10), size)), flush=True)
    for states, kind, constraints in itertools.product(given.states, given.kinds, given.constraints):
        result = one_size(int(states), kind, constraints, repeats=given.repeats, cpu_states=int(given.cpu_states))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
