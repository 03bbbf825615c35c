"""`safe2real campaign ...`: a controller in any language drives a campaign, one process for each step."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from safe2real.campaign import Campaign, Overlap, carry_over, documents
from safe2real.campaign.files import BESIDE_A_DATABASE
from safe2real.campaign.journal.url import looks_like_a_connection, parse_place, shown_place
from safe2real.cli import io
from safe2real.cli.io import answer, read_document
from safe2real.cli.options import FilesAnywhere, Force, Id, NoCode, Partial, Url, Worker
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.methods.document import problem_and_method
from safe2real.model.serialization import policy_from_json
from safe2real.model.validation import byte_limit

commands = typer.Typer(
    no_args_is_help=True,
    epilog="Answers are one JSON document on stdout. " + io.exit_codes(0, 1, 2, 3, 4, 5, 6, 8, 130),
    help="Drive a durable campaign on a real system: ask what to run, run it, tell what happened. JSON in, JSON out.",
)


class Format(Enum):
    """The formats of `export`."""

    CSV = "csv"
    JSON = "json"
    MINARI = "minari"


@commands.command()
def init(
    url: Url,
    problem: Annotated[
        str, typer.Argument(metavar="SPEC", help="The specification, a .toml or JSON file; - for JSON on standard input.")
    ],
    trust_margin: Annotated[
        bool, typer.Option("--trust-margin", help="Accept a baseline whose stated margin the simulator does not show.")
    ] = False,
    no_code: NoCode = False,
    files_anywhere: FilesAnywhere = False,
    lease: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time after which a deployment that is out counts as overdue.")
    ] = None,
    withdraw_overdue: Annotated[
        bool, typer.Option("--withdraw-overdue", help="Withdraw overdue deployments at the next ask.")
    ] = False,
) -> None:
    """Create a campaign. An existing one is never overwritten.

    SPEC holds horizon, simulator, baseline and settings, and usually start and constraints.
    A .toml file that names an environment runs code: `module:id` imports the module. Give
    --no-code for one that you did not write yourself.
    """
    if problem.endswith(".toml"):
        from safe2real.preflight.spec_file import read_spec_file

        read = read_spec_file(problem, allow_code=not no_code, files_anywhere=files_anywhere)
        given, method = read.problem, read.method
    else:
        given, method = problem_and_method(io.read_text(problem))
    with Campaign.create(
        url, given, method=method, trust_margin=trust_margin, lease=lease, withdraw_overdue=withdraw_overdue
    ) as made:
        answer(documents.created(made, url))


@commands.command()
def ask(
    url: Url,
    worker: Annotated[str, typer.Option(help="The machine that runs the episodes; a different name for each machine.")],
    n: Annotated[int, typer.Option("-n", help="How many episodes to run before asking again.")] = 1,
) -> None:
    """Get policies to run, each for one episode, recorded before they are printed.

    The same worker gets the same deployments again until it tells or abandons them.
    Deployments that rest on a refuted assumption are withdrawn and listed under
    `withdrawn`: do not run them any more.
    A deterministic policy lists for every step the action in every state;
    a stochastic one, for every step and state the probability of every action.
    """
    with Campaign.open(url) as opened:
        answer(documents.asked_document(opened.ask_batch(n, worker=worker)))


@commands.command()
def tell(
    url: Url,
    id: Id,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help='{"states": [...], "actions": [...]}; standard input by default, or for -.')
    ] = "-",
    partial: Partial = False,
    left_model: Annotated[
        bool,
        typer.Option(
            "--left-model",
            help="The last action led to a state that the model does not have: give as many actions as states.",
        ),
    ] = False,
    worker: Worker = None,
    force: Force = None,
) -> None:
    """Record the episode of a deployment; durable when the command ends.

    Telling the same episode again changes nothing ("new": false); another one for the same id is a conflict.
    """
    episode = read_document(file)
    with Campaign.open(url) as opened:
        receipt = opened.tell(id, episode, partial=partial, left_model=left_model, worker=worker, force=force)
        answer({"id": id, **documents.receipt_document(receipt)})


@commands.command()
def abandon(
    url: Url,
    reason: Annotated[str, typer.Option(help="Why; it must not depend on what happened in the episode.")],
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The deployment's id, from the answer to ask.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every deployment that --worker holds, for example because its machine is gone.")
    ] = False,
    worker: Worker = None,
    force: Force = None,
) -> None:
    """Abandon a deployment, so that its worker gets another one. Its episode is still accepted later."""
    if every != (id is None) or (every and (worker is None or force is not None)):
        raise InvalidInput("give the ID of one deployment, or --all with the --worker whose deployments are abandoned")
    with Campaign.open(url) as opened:
        if id is None and worker is not None:
            answer({"worker": worker, "ids": opened.abandon_all(worker, reason)})
        elif id is not None:
            answer({"id": id, **documents.receipt_document(opened.abandon(id, reason, worker=worker, force=force))})


@commands.command("import")
def import_log(
    url: Url,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="JSON Lines, one episode object a line; - for standard input.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="The name of the log, unique in the campaign.")] = None,
    policy: Annotated[
        str, typer.Option(metavar="FILE|baseline", help="The policy that collected the log: a JSON file, or `baseline`.")
    ] = "baseline",
    partial: Partial = False,
    overlap: Annotated[
        Overlap,
        typer.Option(
            help="Treatment of episodes that equal recorded ones: refuse the log, skip them, or count them as others."
        ),
    ] = Overlap.REFUSE,
    earlier: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="CAMPAIGN", help="Another campaign on the same system, whose episodes are all taken over."
        ),
    ] = None,
) -> None:
    """Add episodes that a known policy collected earlier, all or none. The log must be complete.

    An episode may have an `id`, a text that identifies it in every log. `--from OLD` takes over every episode of another
    campaign on the same system, for example after a refutation.
    """
    if earlier is not None:
        if file is not None or source is not None:
            raise InvalidInput("a file or --source is given beside --from; take over a campaign, or import a log")
        with Campaign.open(url) as opened, Campaign.open(earlier) as old:
            answer(asdict(carry_over(opened, old, overlap=overlap)))
        return
    if file is None or source is None:
        raise InvalidInput("no log is named; give FILE and --source NAME, or --from CAMPAIGN")
    episodes = io.read_lines(file)
    given = None if policy == "baseline" else read_document(policy)
    with Campaign.open(url) as opened:
        fixed = opened.problem
        horizon = fixed.simulator.horizon
        collector = fixed.baseline if given is None else policy_from_json(given, "policy", horizon=horizon)
        receipt = opened.import_log(source, collector, episodes, partial=partial, overlap=overlap)
        answer(documents.imported_document(source, len(episodes), receipt))


@commands.command()
def status(
    url: Url,
    forecast: Annotated[
        bool, typer.Option("--forecast/--no-forecast", help="Rehearse the rest of the campaign to forecast its length.")
    ] = True,
) -> None:
    """Show the campaign's standing, the deployments that are out, and a forecast of the rest."""
    with Campaign.open(url) as opened:
        answer(documents.status_document(opened, forecast=forecast))


