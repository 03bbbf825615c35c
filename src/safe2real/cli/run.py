"""`safe2real run SPEC`: a whole campaign, rehearsed on a known reality."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from safe2real.cli.check import asked_guess
from safe2real.cli.io import NOT_READY, NOT_VERIFIED, answer, exit_codes, progress_bar
from safe2real.cli.options import AsJson, FilesAnywhere, GuessGap, GuessRows, NoCode, Spec
from safe2real.standing import Standing

if TYPE_CHECKING:
    from safe2real.campaign.campaign import Campaign
    from safe2real.preflight.findings import Finding
    from safe2real.preflight.rehearsed_campaign import RehearsedCampaign, RehearsedPlan
    from safe2real.preflight.spec_file import SpecFile

EXITS = exit_codes(0, 1, 2, 4, 5, 6, 7, 130)
_WORTH = {  # of all deployments, for people
    Standing.CERTIFIED: "certified",
    Standing.HEURISTIC: "HEURISTIC, not a guarantee",
    Standing.REFUTED: "NOT GUARANTEED (an assumption is not true of this reality)",
    Standing.INCOMPLETE: "NOT GUARANTEED (something is missing)",
}
_FORECAST_SIZE = 200_000  # S A H up to which the report has a forecast
_TABLE_SIZE = 1_000_000  # S A H up to which plans are written as tables, too


def run(
    spec: Spec,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder for campaign, report, figures and plans.")
    ] = None,
    max_rounds: Annotated[int | None, typer.Option(min=1, help="Deployments in all; the file's own by default.")] = None,
    guess_rows: GuessRows = None,
    guess_gap: GuessGap = None,
    as_json: AsJson = False,
    no_code: NoCode = False,
    files_anywhere: FilesAnywhere = False,
) -> None:
    """Rehearse a whole campaign from a file: ask and tell, plans, verification, report.

    The reality is the file's table `real`, or a guess. The same command continues
    an earlier run; its deployments are kept.
    """
    from safe2real.campaign.files import write_document
    from safe2real.model.serialization import within
    from safe2real.preflight.conditions import constrained, remaining
    from safe2real.preflight.hypothetical_reality import Guess, guess_reality
    from safe2real.preflight.rehearsal import random_rewards
    from safe2real.preflight.rehearsed_campaign import broken_assumptions, conclude, open_or_begin, run_campaign
    from safe2real.preflight.spec_file import read_spec_file

    given = read_spec_file(spec, allow_code=not no_code, files_anywhere=files_anywhere)
    problem, options = given.problem, given.options
    guess = asked_guess(given, guess_rows, guess_gap)
    guessed = guess is not None or given.reality is None
    real = given.reality
    folder = out or options.out or spec.with_name(f"{spec.stem}-run")
    rounds = max_rounds or options.max_rounds
    with within(spec.name):
        if guessed or real is None:
            real = guess_reality(problem, guess or given.guess or Guess()).kernel
        begun = open_or_begin(problem, given.method, real, options.seed, folder)
    with begun as campaign:
        broken = broken_assumptions(problem, given.method, real, guessed=guessed)
        if not as_json:
            _print_before([*constrained(problem), *broken], guessed)
        with progress_bar("deployments") as progress:
            run_campaign(campaign, real, max_rounds=rounds, growth=options.growth, seed=options.seed, progress=progress)
        rewards = options.rewards or random_rewards(problem.simulator, options.plans)
        with progress_bar("events verified") as progress:
            ended = conclude(campaign, real, rewards, broken=broken, progress=progress)
        files = _write(campaign, ended, folder) | _write_numbering(given, folder) | _write_plans(given, ended, folder)
        document = _document(ended, guessed, files)
    write_document(folder / "summary.json", document)
    if as_json:
        answer(document)
    else:
        _print_after(ended, files, remaining(problem))
    if not ended.ledger.holds:
        raise typer.Exit(NOT_VERIFIED)
    if not ended.safe or not ended.as_certified:
        raise typer.Exit(NOT_READY)


def _write(campaign: Campaign, ended: RehearsedCampaign, folder: Path) -> dict[str, str]:
    """Write the report and the figures, and return them by name."""
    from safe2real.evidence.row_rule import Separation
    from safe2real.plots.map import draw_mismatch
    from safe2real.report.campaign_report import write_campaign_report
    from safe2real.report.preflight_report import draw_exact

    model, settings = campaign.problem.simulator, campaign.problem.settings
    small = model.horizon * model.num_states * model.num_actions <= _FORECAST_SIZE
    files = {name: folder / file for name, file in
             (("report", "report.html"), ("safety", "safety.png"), ("mismatch", "mismatch.png"))}  # fmt: skip
    false = [one.as_doubt() for one in ended.broken]
    write_campaign_report(campaign, files["report"], forecast=small, broken=false)
    bound = "certified bound" if ended.certified else f"bound: {_WORTH[ended.standing]}"
    draw_exact(ended.exact, model.wordings, bound).savefig(files["safety"], dpi=130)
    gaps = Separation(settings.calibrated_gap, settings.mismatch_gap) if campaign.method.reuses_simulator else None
    draw_mismatch(ended.mismatch, gaps).savefig(files["mismatch"], dpi=130)
    return {name: str(file) for name, file in files.items()}


def _write_numbering(given: SpecFile, folder: Path) -> dict[str, str]:
    """Write the environment's state behind each state of the model, if there is an environment."""
    from safe2real.campaign.files import write_document
    from safe2real.preflight.spec_file import numbering_of

    if given.system is None:
        return {}
    write_document(folder / "states.json", numbering_of(given.system))
    return {"states": str(folder / "states.json")}


