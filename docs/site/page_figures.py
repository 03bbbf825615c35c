"""A matplotlib backend for the tutorials: `plt.show()` puts the figure into the page, as an SVG in the colours of the page.

The tutorials stay plain programs. MkDocs runs them with MPLBACKEND=module://page_figures (pages.py); at home the same
`plt.show()` opens a window. Lines and letters that are black become the colour of the text, in light and in dark.
"""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

__all__ = ["FigureCanvas", "show"]

STYLE = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",  # letters, not outlines: the page's own font, and found by its search
    "svg.hashsalt": "safe2real",  # the same figure is the same text
}
matplotlib.rcParams.update(STYLE)


def show(*_: Any, **__: Any) -> None:
    """Print every open figure as HTML, where the block's own `print` goes, and close it."""
    printed = _print_of_the_block()
    for number in pyplot.get_fignums():
        text = io.StringIO()
        pyplot.figure(number).savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
        printed(f'<div class="figure">{in_page_colours(text.getvalue())}</div>')
    pyplot.close("all")


def in_page_colours(svg: str) -> str:
    """The <svg> element alone, black as `currentColor`, as wide as the page allows."""
    element = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    return re.sub(
        r'<svg ([^>]*?)width="([\d.]+)pt"',
        r'<svg \1style="max-width: \2pt"',
        re.sub(r' height="[\d.]+pt"', "", element, count=1),
    )


def _print_of_the_block() -> Any:
    """markdown-exec collects what a block prints by giving the block a `print` of its own."""
    frame: Any = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<code block"):
        frame = frame.f_back
    return print if frame is None else frame.f_globals["print"]