@commands.command()
def plan(
    url: Url,
    reward: Annotated[
        str,
        typer.Argument(
            metavar="REWARD",
            help="Numbers from 0 to 1 of shape (S, A) or (H, S, A): nested lists in a JSON file, or an array in a "
            ".npy file or a .npz file (file.npz:name); - for JSON on standard input.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write plan.npz (for load_plan), plan.json and policy.csv into this folder."),
    ] = None,
) -> None:
    """Plan for any reward, at any time, without more real data.

    The policy is a mixture: draw one of `policies` with `weights` before each
    episode and run it to the end. Use it only if certificate.holds is true.
    It earns at least `value`, no feasible policy earns more than `bound`, and
    it is at most `suboptimality` from the best.
    """
    wanted = io.read_array(reward, "reward")
    if out is not None:
        _check_out(out, url)
    with Campaign.open(url) as opened:
        made = opened.plan(wanted)
    files = {} if out is None else {"files": [str(file) for file in (*made.export(out), made.save(out / "plan.npz"))]}
    answer({**documents.plan_document(made), **files})


@commands.command()
def declare(
    url: Url,
    add: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="A reward to declare; FILE as for plan. Repeatable.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A declared reward to drop. Repeatable.")] = None,
) -> None:
    """Add declared rewards, or drop some; only with the algorithm "declared rewards".

    Recorded, all or none. Deployments that are out stay out. After a stop the campaign
    goes on if a reward is not accurate yet.
    """
    rewards: dict[str, Any] = {}
    for given in add or ():
        name, equals, file = given.partition("=")
        if not (name and equals and file) or name in rewards:
            raise InvalidInput(f"--add is {given!r}; give NAME=FILE, each name once")
        rewards[name] = io.read_array(file, f"rewards.{name}")
    with Campaign.open(url) as opened:
        answer(documents.declared_document(opened, opened.declare(rewards, drop=drop or ())))


