"""The tables of examples/mountain_car.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mountain_car_track import GAP, HEAVIER, HORIZON, LIMIT, at_goal
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import safe2real as s2r

if TYPE_CHECKING:
    from mountain_car import Study


def show(study: Study, console: Console) -> None:
    _show_exploration(study, console)
    _show_plans(study, console)
    _show_car(study, console)
    _show_heavier(study, console)
    console.print(f"({study.seconds:.0f} s in all)")


def _show_exploration(study: Study, console: Console) -> None:
    found, cars, learner = study.exploration, study.exploration.cars, study.exploration.learner
    gaps, suspects = cars.gaps, learner.evidence.suspects
    wrong, cleared = gaps > 0.0, ~suspects & ~learner.evidence.known
    console.print(
        f"\n[bold]Cells of the real car[/bold]: {cars.model.num_states} states, 3 actions, {HORIZON} steps; at most "
        f"{LIMIT:g} expected steps above the speed limit\n"
        f"  wrong rows: {int(wrong.sum())} of {wrong.size}, by {gaps[wrong].min():.2f} or more; declared gap {GAP:g}; "
        f"measured margin {float(learner.evidence.stated[0]):.3f}\n"
        f"  {'certified stop' if found.stopped else 'no stop yet'} after {found.episodes:,} episodes; unsafe among the "
        f"{found.costs.size:,} mixtures deployed: {found.unsafe}; highest exact cost {found.costs.max():.4f}\n"
        f"  rows cleared: {int(cleared.sum())}, of them wrong: {int((cleared & wrong).sum())}\n"
        f"  {found.plan.certificate.describe()}\n"
    )


def _show_plans(study: Study, console: Console) -> None:
    cars = study.exploration.cars
    reward = at_goal(cars.simulated)
    table = Table(title="Plans for the goal, made on the way: expected steps at the goal, of 20", box=SIMPLE)
    for column in ("episodes", "at least", "earned", "cost", "no policy\nabove", "without simulator:\nat least"):
        table.add_column(column, justify="right")
    others = {point.episodes: f"{point.at_least:.3f}" for point in study.without.checkpoints}
    for point in study.exploration.checkpoints:
        texts = (f"{number:.3f}" for number in (point.at_least, point.earned, point.cost, point.at_most))
        table.add_row(f"{point.episodes:,}", *texts, others.get(point.episodes, ""))
    console.print(table)
    best, promised = (s2r.solve(model, reward).value for model in (cars.real, cars.model))
    console.print(f"  best feasible policy: {best:.3f}; the simulator promises {promised:.3f}\n")


def _show_car(study: Study, console: Console) -> None:
    table = Table(title="What no certificate covers: the same policies on the continuous car, 95 % intervals", box=SIMPLE)
    for column in ("policy", "at the goal:\ncells", "\ncar", "above the limit:\ncells", "\ncar"):
        table.add_column(column, justify="left" if column == "policy" else "right", no_wrap=True)
    for one in study.driven:
        columns = zip(one.cells, one.car, one.error, strict=True)
        table.add_row(one.name, *(text for a, b, c in columns for text in (f"{a:.3f}", f"{b:.3f} ± {c:.3f}")))
    console.print(table)
    contradicted = study.car_contradicts
    console.print(
        "  Episodes of the continuous car, given to the learner of the cells, contradict its assumptions "
        f"{'not yet' if contradicted is None else f'after {contradicted} episodes'}.\n"
    )


def _show_heavier(study: Study, console: Console) -> None:
    found, free = study.heavier, study.heavier_without
    gaps, reward = found.cars.gaps, at_goal(found.cars.simulated)
    between = int(((gaps > 0.0) & (gaps < GAP)).sum())
    when = "not yet" if found.contradicted is None else f"after at most {found.contradicted:,} episodes"
    console.print(
        f"[bold]Gravity {HEAVIER - 1.0:.0%} stronger everywhere[/bold]: {int((gaps > 0.0).sum())} of {gaps.size} rows "
        f"wrong, {between} of them by less than {GAP:g}, so the separation is false.\n"
        f"  The data contradict it {when}. From then on: {found.plan.certificate.describe()}\n"
        f"  unsafe mixtures deployed: {found.unsafe} of {found.costs.size:,}\n"
        f"  Without trusting the simulator, certified: {free.episodes:,} episodes, unsafe mixtures {free.unsafe} of "
        f"{free.costs.size:,}, plan at least {free.plan.value:.3f} (best {s2r.solve(free.cars.real, reward).value:.3f})"
    )
