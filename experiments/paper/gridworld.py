"""Figure 1(a): start, unsafe wall, windy cells."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from experiments.artefact import Artefact, Outcome, save_figure
from experiments.paper.windy_instances import draw_grid
from experiments.store import Row
from safe2real.standing import Standing
from safe2real.systems.windy_grid import WindyGrid


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    figure = Figure(figsize=(4.6, 3.4))
    draw_grid(WindyGrid.paper(), figure.add_subplot())
    save_figure(figure, folder, "gridworld", outcome)
    outcome.remarks.append("The three windy cells are inferred: the paper's figure is not part of its source.")
    return outcome


ARTEFACT = Artefact("gridworld", "Figure 1(a): the gridworld", "no constants", Standing.CERTIFIED, draw)
