"""The study on ICU-Sepsis, with few patients."""

import pytest

from experiments.studies.sepsis_system import LEAST_SURVIVAL, MARGIN, installed_records

if installed_records() is None:
    pytest.skip("the package icu-sepsis is not installed", allow_module_level=True)

from experiments.studies.sepsis_runs import sepsis_floor_run, sepsis_trial_run


def test_the_floor_begins_with_what_is_assumed_of_the_clinicians():
    found = sepsis_floor_run({"seed": 0, "first": 600, "every": 600, "most": 700, "records": "2.0.1"})
    assert [point["patients"] for point in found["points"]] == [700]
    assert found["points"][0]["floor"] == LEAST_SURVIVAL + MARGIN < found["points"][0]["survival"]
    assert (found["mixtures"], found["unsafe_rounds"], found["lost"], found["false"]) == (2, 0, 0, 0)
    assert found["lowest"] >= LEAST_SURVIVAL


def test_a_trial_is_looked_at_after_every_batch():
    found = sepsis_trial_run({"seed": 0, "most": 200, "records": "2.0.1"})
    assert [point["patients"] for point in found["points"]] == [50, 100, 150, 200]
    floors = [point["floor"] for point in found["points"]]
    assert 0.0 < floors[0] <= floors[-1] < found["points"][-1]["survival"]
    assert (found["unsafe_rounds"], found["false"]) == (0, 0)
