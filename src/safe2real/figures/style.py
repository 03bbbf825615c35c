"""What all pictures have in common: colours that colour-blind people can tell apart, and how a picture is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from safe2real.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED = "#2563a8", "#d9730d", "#2e8b57", "#b91c1c"
INK, PALE, LINES = "#374151", "#9ca3af", "0.92"
# Okabe and Ito's, without black; the pages' own blue, orange and green come first.
KINDS = (BLUE, ORANGE, GREEN, "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#7f7f7f")
_DOTS = 150  # for each inch of a file


def kept(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """The figure itself; with a `path` it is written there too, in the format that the name ends with.

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
