"""One self-contained page: every table and figure, the paper's value beside ours, what is certified, how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.artefact import Artefact, Outcome
from experiments.paper.inferred import INFERRED
from safe2real.report.page import render
from safe2real.standing import Standing
from safe2real.version import __version__

_COLOURS = {Standing.CERTIFIED: "certified", Standing.REFUTED: "refuted"}  # of labels; others are yellow


def write_report(
    results: Sequence[tuple[Artefact, Outcome, float]], path: Path, *, wall: float, cost: str, seeds: int | None
) -> None:
    """`results` holds each artefact with its outcome and the compute seconds of its runs; `cost` is the linprog estimate."""
    met = [c.within for _, outcome, _ in results for c in outcome.comparisons if c.within is not None]
    page = render(
        "report.html.jinja",
        folder=Path(__file__).parent,
        title="safe2real: results",
        version=__version__,
        seeds=seeds,
        met=sum(met),
        compared=len(met),
        heuristic=any(artefact.standing is Standing.HEURISTIC for artefact, _, _ in results),
        wall=wall,
        cost=cost,
        inferred=INFERRED,
        results=[
            {
                "artefact": artefact,
                "kind": _COLOURS.get(artefact.standing, ""),
                "seconds": seconds,
                "outcome": outcome,
                "pictures": [figure.read_bytes() for figure in outcome.figures],
            }
            for artefact, outcome, seconds in results
        ],
    )
    path.write_text(page)
