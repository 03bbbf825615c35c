"""Beyond the stop for any reward: what declared rewards, structure and trials need, in tables beside the certified study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.artefact import BLUE, GREEN, GREY, PURPLE, Comparison, Outcome, Table, save_figure
from experiments.store import Plain, Row, Task, results_where
from experiments.studies.declared_runs import declared_run
from experiments.studies.episodes_to_accuracy_runs import stop_run, tried_run

SEEDS = 5
CHECKPOINTS = [1_000, 3_000, 10_000, 30_000]
ACCURACY = 0.05
STOPS = {"lake": 5.0, "cliff": 3.0}  # at most 1 / so many of the episodes without the refinements
BOUNDS = {"lake": 0.05, "cliff": 0.01}  # of plans after 10,000 episodes, at most
# (system, reward) -> episodes to 5 % at most: with nothing declared, with the support, with ties by terrain (exact)
DECLARED: dict[tuple[str, str], tuple[int | None, int | None, int | None]] = {
    ("grid", "random"): (1_200, 500, 50),
    ("grid", "cell (0, 4)"): (8_000, 1_500, 110),
    ("grid", "cell (1, 2)"): (9_000, 1_200, 160),
    ("lake", "goal"): (5_500, None, None),
    ("cliff", "goal"): (None, 600, None),
    ("warehouse", "shelf"): (None, 1_500, None),
    ("pond", "water in store"): (None, None, None),
}
WAYS = ("nothing", "support", "ties")
WAYS_OF = {"grid": WAYS, "lake": WAYS[:2], "cliff": WAYS[:2], "warehouse": ("support",), "pond": WAYS}
COLOURS = dict(zip(WAYS, (BLUE, GREEN, PURPLE), strict=True))
MOST = {"grid": 20_000, "lake": 20_000, "cliff": 20_000, "warehouse": 3_000, "pond": 6_000}  # episodes
SEEDS_OF = {"warehouse": 2}  # a run takes a minute
TRIED = (("grid", "random"), ("grid", "cell (0, 4)"), ("pond", "water in store"))


def tasks(seeds: int) -> list[Task]:
    """Every run of it; `seeds` of the cheap ones, at most three of the long ones."""
    stops = [
        Task(stop_run, {"system": system, "refined": refined, "seed": seed, "checkpoints": CHECKPOINTS})
        for system in STOPS
        for refined in (True, False)
        for seed in range(min(seeds, 3))
    ]
    declared = [
        Task(declared_run, _settings(system, reward, way, seed))
        for (system, reward) in DECLARED
        for way in WAYS_OF[system]
        for seed in range(min(seeds, SEEDS_OF.get(system, SEEDS)))
    ]
    tried = [
        Task(tried_run, {"system": system, "reward": reward, "seed": seed, "before": 60, "most": 6_000})
        for system, reward in TRIED
        for seed in range(min(seeds, 3))
    ]
    return [*stops, *declared, *tried]


def _settings(system: str, reward: str, way: str, seed: int) -> Plain:
    return {
        "system": system,
        "reward": reward,
        "seed": seed,
        "support": way == "support",
        "ties": way == "ties",
        "accuracies": [ACCURACY],
        "most": MOST[system],
    }


def draw(rows: list[Row], folder: Path, outcome: Outcome) -> None:
    """Tables, comparisons and a figure, into the certified study's outcome."""
    _draw_stops([row for row in rows if row["kind"] == "stop"], outcome)
    declared = [row for row in rows if row["kind"] == "declared"]
    medians = _draw_declared(declared, outcome)
    _draw_tried([row for row in rows if row["kind"] == "tried"], outcome)
    _figure(medians, folder, outcome)
    results = [row["result"] for row in rows if row["kind"] in ("stop", "declared", "tried")]
    outcome.comparisons += [
        Comparison.count("unsafe rounds, other systems and rewards", 0, sum(one["unsafe_rounds"] for one in results)),
        Comparison.count("wrong rows cleared there", 0, sum(one.get("lost", 0) for one in results)),
    ]


def _draw_stops(rows: list[Row], outcome: Outcome) -> None:
    lines = []
    for system, wanted in STOPS.items():
        groups = [results_where(rows, system=system, refined=refined) for refined in (False, True)]
        without, refined = (float(np.mean([one["episodes"] for one in group])) for group in groups)
        bounds = [np.mean([one["bounds"][: len(CHECKPOINTS)] for one in group], axis=0) for group in groups]
        shown = [f"{before:.1%} -> {after:.2%}" for before, after in zip(*bounds, strict=True)]
        lines.append([system, f"{without:,.0f}", f"{refined:,.0f}", f"1/{without / refined:.1f}", *shown])
        outcome.comparisons.append(
            Comparison(
                f"{system}: episodes to the stop",
                f"<= 1/{wanted:g}",
                f"1/{without / refined:.2f}",
                without >= wanted * refined,
            )
        )
        late = float(bounds[1][CHECKPOINTS.index(10_000)])
        outcome.comparisons.append(
            Comparison(
                f"{system}: bound of plans after 10,000", f"< {BOUNDS[system]:.0%}", f"{late:.2%}", late < BOUNDS[system]
            )
        )
    header = [
        "system",
        "episodes to the stop, without",
        "refined",
        "share",
        *(f"plans miss after {n:,}" for n in CHECKPOINTS),
    ]
    outcome.more["certified-systems"] = Table(header, lines)


