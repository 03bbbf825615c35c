"""Large plans in processes of their own, so that peak memory can be read: `python -m benchmarks.million STATES`.

Prints one JSON object: 4 actions, H = 100, stationary rows with successors spread over all states, one constraint.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.instances import Size, random_instance, relative_gap
from benchmarks.large import peak_bytes, reset_peak
from safe2real import solve


def main() -> None:
    """Solve once, with as many threads as NUMBA_NUM_THREADS allows."""
    states = int(sys.argv[1])
    small = random_instance(Size(25, 4, 12), seed=0)
    solve(small.model, small.reward, threads=2)  # compiles what large systems need
    instance = random_instance(Size(states, 4, 100), seed=0)
    reset_peak()
    begin, used = time.perf_counter(), time.process_time()
    solution = solve(instance.model, instance.reward)
    taken, busy = time.perf_counter() - begin, time.process_time() - used
    result = {
        "states": states,
        "status": solution.status.name,
        "gap": relative_gap(solution),
        "passes": solution.sweeps,
        "seconds": taken,
        "processor_seconds": busy,
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
