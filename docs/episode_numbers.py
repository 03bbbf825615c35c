"""Episodes to a certified plan on the paper's grid, as README and docs quote them: part of `reproduce certified`.

python docs/episode_numbers.py    # some minutes of one core
"""

from __future__ import annotations

import statistics

from experiments.studies import certified
from experiments.studies import episodes_to_accuracy as affordable

SEEDS = 3


def main() -> None:
    samples = {}
    for variant in ("literal constants", certified.TIGHT, certified.ALL):
        wanted = certified.VARIANTS[variant].settings
        tasks = [
            task for task in certified.tasks(SEEDS) if task.kind == "certified" and wanted.items() <= task.settings.items()
        ]
        runs = [task.run(task.settings) for task in tasks]
        assert len(runs) == SEEDS
        assert all(run["stopped"] and not run["unsafe_rounds"] for run in runs)
        samples[variant] = statistics.mean(run["samples"] for run in runs)
        rounds = statistics.mean(run["rounds"] for run in runs)
        print(f"any reward, {variant}: {samples[variant]:.2g} samples, {rounds:,.0f} episodes, mean of {SEEDS} seeds")
    literal, tight, refined = samples.values()
    print(
        f"all refinements: 1/{literal / refined:.0f} of the literal constants, 1/{tight / refined:.2f} without refinements"
    )
    for reward in ("random", "cell (0, 4)", "cell (1, 2)"):
        for way in affordable.WAYS:
            runs = [
                task.run(task.settings)
                for task in affordable.tasks(SEEDS)
                if task.kind == "declared"
                and (task.settings["system"], task.settings["reward"]) == ("grid", reward)
                and (task.settings["support"], task.settings["ties"]) == (way == "support", way == "ties")
            ]
            assert len(runs) == SEEDS
            assert not any(run["unsafe_rounds"] for run in runs)
            episodes = [run["episodes"][0] for run in runs]
            print(f"reward {reward}, declared {way}: {statistics.median(episodes):,} episodes to 5 %, median of {SEEDS}")


if __name__ == "__main__":
    main()
