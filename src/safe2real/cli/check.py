"""`safe2real check SPEC`: checks and rehearsals before the first deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from safe2real.cli.io import NOT_READY, answer, exit_codes, progress_bar, read_text
from safe2real.cli.options import Address, AsJson, EngineName, FilesAnywhere, GuessGap, GuessRows, NoCode, Spec

if TYPE_CHECKING:
    from safe2real.preflight.check import Preflight
    from safe2real.preflight.hypothetical_reality import Guess
    from safe2real.preflight.spec_file import SpecFile

EXITS = exit_codes(0, 1, 2, 5, 7, 130)


def check(
    spec: Spec,
    rollouts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Episodes of the baseline on the REAL system: {"states", "actions"} a line.'),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Number of rehearsals.")] = 3,
    max_rounds: Annotated[int, typer.Option(min=1, help="Rounds of a rehearsal, at most.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0.0, help="Time for all rehearsals; no batch begins later.")] = 60.0,
    guess_rows: GuessRows = None,
    guess_gap: GuessGap = None,
    compare: Annotated[
        bool,
        typer.Option("--compare/--no-compare", help="Also rehearse without the simulator's rows, and with its support."),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a page, the figure and the findings (JSON) there.")
    ] = None,
    as_json: AsJson = False,
    engine: EngineName = "local",
    jobs: Annotated[
        int | None, typer.Option(help="Processes for rehearsals, -1 for one per core; by default this process.")
    ] = None,
    address: Address = None,
    no_code: NoCode = False,
    files_anywhere: FilesAnywhere = False,
) -> None:
    """Check a specification before anything real is touched.

    Which assumptions are plausible and which condition fails, with the cure;
    the margin of the baseline and the thresholds that can be reached; and, by
    rehearsals on a guess of the real system, how many samples to expect, and
    whether fewer are expected without the simulator or with its support.
    """
    from safe2real.model.serialization import within
    from safe2real.parallel import workers
    from safe2real.preflight.baseline import check_rollouts
    from safe2real.preflight.check import check_problem
    from safe2real.preflight.rehearsal import Effort
    from safe2real.preflight.spec_file import read_rollouts, read_spec_file

    given = read_spec_file(spec, allow_code=not no_code, files_anywhere=files_anywhere)
    episodes = []
    if rollouts is not None:
        episodes = read_rollouts(given.problem.simulator, read_text(str(rollouts)), str(rollouts))
        check_rollouts(given.problem, episodes, str(rollouts))
    given_jobs = jobs if jobs is not None else 1 if engine == "local" and address is None else -1
    running = workers(engine, jobs=given_jobs, address=address)
    with progress_bar("rehearsed rounds") as progress, within(spec.name), running:
        found = check_problem(
            given.problem,
            method=given.method,
            rollouts=episodes,
            reality=asked_guess(given, guess_rows, guess_gap) or given.reality or given.guess,
            effort=Effort(runs=runs, max_rounds=max_rounds, seconds=seconds, compare=compare),
            progress=progress,
        )
    if out is not None:
        _write(found, spec, out)
    if as_json:
        answer(found.to_document())
    else:
        _print(found, out)
    if not found.ready:
        raise typer.Exit(NOT_READY)


def asked_guess(given: SpecFile, rows: int | None, gap: float | None) -> Guess | None:
    """Return the guess of the options, on top of the file's; None without options."""
    from dataclasses import replace

    from safe2real.preflight.hypothetical_reality import Guess

    if rows is None and gap is None:
        return None
    base = given.guess or Guess()
    return replace(base, rows=base.rows if rows is None else rows, gap=base.gap if gap is None else gap)


def _write(found: Preflight, spec: Path, out: Path) -> None:
    from safe2real.campaign.files import whole_file, write_document
    from safe2real.report.preflight_report import draw_preflight, preflight_page

    out.mkdir(parents=True, exist_ok=True)
    figure = draw_preflight(found)
    figure.savefig(out / "preflight.png", dpi=130)
    with whole_file(out / "preflight.html") as file:
        file.write(preflight_page(found, figure, spec.name))
    write_document(out / "preflight.json", found.to_document())


def _print(found: Preflight, out: Path | None) -> None:
    colours = {"advice": "cyan", "warning": "yellow", "failure": "red"}
    for finding in found.worst_first:
        typer.secho(str(finding), fg=colours.get(finding.level.value))
    for claim in found.claims:
        typer.echo(claim)
    typer.echo(f"Rehearsed on a {'guessed' if found.guessed else 'stated'} reality.")
    if out is not None:
        typer.echo(f"page: {out / 'preflight.html'}\nfigure: {out / 'preflight.png'}")
    typer.secho(f"{found.verdict()}.", bold=True)
