"""`python -m trial`: try the guarantee on random systems, and print what was found."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from safe2real import parallel
from safe2real.cli.io import progress_bar
from safe2real.cli.options import Address, EngineName
from safe2real.errors import InvalidInput
from trial.flaws import Flaw
from trial.outcome import Outcome
from trial.parts import ROUTES, Part
from trial.record import Record
from trial.systems import Case
from trial.table import markdown
from trial.tally import Tallies
from trial.workers import Plan, compile_everything, run_in_order

_SAVE_EVERY = 60.0  # seconds
_MOST_ROUTES = 600  # runs of a part that is not compiled
_CONTROLS = {True: 60, False: 24}  # runs of a control, at most: compiled ones and others

app = typer.Typer(add_completion=False)


def longest_run(deployments: int) -> int:
    """Rounds of the longest runs: the number of runs and their lengths grow alike with the number of deployments."""
    return max(1000, int(12.0 * math.sqrt(deployments)))


def route_runs(deployments: int) -> int:
    """How many runs each part has that is not compiled: more slowly growing than deployments, which compiled runs make."""
    return min(_MOST_ROUTES, max(3, int(deployments**0.75 / 1500.0)))


def control_runs(deployments: int, flaw: Flaw) -> int:
    """How many runs a control has."""
    return min(_CONTROLS[flaw.part is Part.LONG], max(8, math.isqrt(deployments)))


def conduct(deployments: int, seed: int, out: Path | None) -> Record:
    """The controls, the short runs, then long ones until as many deployments are made; saved once a minute."""
    record = Record(seed=seed, asked=deployments, longest=longest_run(deployments), jobs=parallel.at_once())
    typer.echo("preparing compiled code (minutes the first time, then seconds)", err=True)
    compile_everything()
    began = saved = time.monotonic()
    for flaw in Flaw:
        if flaw is not Flaw.NOTHING:
            record.controls[flaw] = Tallies()
            plan = Plan(seed, record.longest, flaw.part, flaw)
            for outcome in _shown(plan, control_runs(deployments, flaw), f"control: {flaw}"):
                record.controls[flaw].add(outcome)
    for part in (*ROUTES, Part.LONG):
        plan = Plan(seed, record.longest, part)
        if part is Part.LONG:
            outcomes = _until(run_in_order(plan), deployments - record.trial.total.deployments)
        else:
            outcomes = _shown(plan, route_runs(deployments), str(part))
        for outcome in outcomes:
            record.trial.add(outcome)
            if outcome.failures:
                record.describe(_described(plan.case(outcome.number), outcome))
            now = time.monotonic()
            record.seconds = now - began
            if out is not None and now - saved > _SAVE_EVERY:
                record.write(out)
                saved = now
    record.complete = True
    if out is not None:
        record.write(out)
    return record


def _shown(plan: Plan, runs: int, label: str) -> Iterator[Outcome]:
    """As many runs, with a bar."""
    with progress_bar(label) as report:
        for done, outcome in enumerate(run_in_order(plan, runs), start=1):
            yield outcome
            if report is not None:
                report(done, runs)


def _until(outcomes: Iterator[Outcome], deployments: int) -> Iterator[Outcome]:
    """Runs until they have made as many deployments."""
    made = 0
    with progress_bar("deployments") as report:
        for outcome in outcomes:
            yield outcome
            made += outcome.deployments
            if report is not None:
                report(min(made, deployments), deployments)
            if made >= deployments:
                return


def _described(case: Case, outcome: Outcome) -> dict[str, object]:
    return {"part": str(outcome.part), **case.describe(), "failures": list(outcome.failures), "unsafe": outcome.unsafe}


@app.command()
def main(
    deployments: Annotated[float, typer.Option(help="How many to make, e.g. 1e7.")] = 1e7,
    seed: Annotated[int, typer.Option(help="The same seed and deployments give the same result.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for one per core.")] = -1,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the result as JSON.")] = None,
    table: Annotated[Path | None, typer.Option(help="Print the tables of a result, and do nothing else.")] = None,
    run: Annotated[int | None, typer.Option(help="Run one case of the trial again, by its number.")] = None,
    part: Annotated[Part, typer.Option(help="The part of that case.")] = Part.LONG,
) -> None:
    """Try the guarantee on random systems that are as hard as the assumptions allow."""
    if not (math.isfinite(deployments) and deployments >= 1 and seed >= 0):
        raise typer.BadParameter("deployments is at least 1, and the seed is not negative")
    if run is not None:
        plan = Plan(seed, longest_run(int(deployments)), part)
        described = _described(plan.case(run), plan.outcome(run))
        typer.echo(json.dumps(described, indent=2))
        return
    try:
        if table is not None:
            record = Record.read(table)
        else:
            with parallel.workers(engine, jobs=jobs, address=address):
                record = conduct(int(deployments), seed, out)
    except InvalidInput as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo(markdown(record))
    problems = record.problems()
    for problem in problems:
        typer.echo(problem, err=True)
    raise typer.Exit(1 if problems else 0)


if __name__ == "__main__":
    app()
