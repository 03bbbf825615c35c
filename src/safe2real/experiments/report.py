"""One self-contained page: every table and figure, the paper's value beside ours, what is certified, how long it took."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from safe2real import __version__
from safe2real.experiments.artefact import Artefact, Comparison, Outcome
from safe2real.experiments.inferred import INFERRED

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1250px; margin: 2rem auto; padding: 0 1rem; color: #1f2937; }
h1, h2 { line-height: 1.2; } h2 { border-top: 1px solid #e5e7eb; padding-top: 1.5rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; } th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #9ca3af; } td { border-bottom: 1px solid #e5e7eb; } th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; max-height: 480px; } .label { font-size: 12px; padding: .1rem .5rem; border-radius: 1rem; background: #fef3c7; }
.certified { background: #d1fae5; } .no { color: #b91c1c; font-weight: 600; } .yes { color: #047857; } p.remark { color: #4b5563; }
"""


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
        f"<span class='label'>inferred constants (heuristic)</span> use one fitted set, {html.escape(str(INFERRED))}: they "
        "reproduce the paper's experiments and carry no guarantee.</p>"
    )
    body = "".join(_section(artefact, outcome, seconds, path.parent) for artefact, outcome, seconds in results)
    page = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>safe2real: results</title><style>{STYLE}</style>"
    path.write_text(f"{page}<body>{head}{body}</body></html>")


def _section(artefact: Artefact, outcome: Outcome, seconds: float, base: Path) -> str:
    kind = "label" if "heuristic" in artefact.certified else "label certified"
    time = f" · runs took {seconds:.0f} s of one core" if seconds else ""
    parts = [
        f"<h2 id='{artefact.name}'>{html.escape(artefact.title)}</h2>",
        f"<p><span class='{kind}'>{html.escape(artefact.certified)}</span>{time} · "
        f"<code>safe2real reproduce {artefact.name}</code></p>",
    ]
    for figure in outcome.figures:
        data = base64.b64encode(figure.read_bytes()).decode()
        parts.append(f"<p><img alt='{html.escape(artefact.title)}' src='data:image/png;base64,{data}'></p>")
    if outcome.comparisons:
        parts.append(_comparisons(outcome.comparisons))
    if outcome.table:
        parts.append(_table(outcome.table))
    parts += [f"<p class='remark'>{html.escape(remark)}</p>" for remark in outcome.remarks]
    return "".join(parts)


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    words = {True: "<span class='yes'>yes</span>", False: "<span class='no'>no</span>", None: "no target"}
    rows = "".join(
        f"<tr><td>{html.escape(c.name)}</td><td>{c.paper}</td><td>{c.ours}</td><td>{c.ratio}</td><td>{words[c.within]}</td></tr>"
        for c in comparisons
    )
    return (
        "<table><tr><th>compared</th><th>paper</th><th>ours</th><th>ratio</th><th>within target</th></tr>"
        + rows
        + "</table>"
    )


def _table(markdown: str) -> str:
    lines = [line.strip("| \n").split(" | ") for line in markdown.strip().splitlines()]
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in lines[0])
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in lines[2:])
    return f"<table><tr>{head}</tr>{rows}</table>"