@commands.command("map")
def mismatch_map(url: Url) -> None:
    """Show, for every row of the simulator, bounds on its distance from reality and a verdict."""
    with Campaign.open(url) as opened:
        answer(documents.map_document(opened.mismatch_map()))


@commands.command()
def verify(
    url: Url,
    head: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="`head` of an earlier status or verify, which the record must still contain."),
    ] = None,
) -> None:
    """Recompute every certificate from the record. Exit code 6 if there is any discrepancy."""
    with Campaign.open(url) as opened, io.progress_bar("events") as progress:
        ledger = opened.verify(head=head, progress=progress)
    answer(documents.ledger_document(ledger))
    if not ledger.holds:
        raise typer.Exit(io.NOT_VERIFIED)


@commands.command()
def export(
    url: Url,
    out: Annotated[Path, typer.Option(help="A folder for csv, a file for json, the dataset's id for minari.")],
    form: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.JSON,
) -> None:
    """Write the whole record for other programs.

    A record with a gap, as SQLite's .recover leaves it, is written as json: `load`
    makes a campaign of the part that can be proved.
    """
    from safe2real.report.export import export_csv, export_json, export_minari

    _check_out(out, url)
    with Campaign.open(url) as opened:
        written: dict[str, Any] = {"format": form.value}
        if form is Format.MINARI:
            export_minari(opened, str(out))
            written["dataset"] = str(out)
        else:
            files = export_csv(opened, out) if form is Format.CSV else [export_json(opened, out)]
            written["files"] = [str(file) for file in files]
        try:
            answer({"certified": opened.assurance().certified, **written})
        except StorageFailure as error:  # the document is for `load`, which takes what can be proved
            if form is not Format.JSON:
                raise
            answer({"certified": False, **written, "damage": str(error)})


@commands.command()
def report(
    url: Url, out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page, one self-contained file.")]
) -> None:
    """Write an HTML report: the campaign's standing, its deployments, and the rows where the simulator is wrong."""
    from safe2real.report.campaign_report import write_campaign_report

    _check_out(out, url)
    with Campaign.open(url) as opened:
        file = write_campaign_report(opened, out)
        answer({"certified": opened.assurance().certified, "file": str(file)})


@commands.command()
def backup(
    url: Url, out: Annotated[Path, typer.Option(metavar="FILE", help="The copy; an existing file is not overwritten.")]
) -> None:
    """Copy an SQLite campaign while other processes write to it, and check the copy.

    To restore: stop every process that uses the campaign, move FILE, FILE-wal
    and FILE-shm away, put the copy in place of FILE, and say so with `branch`.
    """
    from safe2real.campaign.backup import back_up

    answer(back_up(url, out))


@commands.command()
def branch(
    url: Url,
    reason: Annotated[str, typer.Option(help="Why the record was restored; it must not depend on the episodes.")],
) -> None:
    """Record that the journal was restored from a copy and continues from here. Later events are lost.

    Processes that saw more of the record refuse to write until the campaign is
    opened again, and ids that were handed out after the copy are refused.
    """
    with Campaign.open(url) as opened:
        answer({"campaign": opened.name, **documents.receipt_document(opened.branch(reason))})


@commands.command()
def load(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A record that `export` wrote; - for standard input.")],
    url: Url,
) -> None:
    """Make a campaign at URL from an exported record, as far as it is valid.

    The first invalid event and all later ones are left out; the answer says
    how many and why. The record continues as a new branch.
    """
    from safe2real.campaign.backup import load_record

    document = read_document(file, byte_limit())  # a long record is a long text
    answer(asdict(load_record(url, document, f"loaded from {'standard input' if file == '-' else Path(file).name}")))


def _check_out(out: Path, url: str) -> None:
    """Refuse to overwrite the campaign itself, or a file that SQLite keeps beside it."""
    if looks_like_a_connection(str(out)) or "://" in str(out):
        raise InvalidInput(f"--out is {shown_place(str(out))!r}, which is no file name; give a place for what is written")
    place = parse_place(url)
    if place.get_backend_name() != "sqlite":
        return
    database = Path(str(place.database)).resolve()
    if out.resolve() in {database.with_name(database.name + ending) for ending in ("", *BESIDE_A_DATABASE)}:
        raise InvalidInput(f"--out is {out}, the campaign itself or a part of it; give another place")
