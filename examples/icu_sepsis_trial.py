"""One sepsis treatment plan on trial: how many patients until its own outcomes certify it?

A benchmark, NOT medical advice. Every patient here is simulated.

    python examples/icu_sepsis_trial.py [--seeds N] [--patients N]

The systems, the clinicians and the limit are those of icu_sepsis.py. The plan is the best one for survival on the simulator,
which is too optimistic. Nothing of the simulator enters the certificate: no row, no support, no separation; the clinicians'
margin of 2 % and independent, identical patients are all it rests on. Prints after how many patients the certified survival
of the plan passes 70 %, 73 % and more, and the lowest exact survival of anything that was deployed.
"""

from __future__ import annotations

import argparse
from functools import partial

from rich.console import Console
from rich.progress import track

from experiments.studies.sepsis_system import LEAST_SURVIVAL, build, load_records
from experiments.studies.sepsis_trial import treat
from safe2real.errors import MissingExtra

FLOORS = (0.70, 0.73, 0.75)
PATIENTS, SEEDS = 20_000, 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--patients", type=int, default=PATIENTS)
    options = parser.parse_args()
    console, beside = Console(), Console(stderr=True)
    try:
        case = build(load_records())
    except MissingExtra as error:
        parser.error(str(error))
    console.print("[bold]A benchmark, NOT medical advice: the patients are simulated, its errors are made up.[/bold]")
    safe = True
    for seed in range(options.seeds):
        shown = partial(track, description=f"seed {seed}", console=beside, transient=True)
        course = treat(case, seed, options.patients, shown)
        found = ", ".join(f"{floor:.0%} after {course.patients_until(floor) or 'more'}" for floor in FLOORS)
        safe = safe and min(course.deployed) >= LEAST_SURVIVAL
        console.print(
            f"seed {seed}: certified survival of the plan passes {found}; {course.floors[-1][1]:.2%} after "
            f"{options.patients:,} (exactly {course.plan:.2%}). Lowest exact survival deployed {min(course.deployed):.2%} "
            f"(limit {LEAST_SURVIVAL:.0%})."
        )
    return 0 if safe else 1


if __name__ == "__main__":
    raise SystemExit(main())
