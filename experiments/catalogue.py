"""What can be asked for by name, without importing it: drawing takes a second and a half to import.

A new table or figure is one file in `paper` or `studies` and a line in `_MODULES`. The file holds an `Artefact`, called
`ARTEFACT`: the runs it needs for so many seeds, and how to draw them all (see `artefact.py`). A kind of run that no other
artefact has is a function from plain settings to plain results; give it a module of its own that draws nothing, because runs
are kept until a source that their module imports changes. What the paper prints goes to `printed.py`, to stand beside ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from safe2real.errors import InvalidInput, needed_for

if TYPE_CHECKING:
    from experiments.artefact import Artefact

_MODULES = {  # in the paper's order, then further studies
    "table1": "paper.table1",
    "gridworld": "paper.gridworld",
    "safety": "paper.safety",
    "heatmaps": "paper.heatmaps",
    "mismatch-size": "paper.mismatch_size",
    "separation": "paper.separation",
    "estimation": "paper.estimation",
    "misspecification": "paper.misspecification",
    "bounds": "paper.bounds",
    "certified": "studies.certified",
    "comparison": "studies.comparison",
}
NAMES = tuple(_MODULES)


def artefact_of(name: str) -> Artefact:
    """The artefact of that name."""
    with needed_for("tables and figures of the paper", "report"):
        found: Artefact = import_module(f"experiments.{_MODULES[name]}").ARTEFACT
    return found


def check_names(names: Sequence[str]) -> None:
    """Refuse names of artefacts that there are not."""
    for name in names:
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(NAMES)}"
            raise InvalidInput(f"there is no artefact called {name!r}; {hint}")
