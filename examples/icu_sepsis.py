"""Sepsis treatments under a certified limit on survival: ICU-Sepsis, 716 states, 25 actions, made from hospital records.

A benchmark, NOT medical advice. Every patient here is simulated.

Reality is the package's dynamics. The simulator is too optimistic about vasopressors for severely ill patients, and does not
say so. The clinicians' policy is the baseline: 68 % of its patients survive within 20 steps. At least 66 % must survive
under every mixture that is ever deployed. Two studies, both certified (nothing is scaled):
- every treatment in doubt: all 2,238 rows have to be checked on patients, and tens of thousands of them are needed;
- only vasopressors for the severely ill in doubt, the rest declared known: useful plans are certified from the start.
Prints which rows are found wrong, what was deployed, and what certified plans for six rewards gain over the clinicians.

    python examples/icu_sepsis.py [--out DIR] [--quick] [--patients N] [--few-patients N] [--seed N]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from icu_sepsis_figures import draw_mismatch, draw_safety
from icu_sepsis_study import SECONDS_OF_PLAN, Record, seconds_of_batch, treat
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import safe2real as s2r
from experiments.studies.sepsis_patients import learner_of, schedule
from experiments.studies.sepsis_system import LEAST_SURVIVAL, MARGIN, Case, build, load_records
from safe2real.errors import MissingExtra
from safe2real.evidence import Verdict

PATIENTS, FEW_PATIENTS = 120_000, 16_000
LOOKS = (10_000, 20_000, 30_000, 35_000, 40_000, 50_000, 60_000, 80_000)  # patients before a plan for survival is made
EARLY_LOOKS = (0, 1_000, 4_000, 16_000)
QUICK_PATIENTS, QUICK_FEW_PATIENTS, QUICK_REWARDS = 12_000, 1_000, ("survival",)
UNITS = "survival in %, the rest in steps of 20; all exact in reality but the certified floor"
ADVICE = "A benchmark, NOT medical advice: the patients are simulated and the simulator's errors are made up."


def describe(case: Case, console: Console) -> None:
    """The two systems and the limit."""
    clinicians = float(s2r.planning.constraint_values(case.real, case.clinicians)[0])
    believed = float(s2r.planning.constraint_values(case.simulator, case.clinicians)[0])
    console.print(f"[bold]{ADVICE}[/bold]")
    console.print(
        f"{case.real.num_states} states, {case.real.num_actions} actions, {int(case.offered.sum()):,} treatments offered, "
        f"horizon {case.real.horizon}. The simulator has {int(case.biased.sum())} of them wrong."
    )
    console.print(
        f"Survival under the clinicians: {clinicians:.2%} (the simulator says {believed:.2%}). Limit {LEAST_SURVIVAL:.0%}; "
        f"assumed margin {MARGIN:.0%}."
    )
    given = s2r.planning.occupancy(case.real, case.clinicians).sum(axis=0)[case.offered]
    successors = case.real.kernel.length.reshape(case.offered.shape)[case.offered]
    console.print(
        f"A treatment of a state is given {1000 * np.median(given):.1f} times to 1,000 patients (median; the rarest "
        f"{1000 * given.min():.1f}) and leads to one of {np.median(successors):.0f} states (at most {successors.max()})."
    )


def shown(name: str, value: float) -> str:
    """Survival is a share of the patients; the other rewards are counted in steps."""
    return f"{value:.1%}" if name == "survival" else f"{value:.2f}"


def table_of_plans(case: Case, title: str, record: Record) -> Table:
    """What certified plans promise and reach, beside the clinicians and the best policy that meets the limit."""
    table = Table(title=title, title_justify="left")
    for heading in ("reward", "clinicians", "floor", "plan", "best", "gained", "survival"):
        table.add_column(heading, justify="left" if heading == "reward" else "right", no_wrap=True)
    for plan in record.plans:
        reward = case.rewards[plan.reward]
        clinicians, best = s2r.evaluate(case.real, case.clinicians, reward), s2r.solve(case.real, reward).value
        table.add_row(
            plan.reward,
            *(shown(plan.reward, value) for value in (clinicians, plan.floor, plan.value, best)),
            f"{(plan.value - clinicians) / (best - clinicians):.1%}",
            f"{plan.survival:.1%}",
        )
    return table


def table_of_trust(case: Case) -> Table:
    """What the best policies of the simulator do in reality."""
    table = Table(title="Planned on the simulator, trusting it (what it says, and what is real)", title_justify="left")
    for heading in ("reward", "says", "real", "survival", "survival, real", "safe"):
        table.add_column(heading, justify="left" if heading == "reward" else "right", no_wrap=True)
    for name, reward in case.rewards.items():
        plan = s2r.solve(case.simulator, reward)
        survival = float(s2r.planning.constraint_values(case.real, plan.policy)[0])
        table.add_row(
            name,
            *(shown(name, value) for value in (plan.value, s2r.evaluate(case.real, plan.policy, reward))),
            *(f"{value:.1%}" for value in (plan.constraint_values[0], survival)),
            "yes" if survival >= LEAST_SURVIVAL else "NO",
        )
    return table


def summarise(case: Case, record: Record, name: str, console: Console) -> bool:
    """What was deployed and what was found; returns whether every deployed mixture was safe."""
    values = np.array([batch.survival for batch in record.batches])
    alone = np.array([batch.candidate for batch in record.batches])
    bounds = np.array([batch.bound for batch in record.batches])
    safe = bool((values >= LEAST_SURVIVAL).all())
    least = "none yet" if np.isnan(alone).all() else f"as little as {np.nanmin(alone):.2%}"
    console.rule(f"{name}: {record.patients:,} simulated patients")
    console.print(
        f"{len(values)} mixtures deployed; lowest exact survival {values.min():.2%} (limit {LEAST_SURVIVAL:.0%}), lowest "
        f"certified bound {bounds.min():.2%}: {'none fell below the limit' if safe else 'SOME FELL BELOW THE LIMIT'}. "
        f"Without the mixing a candidate would have had {least}."
    )
    if record.map is not None:
        wrong, cleared = record.map.verdict == Verdict.WRONG, record.map.verdict == Verdict.CLEARED
        console.print(
            f"{int(wrong.sum())} rows proved wrong, {int((wrong & case.biased).sum())} of them truly so, of "
            f"{int(case.biased.sum())}. {int(cleared.sum()):,} cleared, {int((cleared & case.biased).sum())} wrongly. "
            f"{record.map.count(Verdict.OPEN):,} open."
        )
    course = (f"{plan.survival_floor:.1%} ({plan.survival:.1%}) with {done:,} patients" for done, plan in record.curve)
    console.print(f"Certified survival of the best plan so far, and its real one: {'; '.join(course)}.")
    last = record.batches[-1]
    stop = "reached" if record.stopped else f"not reached (uncertainty {last.uncertainty:.2f}, tolerance {MARGIN / 4:g})"
    console.print(f"The certified stop for ANY reward: {stop}. Doubts: {'; '.join(record.doubts) or 'none'}.")
    return safe


def treat_all(
    case: Case, patients: int, few_patients: int, console: Console, *, quick: bool = False, seed: int = 0
) -> dict[str, Record]:
    """Both studies, with a progress bar."""
    late, early, rewards = ((), (), QUICK_REWARDS) if quick else (LOOKS, EARLY_LOOKS, tuple(case.rewards))
    studies: dict[str, tuple[NDArray[np.bool_], list[int], Sequence[int]]] = {
        "every treatment in doubt": (case.offered, schedule(patients), late),
        "severe vasopressors in doubt": (case.doubtful, schedule(few_patients), early),
    }
    work = sum(
        sum(map(seconds_of_batch, sizes)) + SECONDS_OF_PLAN * (sum(look < sum(sizes) for look in looks) + len(rewards))
        for _, sizes, looks in studies.values()
    )
    records: dict[str, Record] = {}
    bar = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    with Progress(*bar, console=console) as progress:
        task = progress.add_task("", total=work)
        for name, (in_doubt, sizes, looks) in studies.items():
            progress.update(task, description=name)
            learner = learner_of(case, in_doubt, seed)
            records[name] = treat(case, learner, sizes, looks, rewards, lambda seconds: progress.advance(task, seconds))
        progress.update(task, completed=work)
    return records


def show(case: Case, records: dict[str, Record], out: Path, console: Console) -> bool:
    """Tables and figures; returns whether every deployed mixture was safe."""
    safe = [summarise(case, record, name, console) for name, record in records.items()]
    for name, record in records.items():
        console.print(table_of_plans(case, f"{name}, {record.patients:,} patients ({UNITS})", record))
    console.print(table_of_trust(case))
    clinicians = s2r.evaluate(case.real, case.clinicians, case.rewards["survival"])
    best = s2r.solve(case.real, case.rewards["survival"]).value
    figures = {
        "icu-sepsis-safety.png": draw_safety(case, records, clinicians, best),
        "icu-sepsis-mismatch.png": draw_mismatch(case, next(iter(records.values()))),
    }
    out.mkdir(parents=True, exist_ok=True)
    for file, figure in figures.items():
        figure.savefig(out / file, dpi=110)
        console.print(f"figure: {out / file}")
    console.print(f"[bold]{ADVICE}[/bold]")
    return all(safe)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=ADVICE)
    parser.add_argument("--out", type=Path, default=Path("out/icu_sepsis"), help="folder for the figures")
    parser.add_argument("--quick", action="store_true", help="few patients and one reward: to see that it runs")
    parser.add_argument("--patients", type=int, help=f"with every treatment in doubt ({PATIENTS:,})")
    parser.add_argument("--few-patients", type=int, help=f"with few treatments in doubt ({FEW_PATIENTS:,})")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    usual = (QUICK_PATIENTS, QUICK_FEW_PATIENTS) if options.quick else (PATIENTS, FEW_PATIENTS)
    patients = usual[0] if options.patients is None else options.patients
    few_patients = usual[1] if options.few_patients is None else options.few_patients
    if min(patients, few_patients) < 1:
        parser.error("the numbers of patients must be positive")
    console = Console()
    try:
        case = build(load_records())
    except MissingExtra as error:
        parser.error(str(error))
    describe(case, console)
    records = treat_all(case, patients, few_patients, console, quick=options.quick, seed=options.seed)
    return 0 if show(case, records, options.out, console) else 1


if __name__ == "__main__":
    raise SystemExit(main())
