"""The planner against Storm's multi-objective engine on the same system: `python -m benchmarks.storm`.

Stationary rows: Storm answers multi(R{"reward"}max=? [C<=H], R{"safety"}>=threshold [C<=H]) natively, by backward induction
on weighted sums of the objectives until its lower and upper bound agree to its precision. Per-step rows: Storm has none, so
the step becomes part of its state and the same question is asked about total rewards [C] of an acyclic model.

Only the model checking call is timed. Storm is given its sparse engine, double arithmetic without forced soundness, and
several precisions; `solve` is always cold and exact.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.instances import Instance, Size, random_instance
from benchmarks.report import Target, interleaved, milliseconds, print_table
from safe2real import solve

HOW_TO_INSTALL = (
    "stormpy is missing; install it (GPL, never a dependency of this package) with\n"
    "  pip install -r benchmarks/requirements.txt"
)
WANTED = 20.0
DEFAULT = "default"
PRECISIONS = (DEFAULT, "1/100", "1/1000000")  # absolute, of the optimal value; the default is 1e-4


def storm_model(storm: Any, instance: Instance) -> Any:
    """The same system as a sparse MDP with two reward models; per-step rows are unrolled, with one last absorbing state."""
    model, kernel = instance.model, instance.model.kernel
    steps = kernel.horizon or 1
    layer = model.num_states if kernel.horizon else 0  # how far a step moves the state's number
    states = steps * model.num_states
    end = [states] if kernel.horizon else []
    builder = storm.datastructures.SparseMatrixBuilder[float](has_custom_row_grouping=True, force_dimensions=False)
    for row in range(kernel.num_rows):
        if row % model.num_actions == 0:
            builder.new_row_group(row)
        step = row // (model.num_states * model.num_actions)
        if end and step == steps - 1:
            builder.add_next_value(row, end[0], 1.0)
            continue
        successors, probabilities = kernel.row(row)
        for successor, probability in zip(successors.tolist(), probabilities.tolist(), strict=True):
            builder.add_next_value(row, successor + (step + 1) * layer, probability)
    for state in end:
        builder.new_row_group(kernel.num_rows)
        builder.add_next_value(kernel.num_rows, state, 1.0)
    labels = storm.models.StateLabeling(states + len(end))
    labels.add_label("init")
    labels.add_label_to_state("init", int(model.start.argmax()))
    rewards = {
        name: storm.models.SparseRewardModel[float](
            optional_state_action_reward_vector=values.reshape(-1).tolist() + [0.0] * len(end)
        )
        for name, values in (("reward", instance.reward), ("safety", model.utilities[0]))
    }
    return storm.models.SparseMdp[float](storm.models.SparseModelComponents[float](builder.build(), labels, rewards))


def storm_call(storm: Any, mdp: Any, instance: Instance, precision: str) -> Callable[[], float]:
    """Everything prepared; calling it is the model checking itself and returns the optimal value."""
    model = instance.model
    bound = f"C<={model.horizon}" if model.kernel.is_stationary else "C"
    query = f'multi(R{{"reward"}}max=? [{bound}], R{{"safety"}}>={model.thresholds[0]:.6f} [{bound}])'
    formula = storm.parse_properties(query)[0]
    environment = storm.Environment()
    if precision != DEFAULT:
        environment.modelchecker().multi().precision = storm.Rational(precision)

    def check() -> float:
        result = storm.model_checking(
            mdp, formula, only_initial_states=True, engine=storm.Engine.SPARSE, environment=environment
        )
        return float(result.get_value(mdp.initial_states[0]))

    return check


def compare(storm: Any, size: Size, repeats: int) -> Target:
    """Values first, then times in turn, for every precision; the target is for Storm's default one."""
    instance = random_instance(size, seed=0)
    # A threshold of few digits, so that both read exactly the same number.
    instance = Instance(instance.model.with_thresholds(instance.model.thresholds.round(6)), instance.reward)
    ours = solve(instance.model, instance.reward)
    mdp = storm_model(storm, instance)
    rows: list[list[str]] = []
    ratios: list[float] = []
    for precision in PRECISIONS:
        check = storm_call(storm, mdp, instance, precision)
        difference = check() - ours.value
        mine, storms = interleaved([partial(solve, instance.model, instance.reward), check], repeats)
        ratios.append(storms / mine)
        times = [milliseconds(storms), milliseconds(mine), f"{storms / mine:,.1f}x"]
        rows.append([f"precision {precision}", *times, f"{difference:+.1e}"])
    title = f"{size}: solve {ours.status.name}, value {ours.value:.9f}, {ours.sweeps} sweeps; Storm: {mdp.nr_states} states"
    print_table(title, ["", "Storm", "solve", "ratio", "Storm's value - ours"], rows)
    return Target(f"{size}: Storm / solve", f">= {WANTED:.0f}x", f"{ratios[0]:,.1f}x", ratios[0] >= WANTED)


def main() -> None:
    """Compare on stationary and on per-step rows, or say how to get Storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the states")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    try:
        storm = importlib.import_module("stormpy")
    except ImportError:
        print(HOW_TO_INSTALL)
        return
    print(f"Storm {storm.__version__}")
    states = 250 if arguments.quick else 2500
    sizes = [Size(states, 4, 100), Size(states, 4, 100, per_step=True)]
    targets = [compare(storm, size, arguments.repeats) for size in sizes]
    print("\nTargets")
    for target in targets:
        print(f"  {target}")


if __name__ == "__main__":
    main()
