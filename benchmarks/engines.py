"""Twelve certified runs to their stop, by one worker and by two of every engine: `python -m benchmarks.engines`.

Prints one JSON object per line. Workers are started and have compiled code ready before the clock runs; an engine that is
not installed is left out. The runs are the same in every line, and their rounds are compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from experiments.studies.certified_runs import learner_of
from safe2real.errors import MissingExtra
from safe2real.exploration import simulate_many
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import Run
from safe2real.parallel import ENGINES, workers
from safe2real.refinements import DEFAULT

SEEDS = range(12)


def rounds_of(learner: Learner, run: Run) -> int:
    """What is kept of a run."""
    return run.rounds


def main() -> None:
    """By threads of this process, then by every engine."""
    names = [refinement.name for refinement in DEFAULT]
    kept = {
        "radius": "adaptive",
        "seed": 0,
        "span": True,
        "robust": True,
        "refinements": names,
        "support": True,
    }
    grid, learner = learner_of(kept)
    problem, real = learner.problem, grid.real()

    def measured() -> Iterator[tuple[str, int, float, list[int]]]:
        for name in ENGINES:
            for count in (1, 2):
                try:
                    with workers(name, jobs=count):
                        simulate_many(problem, SEEDS[:4], real, keep=rounds_of, max_rounds=100, jobs=count)
                        begin = time.perf_counter()
                        found = simulate_many(problem, SEEDS, real, keep=rounds_of, jobs=count)
                        yield name, count, time.perf_counter() - begin, found
                except MissingExtra as missing:
                    print(json.dumps({"engine": name, "left out": str(missing)}))

    first: list[int] | None = None
    for name, count, seconds, found in measured():
        first = first or found
        print(
            json.dumps(
                {
                    "engine": name,
                    "workers": count,
                    "seconds": round(seconds, 2),
                    "rounds": sum(found),
                    "same": found == first,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
