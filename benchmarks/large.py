"""One large problem in a process of its own, so that its peak memory can be read: `python -m benchmarks.large [per-step]`.

Prints one JSON object. The yardstick for time is reading the same arrays once: no sweep can do with less.
"""

from __future__ import annotations

import json
import resource
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.instances import Instance, Size, random_instance, relative_gap, without_limits
from benchmarks.report import interleaved
from safe2real import solve

REPEATS = 7


def _passes(
    begin: NDArray[np.uint64],
    length: NDArray[np.uint64],
    successor: NDArray[np.uint64],
    probability: NDArray[np.float64],
    reward: NDArray[np.float64],
    utilities: NDArray[np.float64],
    times: int,
) -> float:
    # Loops over indices: numba does not vectorise loops over the elements themselves.
    total = 0.0
    whole = np.uint64(0)
    for _ in range(times):
        for i in range(begin.size):
            whole += begin[i] ^ length[i]
        for i in range(successor.size):
            whole += successor[i]
        for i in range(probability.size):
            total += probability[i]
        for i in range(reward.size):
            total += reward[i] * utilities[i]
    return total + whole


# fastmath lets the sums be reordered, hence vectorised: this runs at the speed of the memory.
_compiled_passes: Any = njit(fastmath=True)(_passes)


def stream(instance: Instance) -> float:
    """Read every array of the problem as often as one sweep must: in every step, all of it or that step's share."""
    kernel = instance.model.kernel
    indices = [array.view(np.uint64) for array in (kernel.begin, kernel.length, kernel.successor)]
    floats = [array.reshape(-1) for array in (kernel.probability, instance.reward, instance.model.utilities)]
    total: float = _compiled_passes(*indices, *floats, instance.model.horizon if kernel.is_stationary else 1)
    return total


def reset_peak() -> bool:
    """Forget the peak of resident memory so far; False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> int:
    """Peak of resident memory since `reset_peak`, or since the start of the process where that is not known."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Solve once for the memory, then in turn with streaming for the time."""
    instance = random_instance(Size(10_000, 4, 100, per_step="per-step" in sys.argv[1:]), seed=0)
    reset_peak()
    solution = solve(instance.model, instance.reward)
    peak = peak_bytes()
    stream(instance)
    loose = without_limits(instance)
    plans = [partial(solve, one.model, one.reward) for one in (instance, loose)]
    solving, passing, streaming = interleaved([*plans, partial(stream, instance)], REPEATS)
    result = {
        "status": solution.status.name,
        "sweeps": solution.sweeps,
        "gap": relative_gap(solution),
        "multiplier": float(solution.multipliers[0]),
        "peak": peak,
        "solve": solving,
        "pass": passing,
        "stream": streaming,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
