"""The page of a check: the verdict, what is recommended, what was found, and the figure, in one file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from safe2real.preflight.check import Preflight
from safe2real.preflight.findings import WORTH, Level
from safe2real.report.page import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def preflight_page(found: Preflight, figure: Figure, name: str) -> str:
    """The page as text; `figure` is that of `draw_preflight`, `name` says what was checked."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    worst_first = sorted(found.findings, key=lambda finding: list(Level).index(finding.level), reverse=True)
    return render(
        "preflight.html.jinja",
        title=f"Pre-flight of {name}",
        found=found,
        findings=worst_first,
        worth=WORTH[found.standing],
        picture_of=picture.getvalue(),
    )
