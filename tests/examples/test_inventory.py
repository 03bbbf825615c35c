"""The shop of the case study: few episodes, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

import inventory
import numpy as np
import pytest
from inventory_figure import draw

import safe2real as s2r


@pytest.fixture(scope="module")
def studied():
    inventory.REPETITIONS, before = 5, inventory.REPETITIONS
    yield inventory.study(looks=(20, 60))
    inventory.REPETITIONS = before


def of(studied, begins):
    (row,) = [row for row in studied[0] if row.name.startswith(begins)]
    return row


def test_winter_is_shifted_by_the_stated_gap_and_the_other_seasons_are_right():
    gaps = {name: 0.5 * np.abs(np.subtract(law, inventory.BELIEVED[name])).sum() for name, law in inventory.REAL.items()}
    assert gaps == pytest.approx({"spring": 0.0, "summer": 0.0, "autumn": 0.0, "winter": 0.4})
    assert inventory.shop(inventory.REAL).model.kernel.shape == (64, 6)


def test_the_limit_binds_and_the_margin_is_there(studied):
    assert of(studied, "optimum").cost == pytest.approx(inventory.LIMIT)
    assert of(studied, "baseline").cost <= inventory.LIMIT - inventory.MARGIN
    blind = of(studied, "the simulator's plan")
    assert blind.cost > inventory.LIMIT + 1.0
    assert blind.earned > of(studied, "optimum").earned


def test_declared_structure_makes_few_episodes_useful(studied):
    certified, best = of(studied, "certified, declared exact"), of(studied, "optimum")
    assert certified.promised <= certified.earned <= best.earned
    assert certified.promised > 0.95 * best.earned
    assert certified.cost <= inventory.LIMIT
    for declared in ("certified, declared, not exact", "certified, not declared"):
        assert of(studied, declared).promised < of(studied, "baseline").earned


def test_what_is_not_called_exact_changes_nothing_but_finds_the_candidate(studied):
    _, course = studied
    assert course["declared, not exact"] == course["not declared"]
    assert of(studied, "candidate").earned > 0.95 * of(studied, "optimum").earned


def test_nothing_unsafe_was_deployed_and_the_optimum_is_in_every_interval(studied):
    best = of(studied, "optimum").earned
    for looks in studied[1].values():
        for _, low, high, unsafe in looks:
            assert low - 1e-9 <= best <= high + 1e-9
            assert unsafe == 0.0


def test_the_certificate_names_the_structure():
    known = inventory.shop(inventory.BELIEVED)
    baseline = s2r.MarkovPolicy.deterministic([5] * 64, num_actions=6, horizon=inventory.HORIZON)
    settings = s2r.Settings(margin=1.5, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.375)
    certificate = (
        s2r.Learner(s2r.Problem(known.model, baseline, settings, ties=known.ties)).plan(known.system.reward).certificate
    )
    assert certificate.certified
    assert certificate.assumptions[0].code == "ties"


def test_the_figure_and_the_length(studied, tmp_path):
    draw(*studied, inventory.LIMIT).savefig(tmp_path / "inventory.png", dpi=40)
    assert (tmp_path / "inventory.png").stat().st_size > 5_000
    assert len(Path(inventory.__file__).read_text().splitlines()) <= 100
