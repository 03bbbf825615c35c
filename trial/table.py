"""The tables of a trial, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from trial.examine import Flaw, Kind
from trial.record import Record
from trial.tally import CONFIDENCE, Tallies, Tally


def markdown(record: Record) -> str:
    """What was tried, the table per delta, the hardest kinds of system, and the controls."""
    total = record.trial.total
    unfinished = "" if record.complete else " UNFINISHED."
    head = (
        f"{total.deployments:,} deployments of {total.mixtures:,} different mixtures in {total.runs:,} runs, each on a "
        f"random system of its own, and {total.plans:,} plans; seed {record.seed}, runs of up to {record.longest:,} rounds, "
        f"safe2real {record.version}, {record.seconds / 60.0:.0f} minutes on {record.jobs} cores.{unfinished}"
    )
    confidence = f"{100 * CONFIDENCE:.0f} % interval"
    runs = _table(
        ["delta", "runs", "failed", confidence, "of these", "deployments", "not the baseline alone", "mixtures", "unsafe"],
        [[f"{delta:g}", *_cells(record.trial.of(delta))] for delta in record.trial.deltas],
    )
    hardest = _table(
        ["delta", "hardest systems", "radius", "runs", "failed", confidence],
        [_hardest(record.trial, delta) for delta in record.trial.deltas],
    )
    controls = _table(
        ["broken on purpose", "delta", "runs", "failed", confidence, "of these", "unsafe deployments", "halted runs"],
        [_control(flaw, delta, tallies) for flaw, tallies in record.controls.items() for delta in tallies.deltas],
    )
    return "\n\n".join([head, runs, hardest, controls])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(tally: Tally) -> list[str]:
    return [
        f"{tally.runs:,}",
        f"{tally.failed:,}",
        _interval(tally),
        _kinds(tally),
        f"{tally.deployments:,}",
        f"{tally.exploring:,}",
        f"{tally.mixtures:,}",
        f"{tally.unsafe:,}",
    ]


def _hardest(tallies: Tallies, delta: float) -> list[str]:
    family, radius, tally = tallies.hardest(delta)
    return [f"{delta:g}", family, radius, f"{tally.runs:,}", f"{tally.failed:,}", _interval(tally)]


def _control(flaw: Flaw, delta: float, tallies: Tallies) -> list[str]:
    tally = tallies.of(delta)
    return [
        str(flaw),
        f"{delta:g}",
        f"{tally.runs:,}",
        f"{tally.failed:,}",
        _interval(tally),
        _kinds(tally),
        f"{tally.unsafe:,}",
        f"{tally.halted:,}",
    ]


def _interval(tally: Tally) -> str:
    low, high = tally.interval
    return f"{low:.5f} to {high:.5f}"


def _kinds(tally: Tally) -> str:
    counts = [(kind, tally.kinds[kind]) for kind in Kind if tally.kinds[kind]]
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts, key=lambda pair: -pair[1])) or "none"
