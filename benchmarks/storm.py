"""The planner against Storm's multi-objective engine on the same system: `python -m benchmarks.storm`.

Storm answers multi(R{"reward"}max=? [C<=H], R{"safety"}>=threshold [C<=H]) natively: backward induction for weighted sums of
the objectives, refined until lower and upper bound agree to its precision. Only the model checking call is timed. Storm is
given its sparse engine, double arithmetic without forced soundness (step-bounded values need none), and several precisions.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.instances import Instance, Size, random_instance
from benchmarks.report import Target, interleaved, milliseconds, print_table
from safe2real import CMDP, solve

HOW_TO_INSTALL = "stormpy is missing; install it (GPL, not a dependency of this package) with: pip install -r benchmarks/requirements-storm.txt"
WANTED = 20.0
DEFAULT = "default"
PRECISIONS = (DEFAULT, "1/100", "1/1000000")  # absolute, of the optimal value; the default is 1e-4


def storm_model(storm: Any, model: CMDP, reward: Any) -> Any:
    """The same stationary system as a sparse MDP with two reward models."""
    kernel = model.kernel
    builder = storm.datastructures.SparseMatrixBuilder[float](
        kernel.num_rows, model.num_states, kernel.successor.size, True, True, model.num_states
    )
    for row in range(kernel.num_rows):
        if row % model.num_actions == 0:
            builder.new_row_group(row)
        for successor, probability in zip(*kernel.row(row), strict=True):
            builder.add_next_value(row, int(successor), float(probability))
    labels = storm.models.StateLabeling(model.num_states)
    labels.add_label("init")
    labels.add_label_to_state("init", int(model.start.argmax()))
    rewards = {
        name: storm.models.SparseRewardModel[float](optional_state_action_reward_vector=values.reshape(-1).tolist())
        for name, values in (("reward", reward), ("safety", model.utilities[0]))
    }
    components = storm.models.SparseModelComponents[float](builder.build(), labels, rewards)
    return storm.models.SparseMdp[float](components)


def storm_call(storm: Any, instance: Instance, precision: str) -> Callable[[], float]:
    """Everything prepared; calling it is the model checking itself and returns the optimal value."""
    model = instance.model
    mdp = storm_model(storm, model, instance.reward)
    bound = f"C<={model.horizon}"
    query = f'multi(R{{"reward"}}max=? [{bound}], R{{"safety"}}>={model.thresholds[0]:.6f} [{bound}])'
    formula = storm.parse_properties(query)[0]
    environment = storm.Environment()
    if precision != DEFAULT:
        environment.modelchecker().multi().precision = storm.Rational(precision)
    initial = mdp.initial_states[0]

    def check() -> float:
        result = storm.model_checking(
            mdp, formula, only_initial_states=True, engine=storm.Engine.SPARSE, environment=environment
        )
        return float(result.get_value(initial))

    return check


def main() -> None:
    """Compare values first, then times; our call is always cold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the states")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    try:
        storm = importlib.import_module("stormpy")
    except ImportError:
        sys.exit(HOW_TO_INSTALL)
    size = Size(250 if arguments.quick else 2500, 4, 100)
    instance = random_instance(size, seed=0)
    # A threshold of few digits, so that both read exactly the same number.
    instance = Instance(instance.model.with_thresholds(instance.model.thresholds.round(6)), instance.reward)
    ours = solve(instance.model, instance.reward)
    rows: list[list[str]] = []
    ratios: list[float] = []
    for precision in PRECISIONS:
        check = storm_call(storm, instance, precision)
        difference = check() - ours.value
        mine, storms = interleaved([lambda: solve(instance.model, instance.reward), check], arguments.repeats)
        ratios.append(storms / mine)
        rows.append(
            [
                f"Storm, precision {precision}",
                milliseconds(storms),
                milliseconds(mine),
                f"{storms / mine:,.1f}x",
                f"{difference:+.1e}",
            ]
        )
    print(f"Storm {storm.__version__} on {size}; solve: {ours.status.name}, value {ours.value:.9f}, {ours.sweeps} sweeps")
    print_table("solve, cold, against Storm", ["", "Storm", "solve", "ratio", "Storm's value - ours"], rows)
    print(f"\n  {Target(f'{size}: Storm / solve', f'>= {WANTED:.0f}x', f'{ratios[0]:,.1f}x', ratios[0] >= WANTED)}")


if __name__ == "__main__":
    main()
