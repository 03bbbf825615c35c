"""Many rewards planned from one exploration: a robot in a warehouse of 376 cells, parts of whose simulator are wrong.

The expected number of steps in the cells shared with people must stay at most 4 of 36. The robot explores, safely, until
the certified stop. Then 123 errands (pick at this shelf, charge, count that aisle, three stops in time windows) are planned
from the one learnt model without another step in the real warehouse. Everything is certified: nothing is scaled.

    python examples/warehouse.py [--out DIR] [--quick] [--seed N]
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from warehouse_figures import draw_floor, draw_rewards
from warehouse_study import FULL, NUMBERS, QUICK, ROUNDING, Exploration, Outcome, Study

from safe2real.evidence import Verdict


def tables_of(outcomes: Sequence[Outcome], limit: float) -> Iterator[Table]:
    """What the learnt model gives, and what the raw simulator would have given, for each kind of errand."""
    ours = Table(title="Planned from the learnt model (expected reward, exact on the real system)")
    raw = Table(title="Planned on the raw simulator")
    for heading in ("", "rewards", "bound: mean", "max", "real: mean", "max", "best", "ours", "base"):
        ours.add_column(heading, justify="right" if heading else "left")
    for heading in ("", "rewards", "unsafe in reality", "reward promised", "real", "people: max"):
        raw.add_column(heading, justify="right" if heading else "left")
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    for kind in [*kinds, "all"]:
        group = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        values = {name: [getattr(outcome, name) for outcome in group] for name in NUMBERS}
        mean = {name: float(np.mean(column)) for name, column in values.items()}
        last = kind == kinds[-1]
        ours.add_row(
            kind,
            str(len(group)),
            *(f"{number:.3f}" for name in ("bound", "suboptimality") for number in (mean[name], max(values[name]))),
            *(f"{mean[name]:.2f}" for name in ("best", "value", "baseline_value")),
            end_section=last,
        )
        unsafe = sum(steps > limit + ROUNDING for steps in values["simulator_people"])
        raw.add_row(
            kind,
            str(len(group)),
            str(unsafe),
            *(f"{mean[name]:.2f}" for name in ("simulator_promise", "simulator_value")),
            f"{max(values['simulator_people']):.2f}",
            end_section=last,
        )
    yield from (ours, raw)


def table_on_the_way(exploration: Exploration) -> Table:
    """Nobody has to wait for the stop: plans made earlier are as certified, with larger bounds."""
    first = exploration.checkpoints[0]
    table = Table(title=f"On the way: plans for {len(first.bounds)} of the rewards")
    for heading in ("samples", "uncertainty", "bound: mean", "max", "real: mean", "max"):
        table.add_column(heading, justify="right")
    for point in exploration.checkpoints:
        numbers = [
            number for column in (point.bounds, point.suboptimalities) for number in (float(np.mean(column)), max(column))
        ]
        table.add_row(f"{point.samples:,}", f"{point.uncertainty:.2f}", *(f"{number:.3f}" for number in numbers))
    return table


def save_outcomes(outcomes: Sequence[Outcome], path: Path) -> None:
    names = ["kind", "place", "certified", *NUMBERS]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(outcome, name) for name in names] for outcome in outcomes)


def statements(study: Study, exploration: Exploration, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The results in words, with the assumptions they rest on."""
    limit, found, wrong = study.case.limit, study.mismatch(), study.wrong
    hits = int((wrong & (found.verdict == Verdict.WRONG)).sum())
    end = "the certified stop" if exploration.stopped else "the end of the budget"
    yield (
        f"{exploration.samples:,} samples, {exploration.episodes:,} episodes of {exploration.mixtures:,} mixtures in turn, "
        f"to {end}: {exploration.seconds:.0f} s."
    )
    yield (
        f"Unsafe episodes, by exact evaluation: {exploration.unsafe_episodes}. The riskiest deployment spends "
        f"{exploration.people.max():.9g} expected steps among people; {limit:g} are allowed."
    )
    yield (
        f"Moves proved wrong: {hits} of the {wrong.sum()} that are, and {found.count(Verdict.WRONG) - hits} that are right. "
        f"Cleared: {found.count(Verdict.CLEARED)}. Open: {found.count(Verdict.OPEN)}. "
        f"Known beforehand: {found.count(Verdict.KNOWN)}."
    )
    kept = sum(outcome.kept(limit) for outcome in outcomes)
    yield f"Plans that are certified, feasible in reality and within their bound: {kept} of {len(outcomes)}."
    yield f"One certified plan with its bound: {1e3 * np.median([outcome.seconds for outcome in outcomes]):.0f} ms (median)."
    errands = study.errands()
    hardest = int(np.argmax([outcome.bound for outcome in outcomes]))
    for errand in (errands[hardest], errands[-1]):
        ours, theirs = study.race(errand)
        yield (
            f"The exact optimum on a known model, {errand.place}: {1e3 * ours:.2f} ms, HiGHS {theirs:.1f} s, "
            f"{theirs / ours:,.0f} times as long."
        )
    certificate = study.learner.plan(errands[0].reward).certificate
    yield f"What is promised of a plan, here for {errands[0].place}: {certificate.describe()}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Many rewards planned from one safe exploration of a warehouse.")
    parser.add_argument("--out", type=Path, default=Path("out/warehouse"), help="where figures and outcomes.csv go")
    parser.add_argument("--quick", action="store_true", help="a small floor, a few seconds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    study = Study(QUICK if options.quick else FULL, options.seed)
    errands, limit = study.errands(), study.case.limit
    columns = (
        TextColumn("{task.description:30}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    outcomes: list[Outcome] = []
    with Progress(*columns, console=Console(stderr=True)) as progress:
        exploring = progress.add_task("Explore to the certified stop", total=1.0)
        planning = progress.add_task(f"Plan {len(errands)} rewards", total=len(errands), start=False)
        exploration = study.explore(lambda share: progress.update(exploring, completed=share))
        progress.start_task(planning)
        for errand in errands:
            outcomes.append(study.plan(errand))
            progress.advance(planning)
    for table in (*tables_of(outcomes, limit), table_on_the_way(exploration)):
        console.print(table)
    for statement in statements(study, exploration, outcomes):
        console.print(statement)
    save_outcomes(outcomes, options.out / "outcomes.csv")
    draw_floor(study, options.out / "warehouse-floor.png")
    draw_rewards(study, exploration, outcomes, options.out / "warehouse-rewards.png")
    console.print(f"Figures and outcomes.csv are in {options.out}.")


if __name__ == "__main__":
    main()
