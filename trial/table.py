"""The tables of a trial, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from trial.flaws import Flaw
from trial.parts import Part
from trial.record import Record
from trial.statements import Kind
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
        [
            "part",
            "delta",
            "runs",
            "allowed to fail",
            "failed",
            confidence,
            "of these",
            "plans",
            "deployments",
            "not the baseline alone",
            "mixtures",
            "unsafe",
        ],
        [[str(part), f"{delta:g}", *_cells(record.trial.of(part, delta))] for part, delta in record.trial.parts],
    )
    hardest = _table(
        ["delta", "hardest systems", "radius", "runs", "failed", confidence],
        [_hardest(record.trial, delta) for part, delta in record.trial.parts if part is Part.LONG],
    )
    controls = _table(
        [
            "broken on purpose",
            "part",
            "delta",
            "runs",
            "failed",
            confidence,
            "of these",
            "unsafe deployments",
            "halted runs",
        ],
        [_control(flaw, *pair, tallies.of(*pair)) for flaw, tallies in record.controls.items() for pair in tallies.parts],
    )
    return "\n\n".join([head, runs, hardest, controls])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(tally: Tally) -> list[str]:
    return [
        f"{tally.runs:,}",
        f"{tally.allowed:,.0f}",
        f"{tally.failed:,}",
        _interval(tally),
        _kinds(tally),
        f"{tally.plans:,}",
        f"{tally.deployments:,}",
        f"{tally.exploring:,}",
        f"{tally.mixtures:,}",
        f"{tally.unsafe:,}",
    ]


def _hardest(tallies: Tallies, delta: float) -> list[str]:
    family, radius, tally = tallies.hardest(Part.LONG, delta)
    return [f"{delta:g}", family, radius, f"{tally.runs:,}", f"{tally.failed:,}", _interval(tally)]


def _control(flaw: Flaw, part: Part, delta: float, tally: Tally) -> list[str]:
    return [
        str(flaw),
        str(part),
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