def _draw_declared(rows: list[Row], outcome: Outcome) -> dict[tuple[str, str, str], float]:
    medians, lines = {}, []
    for (system, reward), wanted in DECLARED.items():
        line = [f"{system}, {reward}"]
        for way, most in zip(WAYS, wanted, strict=True):
            group = results_where(
                rows, **{key: value for key, value in _settings(system, reward, way, 0).items() if key != "seed"}
            )
            if not group:
                line.append("-")
                continue
            episodes = [one["episodes"][0] if one["episodes"][0] is not None else np.inf for one in group]
            median = medians[system, reward, way] = float(np.median(episodes))
            low, middle, high = (_shown(value, system) for value in (min(episodes), median, max(episodes)))
            line.append(f"{middle} ({low} to {high})" if np.isfinite(max(episodes)) else middle)
            if most is not None:
                outcome.comparisons.append(
                    Comparison(
                        f"{system}, {reward}, {way}: episodes to 5 %",
                        f"<= {most:,}",
                        _shown(median, system),
                        median <= most,
                    )
                )
        runs = {row["settings"]["seed"] for row in rows if row["settings"]["system"] == system}
        lines.append([*line, *(f"{most:,}" if most else "-" for most in wanted), str(len(runs))])
    header = ["episodes to 5 %", *("declared: " + way for way in WAYS), *("wanted: " + way for way in WAYS), "seeds"]
    outcome.more["certified-declared"] = Table(header, lines)
    looked, true = (sum(row["result"][key] for row in rows) for key in ("looked", "true"))
    outcome.comparisons.append(Comparison.count("printed intervals that are true", looked, true))
    return medians


def _shown(episodes: float, system: str) -> str:
    return f"{episodes:,.0f}" if np.isfinite(episodes) else f"> {MOST[system]:,}"


def _draw_tried(rows: list[Row], outcome: Outcome) -> None:
    lines = []
    for row in rows:
        one, settings = row["result"], row["settings"]
        reached = [f"{value:,}" if value is not None else f"> {settings['most']:,}" for value in one["trial"].values()]
        lines.append(
            [f"{settings['system']}, {settings['reward']}", str(settings["seed"]), str(one["before"]), *reached]
            + [f"{one[key]:.3f}" for key in ("claimed", "worth", "best")]
        )
    header = [
        "reward",
        "seed",
        "episodes before",
        "trial: share 0.9",
        "floor at 80 %",
        "at 90 %",
        "claimed",
        "worth",
        "best",
    ]
    outcome.more["certified-tried"] = Table(header, lines)
    untested = sum(row["result"]["certified_untested"] for row in rows)
    outcome.comparisons.append(Comparison.count("untested structure called certified", 0, untested))


def _figure(medians: dict[tuple[str, str, str], float], folder: Path, outcome: Outcome) -> None:
    figure = Figure(figsize=(9.5, 3.8))
    axes = figure.add_subplot()
    names = list(DECLARED)
    for i, way in enumerate(WAYS):
        axes.bar([0], [0], color=COLOURS[way], label=f"declared: {way}")
        for at, (system, reward) in enumerate(names):
            value = medians.get((system, reward, way))
            if value is None:
                continue
            place, height = at + 0.26 * (i - 1), min(value, MOST[system])
            reached = bool(np.isfinite(value))
            axes.bar([place], [height], 0.25, color=COLOURS[way], alpha=1.0 if reached else 0.35)
            turned = 0 if reached else 90  # the longer text of what was not reached
            axes.text(place, height * 1.08, _shown(value, system), ha="center", fontsize=7, rotation=turned)
    axes.set_xticks(range(len(names)), [f"{system}\n{reward}" for system, reward in names], fontsize=8)
    axes.set(yscale="log", ylabel="real episodes (median)", ylim=(5, 20_000))
    axes.axhline(100, color=GREY, lw=0.8, ls=":")
    axes.set_title("Episodes until a plan is certified within 5 % of the best safe one (pale: not reached)", fontsize=11)
    axes.legend(fontsize=8, loc="upper left", ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder, "declared", outcome)