def _write_plans(given: SpecFile, ended: RehearsedCampaign, folder: Path) -> dict[str, str]:
    """Write plans/0, plans/1, ...: each plan as a file, and as tables if these are not too long."""
    if not ended.plans:
        return {}
    for number, plan in enumerate(one.plan for one in ended.plans):
        place = folder / "plans" / str(number)
        place.mkdir(parents=True, exist_ok=True)
        plan.save(place / "plan.npz")
        if math.prod(plan.policy.shape) <= _TABLE_SIZE:
            plan.export(place, system=given.system)
    return {"plans": str(folder / "plans")}


def _document(ended: RehearsedCampaign, guessed: bool, files: dict[str, str]) -> dict[str, Any]:
    from dataclasses import asdict

    from safe2real.model.serialization import finite_or_none

    status, exact = ended.status, ended.exact
    return {
        "campaign": status.name,
        "certified": ended.certified,
        "standing": ended.standing.value,
        "statement": ended.assurance.describe(width=None),
        "doubts": [asdict(one) for one in ended.assurance.doubts],
        "reality": "guessed" if guessed else "stated",
        "assumptions_broken": [one.to_document() for one in ended.broken],
        "stopped": status.stopped,
        "halted": ended.halted,
        "rounds": status.rounds,
        "samples": status.samples,
        "uncertainty": finite_or_none(status.uncertainty),
        "tolerance": status.tolerance,
        "unsafe_deployments": exact.unsafe,
        "deployments_below_their_bound": exact.below_bound,
        "lowest_slack": finite_or_none(float((exact.values - exact.thresholds).min(initial=float("inf")))),
        "wrong_rows": ended.wrong,
        "wrong_rows_found": ended.found,
        "wrong_rows_cleared": ended.lost,
        "verified": ended.ledger.holds,
        "verification": ended.ledger.describe(),
        "plans": [plan.to_document() for plan in ended.plans],
        "files": files,
    }  # fmt: skip


def _print_before(found: list[Finding], guessed: bool) -> None:
    from safe2real.preflight.findings import Level

    typer.echo(f"Reality: {'a guess' if guessed else 'as stated in the file'}.")
    for finding in found:
        broken = "ASSUMPTION BROKEN, so nothing below is a guarantee. " if finding.level is Level.FAILURE else "WARNING. "
        typer.echo(f"{broken}{finding.name}: {finding.what}. Cure: {finding.cure}.")


def _kept(plan: RehearsedPlan) -> str:
    from safe2real.model.constraint_text import rounded_up

    if not math.isfinite(plan.plan.suboptimality):
        return "nothing was promised"
    return f"promised within {rounded_up(plan.plan.suboptimality)}: {'' if plan.as_promised else 'NOT '}as promised"


def _print_after(ended: RehearsedCampaign, files: dict[str, str], assumed: str) -> None:
    from safe2real.model.constraint_text import count, rounded_up

    status, exact = ended.status, ended.exact
    worth = _WORTH[ended.standing]
    if ended.certified:
        worth += f", if {assumed} are true of the real system"
    typer.echo(f"{worth}. {count(status.rounds, 'deployment')}, {count(status.samples, 'sample')}.")
    if ended.halted:
        typer.echo("HALTED: the data refute the margin of the baseline, so nothing more is deployed, not even the baseline")
    else:
        how, sign = ("stopped", "<=") if status.stopped else ("the last round was reached", ">")
        typer.echo(f"{how}: uncertainty {rounded_up(status.uncertainty)} {sign} tolerance {rounded_up(status.tolerance)}")
    typer.echo(
        f"unsafe deployments, by exact evaluation: {exact.unsafe:,} of {exact.numbers.size:,}; "
        f"worse than their bound: {exact.below_bound:,}"
    )
    typer.echo(f"wrong rows: {ended.found} of {ended.wrong} proved wrong, {ended.lost} taken for right")
    for i, plan in enumerate(ended.plans):
        best = plan.real_best
        of_best = f"of at most {rounded_up(best)}" if math.isfinite(best) else "where no policy is feasible"
        typer.echo(
            f"plan {i}: earns {plan.real_value:.4g} {of_best} (baseline {plan.baseline_value:.4g}), "
            f"{_kept(plan)}; "
            f"{'feasible' if plan.feasible else 'NOT FEASIBLE'} in reality"
        )
    typer.echo(f"record: {ended.ledger.describe()}")
    for name, file in files.items():
        typer.echo(f"{name}: {file}")
