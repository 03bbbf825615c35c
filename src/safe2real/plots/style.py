"""The common style of all pictures: colours, names, axes, legends at the foot, saving."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput, needed_for
from safe2real.model.validation import ROUNDING, Floats

with needed_for("figures", "report"):
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

BLUE, ORANGE, GREEN, RED = "#2563a8", "#d9730d", "#2e8b57", "#b91c1c"
INK, PALE, LINES = "#374151", "#9ca3af", "0.92"
# Okabe and Ito's, which colour-blind people can tell apart, without black; the pages' own blue, orange and green come first.
KINDS = (BLUE, ORANGE, GREEN, "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#7f7f7f")
MOST_PANELS = 6  # of one picture
_DOTS = 150  # for each inch of a file
_HANDLE, _LETTER = 0.55, 0.072  # inches, of a mark in a legend with the space beside it, and of a letter of its label
_POINTS = 1_000  # columns of a curve; a picture has not many more


def kept(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """Return the figure; with a `path` write it there too, in the format that the name ends with.

    Raises:
        InvalidInput: the name ends with no format that matplotlib writes, or the place cannot be written.
    """
    if path is None:
        return figure
    ending = Path(path).suffix[1:].lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if ending not in known:
        raise InvalidInput(f"path is {os.fspath(path)!r}; let it end with one of {', '.join(known)}, e.g. picture.png")
    try:
        figure.savefig(path, dpi=_DOTS)
    except OSError as error:
        raise InvalidInput(
            f"path is {os.fspath(path)!r}, which cannot be written ({error.strerror}); choose another"
        ) from error
    return figure


def panel(figure: Figure, left: float, below: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches."""
    total_width, total_height = figure.get_size_inches()
    return figure.add_axes((left / total_width, below / total_height, width / total_width, height / total_height))


def write_title(figure: Figure, left: float, above: float, text: str, size: float, weight: str = "normal") -> None:
    """Write a line at a distance in inches from the left and from the top."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1.0 - above / height, text, fontsize=size, weight=weight, va="center", parse_math=False)


def explain(figure: Figure, handles: Sequence[Artist], columns: int, left: float = 0.15) -> None:
    """Write the legend of the marks at the foot of a picture."""
    width, height = figure.get_size_inches()
    if handles:
        figure.legend(handles=list(handles), loc="lower left", bbox_to_anchor=(left / width, 0.06 / height), ncols=columns,
                      fontsize=8.5, frameon=False, borderaxespad=0.0, borderpad=0.0)  # fmt: skip


def columns_within(handles: Sequence[Artist], width: float, most: int) -> int:
    """Return the number of columns, up to `most`, in which the legend of `explain` is at most `width` inches wide."""
    lengths = [_HANDLE + _LETTER * len(str(handle.get_label())) for handle in handles]
    for columns in range(min(most, len(lengths)), 1, -1):
        if sum(max(part) for part in np.array_split(lengths, columns)) <= width:
            return columns
    return 1


def shortened(name: str, longest: int) -> str:
    """Cut a name that is longer than `longest` characters."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def count_deployments(axes: Axes) -> None:
    """Make the axis below one of whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def draw_uncertainty(axes: Axes, across: NDArray[np.int64], values: Floats, tolerance: float) -> None:
    """Draw the uncertainty of any policy's value, and the tolerance; nan or inf where there is no bound."""
    shown = np.flatnonzero(np.isfinite(values))
    shown = shown[thinned(values[shown])]
    dots = "." if len(shown) <= 1 else ""  # one point alone is no line
    axes.plot(across[shown], values[shown], color=BLUE, linewidth=1.3, marker=dots, label="uncertainty of a value")
    axes.axhline(tolerance, color="black", linestyle="--", linewidth=1.0, label=f"tolerance {tolerance:.4g}: the stop")
    if tolerance > 0.0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("uncertainty", color=BLUE)
    axes.grid(axis="y", color=LINES)


def draw_suspects(axes: Axes, across: NDArray[np.int64], suspects: NDArray[np.int64], colour: str) -> None:
    """Draw the number of rows in doubt on an axis to the right."""
    right = axes.twinx()
    right.step(across, suspects, where="post", color=colour, linewidth=1.3)
    right.set_ylim(0, max(1.0, 1.06 * suspects.max(initial=1)))
    right.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    right.set_ylabel("rows in doubt", color=colour)
    right.tick_params(axis="y", colors=colour)


def thinned(values: Floats) -> NDArray[np.int64]:
    """Return the points of a long curve to draw: the lowest and the highest of each column, and all below 0."""
    if len(values) <= 2 * _POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), _POINTS + 1).astype(np.int64)
    lowest = [first + int(np.argmin(values[first:last])) for first, last in pairwise(edges)]
    highest = [first + int(np.argmax(values[first:last])) for first, last in pairwise(edges)]
    return np.unique(np.concatenate([lowest, highest, np.flatnonzero(values < -ROUNDING), [0, len(values) - 1]]))
