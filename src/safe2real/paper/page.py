"""One self-contained page: every table and figure, the paper's value beside ours, what is certified, how long it took."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from safe2real.paper.artefact import Artefact, Comparison, Outcome
from safe2real.paper.inferred import INFERRED
from safe2real.report.page import Html, document, label, picture, table
from safe2real.standing import Standing
from safe2real.version import __version__

_COLOURS = {Standing.CERTIFIED: "certified", Standing.REFUTED: "refuted"}  # of labels; others are yellow


def write_report(
    results: Sequence[tuple[Artefact, Outcome, float]], path: Path, *, wall: float, cost: str, seeds: int | None
) -> None:
    """`results` holds each artefact with its outcome and the compute seconds of its runs; `cost` is the linprog estimate."""
    met = [c.within for _, outcome, _ in results for c in outcome.comparisons if c.within is not None]
    seeds_text = "the paper's numbers of seeds" if seeds is None else f"{seeds} seeds per setting (fewer than the paper's)"
    head = (
        f"<h1>Provably safe sim-to-real transfer: the paper's results, regenerated</h1><p>safe2real {__version__}, {seeds_text}. "
        f"{sum(met)} of {len(met)} comparisons with the paper are within their targets. This call took {wall:.0f} s. "
        f"{html.escape(cost)}</p>"
        "<p>The paper does not report its threshold, baseline, margin, tolerance, confidence level or scaling. Runs labelled "
        f"{label('inferred constants (heuristic)')} use one fitted set, {html.escape(str(INFERRED))}: they "
        "reproduce the paper's experiments and carry no guarantee.</p>"
    )
    body = "".join(_section(artefact, outcome, seconds, path.parent) for artefact, outcome, seconds in results)
    path.write_text(document("safe2real: results", head + body))


def _section(artefact: Artefact, outcome: Outcome, seconds: float, base: Path) -> str:
    kind = _COLOURS.get(artefact.standing, "")
    time = f" · runs took {seconds:.0f} s of one core" if seconds else ""
    parts = [
        f"<h2 id='{artefact.name}'>{html.escape(artefact.title)}</h2>",
        f"<p>{label(artefact.constants, kind)}{time} · <code>safe2real reproduce {artefact.name}</code></p>",
    ]
    parts += [picture(figure.read_bytes(), artefact.title) for figure in outcome.figures]
    if outcome.comparisons:
        parts.append(_comparisons(outcome.comparisons))
    if outcome.table:
        parts.append(_table(outcome.table))
    parts += [f"<p class='remark'>{html.escape(remark)}</p>" for remark in outcome.remarks]
    return "".join(parts)


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    words = {True: Html("<span class='yes'>yes</span>"), False: Html("<span class='no'>no</span>"), None: "no target"}
    return table(
        ("compared", "paper", "ours", "ratio", "within target"),
        [(c.name, c.paper, c.ours, c.ratio, words[c.within]) for c in comparisons],
    )


def _table(markdown: str) -> str:
    lines = [line.strip("| \n").split(" | ") for line in markdown.strip().splitlines()]
    return table(lines[0], lines[2:])
