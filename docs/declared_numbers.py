"""Episodes to 5 % that declared-rewards.md, structure.md and samples.md quote, beyond those on the grid.

python docs/declared_numbers.py [SYSTEM ...]    # cliff, lake, warehouse, pond, tried, ledge; all without a name

The grid's are those of docs/episode_numbers.py. All of them are runs of `python -m experiments certified`, or of the tests.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import safe2real as s2r
from experiments.studies.declared_runs import declared_run
from experiments.studies.episodes_to_accuracy import ACCURACY, MOST, TRIED
from experiments.studies.episodes_to_accuracy_runs import tried_run
from tests.evidence.tied_systems import ledge, ledge_problem

SEEDS = 3
WAREHOUSE_SEEDS = 2  # a run takes a minute


def print_declared(system: str, rewards: dict[str, tuple[str, ...]], seeds: int = SEEDS) -> None:
    """Print the episodes of every seed, and their median, for each reward and way of declaring."""
    for reward, ways in rewards.items():
        for way in ways:
            settings = {"system": system, "reward": reward, "accuracies": [ACCURACY], "most": MOST[system]}
            declared = {"support": way == "support", "ties": way == "ties"}
            runs = [declared_run(settings | declared | {"seed": seed}) for seed in range(seeds)]
            assert not any(run["unsafe_rounds"] or run["lost"] for run in runs)
            assert all(run["looked"] == run["true"] for run in runs)
            episodes = [run["episodes"][0] or float("inf") for run in runs]
            each = ", ".join(f"{one:,.0f}" if one < float("inf") else "-" for one in episodes)
            middle = statistics.median(episodes)
            shown = (
                f"{middle:,.0f} episodes to 5 %" if middle < float("inf") else f"not to 5 % within {MOST[system]:,} episodes"
            )
            print(f"{system}, {reward}, declared {way}: {shown} (seeds: {each});", end=" ")
            widths = [100.0 * (1.0 - run["lower"] / run["upper"]) for run in runs]
            print("intervals then", ", ".join(f"{width:.1f} %" for width in widths), end="; ")
            print("plans", ", ".join(str(run["plans"]) for run in runs), flush=True)


def print_tried() -> None:
    """Print what a trial needs that certifies a policy which ties have found, not called exact."""
    for system, reward in TRIED:
        for seed in range(SEEDS):
            run = tried_run({"system": system, "reward": reward, "seed": seed, "before": 60, "most": 6_000})
            assert not run["unsafe_rounds"]
            assert not run["certified_untested"]
            reached = {key: f"{value:,}" if value else "not reached" for key, value in run["trial"].items()}
            print(f"tried: {system}, {reward}, seed {seed}: share 0.9 after {reached['share']} episodes,", end=" ")
            print(f"floor at 80 % after {reached['80 %']}, at 90 % after {reached['90 %']};", end=" ")
            print(f"worth {run['worth'] / run['best']:.3f} of the best", flush=True)


def print_ledge() -> None:
    """Print how soon false ties are refuted, and how often they would have been believed."""
    alike = {"classes": lambda cell, action: "anywhere", "law": {"anywhere": [0.95, 0.05]}}
    real, runs = ledge((0.05, 0.45)), 20
    reward = real.system.reward
    best, believed, refuted = s2r.solve(real.model, reward).value, 0, {40: 0, 100: 0}
    for seed in range(runs):
        simulated = ledge((0.05, 0.05), **alike)
        learner = s2r.Learner(ledge_problem(simulated, simulated.ties, seed))
        for episodes in refuted:
            s2r.simulate(learner, real.model.kernel, max_rounds=episodes + 1 - learner.round)
            refuted[episodes] += learner.evidence.structured.is_refuted
            if episodes == 40:
                believed += learner.plan_with_structure(reward).value > best + 1e-9
    for episodes, count in refuted.items():
        print(f"ledge: false ties are refuted within {episodes} episodes in {count} of {runs} runs")
    print(f"ledge: after 40 episodes the plan claims more than the best in {believed} of {runs} runs", flush=True)


CLIFF = {"goal": ("nothing", "support"), "cell (2, 6)": ("nothing", "support")}
LAKE = {"goal": ("nothing", "support"), "cell (5, 4)": ("support",)}
PARTS: dict[str, Callable[[], None]] = {
    "ledge": print_ledge,
    "cliff": partial(print_declared, "cliff", CLIFF),
    "lake": partial(print_declared, "lake", LAKE),
    "tried": print_tried,
    "warehouse": partial(print_declared, "warehouse", {"shelf": ("support",)}, WAREHOUSE_SEEDS),
    "pond": partial(print_declared, "pond", {"water in store": ("ties", "support", "nothing")}),
}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
