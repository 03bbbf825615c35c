"""What a table or figure of the paper is made of: the runs it needs, how to run one, and how to draw them all."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from experiments.store import Row, Task
from safe2real.standing import Standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY, PURPLE = "#2563a8", "#d9730d", "#2e8b57", "#6b7280", "#7b3fa0"
HEURISTIC = ("inferred constants (heuristic)", Standing.HEURISTIC)
"""The constants and the standing of most artefacts."""
COLOURS = {"sim-to-real safe RL": BLUE, "reward-free safe RL": ORANGE, "unconstrained sim-to-real RL": GREEN}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number of the paper beside ours."""

    name: str
    paper: str
    ours: str
    within: bool | None  # None where no target was set
    ratio: str = "-"
    why: str = ""  # where it is not within its target: what is known of the reason

    @classmethod
    def count(cls, name: str, wanted: int, found: int) -> Comparison:
        """A number that is met or not."""
        return cls(name, str(wanted), str(found), found == wanted)

    @classmethod
    def truth(cls, name: str, value: bool) -> Comparison:
        """A statement of the paper that is true of ours or not."""
        return cls(name, "yes", "yes" if value else "no", value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = (self.header, ["---"] * len(self.header), *self.rows)
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)


@dataclass(slots=True)
class Outcome:
    """What drawing an artefact gave: tables, figures, comparisons, remarks."""

    table: Table | None = None
    more: dict[str, Table] = field(default_factory=dict)  # further tables, by the name of their file
    figures: list[Path] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Artefact:
    """One table or figure: for a number of seeds the tasks that it needs, and from their rows the picture.

    `tasks` names what is to be run and runs nothing. `draw` gets the rows of these tasks, in their order, and a folder for
    its figures; it runs nothing either, so that a picture can be drawn anew from kept rows. What is the paper's stands in
    `printed`; each number of it that is compared with ours is a `Comparison`, with its target if one was set.
    """

    name: str
    title: str
    constants: str  # which ones it uses, in words
    standing: Standing  # what its runs are worth
    draw: Callable[[list[Row], Path], Outcome]
    tasks: Callable[[int | None], list[Task]] = lambda seeds: []  # number of seeds, or None for the paper's
    beyond_the_paper: bool = False  # done only when named


def save_figure(figure: Figure, folder: Path, name: str, outcome: Outcome) -> None:
    """PNG and PDF beside each other."""
    for ending in ("png", "pdf"):
        figure.savefig(folder / f"{name}.{ending}", dpi=160, bbox_inches="tight")
    outcome.figures.append(folder / f"{name}.png")


def save_rows(rows: Sequence[Row], folder: Path) -> None:
    """All rows as JSON, and their plain values as CSV."""
    (folder / "rows.json").write_text(json.dumps(list(rows), indent=1))
    flat = [
        {"id": row["id"], "version": row["version"], "seconds": row["seconds"]}
        | {f"settings.{key}": value for key, value in _plain(row["settings"]).items()}
        | _plain(row["result"])
        for row in rows
    ]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(flat)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in values.items() if not isinstance(value, (list, dict))}
    for key, value in values.items():
        if isinstance(value, dict):
            plain |= {f"{key}.{inner}": item for inner, item in value.items()}
    return plain


def draw_band(axes: Axes, across: ArrayLike, runs: Sequence[NDArray[Any]], colour: str, label: str, **style: Any) -> None:
    """The mean of each of `runs`, in a band from its smallest to its largest."""
    low, high = [run.min() for run in runs], [run.max() for run in runs]
    axes.fill_between(across, low, high, color=colour, alpha=0.25, linewidth=0)
    axes.plot(across, [run.mean() for run in runs], color=colour, label=label, **style)
