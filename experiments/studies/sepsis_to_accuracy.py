"""ICU-Sepsis in the certified study: after how many patients is how much survival certified, row by row and by a trial?

A benchmark, NOT medical advice. Without the package `icu-sepsis` these runs are left out, and the page says so.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from experiments.artefact import BLUE, GREY, ORANGE, Comparison, Outcome, Table, save_figure
from experiments.store import Plain, Row, Task
from experiments.studies.sepsis_runs import sepsis_floor_run, sepsis_trial_run
from experiments.studies.sepsis_system import LEAST_SURVIVAL, NOT_INSTALLED, installed_records

# kind of run -> (certified survival, wanted within so many patients)
WANTED: dict[str, tuple[tuple[float, int], ...]] = {
    "sepsis_floor": ((0.73, 40_000), (0.775, 60_000)),
    "sepsis_trial": ((0.73, 7_000),),
}
NAMES = {"sepsis_floor": "every treatment in doubt", "sepsis_trial": "trial of the simulator's plan"}
COLOURS = {"sepsis_floor": BLUE, "sepsis_trial": ORANGE}
TRIAL_SEEDS = 3  # the floor has one: a run of minutes


def tasks(seeds: int) -> list[Task]:
    """One run with every treatment in doubt, and up to three trials; none where the package is not installed."""
    version = installed_records()
    if version is None:
        return []
    most = {kind: max(patients for _, patients in wanted) for kind, wanted in WANTED.items()}
    row_by_row = {"seed": 0, "first": 30_000, "every": 2_500, "most": most["sepsis_floor"], "records": version}
    return [
        Task(sepsis_floor_run, row_by_row),
        *(
            Task(sepsis_trial_run, {"seed": seed, "most": most["sepsis_trial"], "records": version})
            for seed in range(min(seeds, TRIAL_SEEDS))
        ),
    ]


def draw(rows: list[Row], folder: Path, outcome: Outcome) -> None:
    """A table, comparisons and a figure, into the certified study's outcome; a remark where there are no runs."""
    groups = {kind: [row["result"] for row in rows if row["kind"] == kind] for kind in WANTED}
    if not all(groups.values()):
        outcome.remarks.append(f"ICU-Sepsis was not run. {NOT_INSTALLED}")
        return
    lines = []
    for kind, results in groups.items():
        for floor, most in WANTED[kind]:
            reached = [_patients_until(result, floor) for result in results]
            slowest = None if None in reached else max(value for value in reached if value is not None)
            shown = f"> {most:,}" if slowest is None else f"{slowest:,}"
            within = slowest is not None and slowest <= most
            outcome.comparisons.append(
                Comparison(f"ICU-Sepsis, {NAMES[kind]}: patients to {floor:.1%}", f"<= {most:,}", shown, within)
            )
            each = ", ".join("not reached" if value is None else f"{value:,}" for value in reached)
            last = max(point["floor"] for result in results for point in result["points"])
            lowest = min(result["lowest"] for result in results)
            lines.append([NAMES[kind], str(len(results)), f"{floor:.1%}", f"{most:,}", each, f"{last:.2%}", f"{lowest:.2%}"])
    header = ["ICU-Sepsis", "seeds", "certified survival", "wanted: patients", "patients of each seed", "largest floor"]
    outcome.more["certified-sepsis"] = Table([*header, "lowest exact survival deployed"], lines)
    every = [result for results in groups.values() for result in results]
    for name, key in (("patients under an unsafe mixture", "unsafe_rounds"), ("wrong rows cleared", "lost")):
        outcome.comparisons.append(Comparison.count(f"ICU-Sepsis: {name}", 0, sum(one[key] for one in every)))
    outcome.comparisons.append(Comparison.count("ICU-Sepsis: false floors", 0, sum(one["false"] for one in every)))
    outcome.remarks.append(
        "ICU-Sepsis is a benchmark, not medical advice: every patient is simulated. With every treatment in doubt it has "
        "one seed, because a run takes minutes; of several trials the slowest counts."
    )
    _figure(groups, folder, outcome)


def _patients_until(result: Plain, floor: float) -> int | None:
    return next((point["patients"] for point in result["points"] if point["floor"] >= floor), None)


def _figure(groups: dict[str, list[Plain]], folder: Path, outcome: Outcome) -> None:
    figure = Figure(figsize=(8.5, 4.0))
    axes = figure.add_subplot()
    for kind, results in groups.items():
        for i, result in enumerate(results):
            patients, floors = ([point[key] for point in result["points"]] for key in ("patients", "floor"))
            label = f"{NAMES[kind]} ({len(results)} seed{'s' if len(results) > 1 else ''})" if i == 0 else None
            axes.plot(
                patients, floors, color=COLOURS[kind], lw=1.4, marker="o" if len(floors) < 30 else "", ms=3, label=label
            )
        for j, (floor, most) in enumerate(WANTED[kind]):
            wanted = f"wanted: {NAMES[kind]}" if j == 0 else None
            axes.plot([most], [floor], "D", color=COLOURS[kind], mfc="white", ms=7, label=wanted)
    axes.axhline(LEAST_SURVIVAL, color=GREY, lw=1, ls="--")
    axes.text(75_000, LEAST_SURVIVAL - 0.003, "limit on every deployment", fontsize=8, color=GREY, va="top", ha="right")
    axes.set(xscale="log", xlim=(300, 80_000), ylim=(0.6, 0.8), xlabel="simulated patients", ylabel="certified survival")
    axes.set_yticks([0.60, 0.62, 0.64, 0.66, 0.68, 0.70, 0.72, 0.74, 0.76, 0.78, 0.80])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title("ICU-Sepsis: certified survival of a plan", fontsize=11)
    axes.legend(fontsize=8, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder, "sepsis", outcome)
