"""The paper's instances of the windy grid: the order of windy cells, profiles of wind, and Figure 1(a)."""

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.paper.windy_instances import draw_grid, equispaced_wind, windy_order, with_mismatch
from safe2real.errors import InvalidInput
from safe2real.systems.windy_grid import WindyGrid
from tests.cases import each

PAPER = WindyGrid.paper()


@each("seed", range(5))
def test_priority_order(seed):
    order = windy_order(PAPER, seed)
    assert len(set(order)) == 25
    assert order[21:] == ((2, 1), (2, 2), (2, 3), (4, 0))
    distances = [abs(r - 2) + abs(c - 2) for r, c in order[:21]]
    assert distances == sorted(distances)
    assert set(order[:2]) == {(1, 2), (3, 2)}


def test_ties_depend_on_the_seed_alone():
    orders = {seed: windy_order(PAPER, seed) for seed in range(20)}
    assert len(set(orders.values())) > 10
    assert orders[7] == windy_order(WindyGrid(), 7)


@each("seed", [0, 1, 12])
def test_windy_sets_are_nested(seed):
    grids = [with_mismatch(n, 0.8, seed) for n in range(26)]
    for smaller, larger in itertools.pairwise(grids):
        assert larger.windy[: len(smaller.windy)] == smaller.windy
        assert (smaller.mismatch() <= larger.mismatch()).all()


def test_equispaced_wind_is_weakest_next_to_the_wall():
    assert equispaced_wind(3) == pytest.approx((0.2, 0.5, 0.8))
    assert equispaced_wind(1) == (0.2,)
    grid = with_mismatch(16, equispaced_wind(16), seed=4)
    distances = [abs(r - 2) + abs(c - 2) for r, c in grid.windy]
    assert distances == sorted(distances)
    assert np.diff(grid.wind) == pytest.approx(0.04)


@each(
    ("build", "message"),
    [
        (lambda: with_mismatch(26, 0.8, 0), r"num_windy is 26; .* 0 to 25"),
        (lambda: with_mismatch(3, 0.8, -1), r"seed is -1"),
        (lambda: windy_order(WindyGrid(wall=[]), 0), r"no wall"),
        (lambda: equispaced_wind(3, 0.8, 0.2), r"0\.8 to 0\.2; choose 0 < weakest"),
    ],
)
def test_what_is_no_instance_is_refused(build, message):
    with pytest.raises(InvalidInput, match=message):
        build()


@each(
    ("grid", "labels"),
    [
        (PAPER, ["start", "unsafe wall", "wind 0.8"]),
        (WindyGrid.paper(equispaced_wind(3)), ["start", "unsafe wall", "wind 0.2", "wind 0.5", "wind 0.8"]),
        (with_mismatch(16, equispaced_wind(16), 0), ["start", "unsafe wall", "wind 0.2", "wind 0.8"]),
        (WindyGrid(wall=[]), ["start"]),
    ],
)
def test_drawing_and_its_legend_fit_the_figure(grid, labels):
    figure = Figure(figsize=(5.8, 4.4), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_grid(grid, axes)
    canvas.draw()
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == labels
    frame = legend.get_window_extent()
    assert not frame.overlaps(axes.get_window_extent())
    assert frame.x1 <= figure.bbox.x1
