"""Regenerate tables and figures of the paper: run what is missing, draw, compare, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.artefact import Artefact, Outcome, save_rows
from experiments.catalogue import NAMES, artefact_of, check_names
from experiments.oracles.linear_program import occupancy_program
from experiments.page import write_report
from experiments.paper.inferred import learner_on
from experiments.runner import run_all
from experiments.store import Row, Store
from safe2real.errors import InvalidInput
from safe2real.exploration.simulate import simulate
from safe2real.systems.windy_grid import WindyGrid

ARTEFACTS: tuple[Artefact, ...] = tuple(artefact_of(name) for name in NAMES)


def choose(names: Sequence[str]) -> list[Artefact]:
    """The named artefacts in the paper's order; all that are the paper's for no name."""
    check_names(names)
    return [artefact for artefact in ARTEFACTS if (artefact.name in names if names else not artefact.beyond_the_paper)]


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    seeds: int | None = None,
    jobs: int = -1,
    engine: str = "local",
    address: str | None = None,
    console: Console,
) -> Path:
    """Everything for the named artefacts into `out`; returns the path of the report. Finished runs are not repeated."""
    began = time.perf_counter()
    chosen = choose(names)
    if seeds is not None and seeds < 1:
        raise InvalidInput(f"seeds is {seeds}; give at least 1")
    store = Store(out / "runs")
    tasks = [task for artefact in chosen for task in artefact.tasks(seeds)]
    unique = len({task.id for task in tasks})
    fresh = run_all(tasks, store, jobs=jobs, engine=engine, address=address, console=console)
    console.print(f"{unique} runs: {fresh} done now, {unique - fresh} kept from before")
    results: list[tuple[Artefact, Outcome, float]] = []
    shown: list[Row] = []
    for artefact in ARTEFACTS:
        folder, needed = out / artefact.name, artefact.tasks(seeds)
        # The report also keeps what earlier calls have finished here.
        if artefact not in chosen and (not folder.is_dir() or store.missing(needed)):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        rows = store.rows(needed)
        shown += rows
        if rows:
            save_rows(rows, folder)
        outcome = artefact.draw(rows, folder)
        if outcome.table is not None:
            (folder / f"{artefact.name}.md").write_text(outcome.table.markdown())
        for name, table in outcome.more.items():
            (folder / f"{name}.md").write_text(table.markdown())
        results.append((artefact, outcome, sum(row["seconds"] for row in rows)))
        if artefact in chosen:
            _print(console, artefact, outcome)
    cost = linprog_cost(shown)
    report = out / "report.html"
    write_report(results, report, wall=time.perf_counter() - began, cost=cost, seeds=seeds)
    if cost:
        console.print(cost)
    return report


def linprog_cost(rows: Sequence[Row]) -> str:
    """What the same exploration runs would cost with one `linprog` per round, from a measured sample of its rounds."""
    explored = {row["id"]: row for row in rows if row["kind"] == "explore"}
    if not explored:
        return ""
    from scipy.optimize import linprog  # slow to import

    grid = WindyGrid.paper()
    learner = learner_on(grid, seed=0, mismatch_gap=0.68)
    times = []
    for _ in range(7):
        simulate(learner, grid.real(), max_rounds=300)
        problem = occupancy_program(learner.simulator.with_kernel(learner.evidence.to_kernel()), learner.evidence.bonus)
        began = time.perf_counter()
        linprog(**problem, method="highs")
        times.append(time.perf_counter() - began)
    rounds = sum(row["result"]["rounds"] for row in explored.values())
    spent = sum(row["seconds"] for row in explored.values())
    each = float(np.median(times))
    return (
        f"{len(explored)} exploration runs planned {rounds:,} rounds in {spent:.0f} s of one core; with one linprog per "
        f"round ({1000 * each:.1f} ms each, median of {len(times)} measured) planning alone would take "
        f"{rounds * each / 3600.0:.1f} h."
    )


def _print(console: Console, artefact: Artefact, outcome: Outcome) -> None:
    title = f"{artefact.title} ({artefact.constants})"
    if outcome.comparisons:
        table = Table("compared", "paper", "ours", "ratio", "within target", title=title)
        for c in outcome.comparisons:
            word = {True: "yes", False: "[red]no[/red]", None: "no target"}[c.within]
            table.add_row(c.name, c.paper, c.ours, c.ratio, word)
        console.print(table)
    else:
        console.print(title)
    for remark in outcome.remarks:
        console.print(f"  {remark}")
